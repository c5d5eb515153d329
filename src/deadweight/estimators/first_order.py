r"""LIN: the weights of a doubly robust estimate to first order, all lags and one ratio at a time.

With :math:`\delta_t = r_t + \gamma V_{t+1}(s_{t+1}) - Q_t(s_t, a_t)` the value is, whatever the model,

.. math:: V(\pi_e) = \mathrm{DM} + \sum_t \gamma^t \, E_b \Big[ \prod_{u \le t} \rho_u \, \delta_t \Big]

and :math:`\prod (1 + (\rho_u - 1))` to first order in what the policies differ by gives

.. math:: \mathrm{LIN} = \mathrm{DM} + \frac1n \sum_i \sum_t \gamma^t
   \Big( 1 + \sum_{u \le t} (\rho_{iu} - 1) \Big) \, \delta_{it}

It is right if the model is, or if what the model misses is additive in past actions. Its variance grows with
the square of the horizon where that of products grows exponentially; so it sees what actions do many steps
later. What only shows in two actions together (their parity, say) it does not see. The derivation and its
relatives are in docs/headline.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from deadweight.estimators.doubly_robust import DoublyRobust
from deadweight.sums.running import Running
from deadweight.sums.weighted_block import WeightedBlock


@dataclass(frozen=True)
class Linear(DoublyRobust):
    """Terms of DR with 1 + sum (rho_u - 1) in place of the product of the ratios."""

    lane = ""  # its weights are no products

    def weights(self, block: WeightedBlock) -> Running:
        """(m, H) after each step; after the end they keep their last value."""
        return block.summed
