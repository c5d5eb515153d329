r"""Doubly robust estimation (DR, WDR and, with a drop, DRSIS, WDRSIS).

.. math:: \hat G = \sum_i \sum_t \gamma^t \left[ w_{it} (r_{it} - Q_t(s,a)) + w_{i,t-1} V_t(s) \right]

with w_it = W_it / n, or W_it / sum_j W_jt when weighted, and w_{i,-1} = 1 / n. The model's value is the
baseline and the ratios weigh only what it gets wrong. Jiang & Li (2016); Thomas & Brunskill (2016).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.estimators.product import Terms
from deadweight.fields import Field
from deadweight.weighted_block import WeightedBlock


@dataclass(frozen=True)
class DoublyRobust:
    """Terms of DR: (W_t, r_t - Q_t) and (W_{t-1}, V_t) for each step.

    Attributes:
      q: action values of the actions taken.
      v: state values.
    """

    q: Field
    v: Field

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """Two terms a step; the second's weight is carried one step past the end."""
        q, v = self.q.on(block.steps), self.v.on(block.steps)
        before = np.concatenate([v, np.zeros((block.n, 1))], axis=1)
        weights = block.running
        return [
            Terms(weights, block.rewards - q, counted=block.members(finished)),
            Terms(weights.lagged, before, counted=block.members(finished, lagged=True)),
        ]
