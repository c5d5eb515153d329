r"""Per-decision importance sampling (PDIS, WPDIS and, with a drop, SPDIS, WSPDIS).

.. math:: \hat G = \frac1n \sum_i \sum_t \gamma^t W^{(i)}_t r^{(i)}_t, \qquad W_t = \prod_{j \le t} k_j

A reward is weighted by the ratios up to its own step only. Precup, Sutton & Singh (2000).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from deadweight.estimators.influence import Cells, QUse
from deadweight.estimators.product import Fit, Normalised, Terms
from deadweight.sums.blocks import Block, Field, Table
from deadweight.sums.running import Running
from deadweight.sums.summaries import ColumnSums, Moments
from deadweight.sums.weighting import Walk, WeightedBlock
from deadweight.typing import FloatArray


@dataclass(frozen=True)
class PerDecision:
    """Terms of PDIS: (W_t, r_t) for each step."""

    lane = "steps"

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step; after the end the weight stays and the reward is zero."""
        return [Terms(block.running, block.rewards, counted=block.members(finished))]

    def walked(self, walk: Walk) -> WalkedSteps:
        """The same from a walk."""
        return WalkedSteps(walk)


@dataclass(frozen=True, eq=False)
class WalkedSteps:
    """The terms of PDIS as far as a walk has summed them."""

    walk: Walk

    def column_sums(self) -> ColumnSums:
        """Sums of each step."""
        return ColumnSums.in_units_of_one(len(self.walk.final), self.walk.weight, self.walk.weighted)

    def plain(self, gamma: float) -> FloatArray:
        """(m,) sums over the steps, discounted: the walk has done that already."""
        return self.walk.plain

    def influence(self, on: Normalised) -> FloatArray:
        """(m,) influence of the episodes on the self-normalised sum, up to a constant."""
        return self.walk.influence(on.slope, on.pull)


# --------------------------------------------------------------------------------------------------------
# Importance sampling of whole episodes (IS, WIS and, with a drop, SIS, WSIS).
#
# .. math:: \hat G = \frac1n \sum_i B_i G_i, \qquad B_i = \prod_t k^{(i)}_t
#
# One term an episode: the product of all its kept ratios, and its return. Precup, Sutton & Singh (2000);
# the state-based variant is the paper's Section IV.


@dataclass(frozen=True)
class WholeEpisode:
    """Terms of IS: (B_i, G_i)."""

    lane = "whole"

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term; ended episodes are no matter here."""
        return [Terms(block.final, block.returns(gamma)[:, None], per_step=False)]

    def walked(self, walk: Walk) -> Terms:
        """The same from a walk."""
        return Terms(Running(walk.final[:, None]), walk.returns[:, None], per_step=False)


class Behaviour:
    """BEHAVIOUR: the mean return as logged, the naive average that any estimate should beat."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    @property
    def key(self) -> Hashable:
        """One for each discount."""
        return ("behaviour", self.gamma)

    def summarise(self, block: Block) -> Moments:
        """Moments of the returns."""
        return Moments.of(block.returns(self.gamma))

    def finish(self, summary: Moments, weighted: bool) -> Fit:
        """Their mean."""
        return Fit(summary.mean, std_error=summary.std_error)


# --------------------------------------------------------------------------------------------------------
# Doubly robust estimation (DR, WDR and, with a drop, DRSIS, WDRSIS).
#
# .. math:: \hat G = \sum_i \sum_t \gamma^t \left[ w_{it} (r_{it} - Q_t(s,a)) + w_{i,t-1} V_t(s) \right]
#
# with w_it = W_it / n, or W_it / sum_j W_jt when weighted, and w_{i,-1} = 1 / n. The model's value is the
# baseline and the ratios weigh only what it gets wrong. Jiang & Li (2016); Thomas & Brunskill (2016).


@dataclass(frozen=True)
class DoublyRobust:
    """Terms of DR: (W_t, r_t - Q_t) and (W_{t-1}, V_t) for each step.

    Attributes:
      q: action values of the actions taken.
      v: state values.
      pi_e: (S, A) the policy whose values they are.
    """

    q: Field
    v: Field
    pi_e: FloatArray = field(compare=False)  # equal values make equal terms
    n_groups = 2
    lane = "robust"

    def weights(self, block: WeightedBlock) -> Running:
        """(m, H) after each step."""
        return block.running

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """Two terms a step; the second's weight is carried one step past the end."""
        q, v = self.q.on(block.steps), self.v.on(block.steps)
        before = np.concatenate([v, np.zeros((block.n, 1))], axis=1)
        weights = self.weights(block)
        return [
            Terms(weights, block.rewards - q, counted=block.members(finished)),
            Terms(weights.lagged, before, counted=block.members(finished, lagged=True)),
        ]

    @property
    def has_tables(self) -> bool:
        """Whether all values are tables, which the walks along lanes need."""
        return all(isinstance(one, Table) for one in self._fields)

    @property
    def by_time(self) -> bool:
        """Whether these tables have a value for each step."""
        return all(isinstance(one, Table) and one.by_time for one in self._fields)

    @property
    def _fields(self) -> list[Field]:
        return [one for field in (self.q, self.v) for one in getattr(field, "fields", (field,))]

    @property
    def uses(self) -> tuple[QUse, QUse]:
        """Minus Q_t in the first term, V_t in the second."""
        return QUse(0), QUse(1, self.pi_e)

    def used(self, block: WeightedBlock) -> tuple[Cells, Cells]:
        """Every step, with the weight after it and with the one before."""
        steps, weights = block.steps, self.weights(block)
        before = weights.lagged.first(block.horizon)
        pairs = steps.pairs(self.pi_e.shape[1])
        return Cells(weights, pairs, steps.alive), Cells(before, steps.states, steps.alive)


# --------------------------------------------------------------------------------------------------------
# LIN: the weights of a doubly robust estimate to first order, all lags and one ratio at a time.
#
# With :math:`\delta_t = r_t + \gamma V_{t+1}(s_{t+1}) - Q_t(s_t, a_t)` the value is, whatever the model,
#
# .. math:: V(\pi_e) = \mathrm{DM} + \sum_t \gamma^t \, E_b \Big[ \prod_{u \le t} \rho_u \, \delta_t \Big]
#
# and :math:`\prod (1 + (\rho_u - 1))` to first order in what the policies differ by gives
#
# .. math:: \mathrm{LIN} = \mathrm{DM} + \frac1n \sum_i \sum_t \gamma^t
#    \Big( 1 + \sum_{u \le t} (\rho_{iu} - 1) \Big) \, \delta_{it}
#
# It is right if the model is, or if what the model misses is additive in past actions. Its variance grows
# with the square of the horizon where that of products grows exponentially; so it sees what actions do many
# steps later. What only shows in two actions together (their parity, say) it does not see. The derivation and
# its relatives are in docs/headline.md.


@dataclass(frozen=True)
class Linear(DoublyRobust):
    """Terms of DR with 1 + sum (rho_u - 1) in place of the product of the ratios."""

    lane = ""  # its weights are no products

    def weights(self, block: WeightedBlock) -> Running:
        """(m, H) after each step; after the end they keep their last value."""
        return block.summed


# --------------------------------------------------------------------------------------------------------
# The correction (C-SIS, C-WSIS, C-SPDIS, C-WSPDIS), and with it the bias of every state-based estimate.
#
# Dropping the ratios of a set D evaluates mu_D, the policy equal to pi_b on D and to pi_e elsewhere. By the
# performance-difference lemma the value that is lost is
#
# .. math:: m = \frac1n \sum_i \sum_t \gamma^t B_{1:t-1} \, 1\{s_t \in D\} \, \delta_t(s_t), \qquad
#    \delta_t(s) = \sum_a (\pi_e(a|s) - \pi_b(a|s)) \, Q_t(s, a)
#
# With the fitted Q this is a low-noise estimate of -bias, where the empirical Cov(A, BG) carries all the
# noise that dropping was to avoid. The corrected estimators add m; weighted ones with self-normalised B.


@dataclass(frozen=True)
class MissingAdvantage:
    """Terms of m: (B_{1:t-1}, delta_t(s_t)) at each dropped step.

    Attributes:
      delta: of each step.
      gain: (S, A) pi_e - pi_b, of which delta is the sum with Q_t.
    """

    delta: Field
    gain: FloatArray = field(compare=False)  # equal values of delta make equal terms
    n_groups = 1
    lane = "lost"

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step, zero where the ratio was kept; the weight goes on one step past the end."""
        values = np.zeros((block.n, block.horizon + 1))
        if block.dropped is not None:
            values[:, :-1] = np.where(block.dropped, self.delta.on(block.steps), 0.0)
        members = block.members(finished)
        if members is not None:
            members = np.concatenate([members, np.zeros((block.n, 1), dtype=bool)], axis=1)
        return [Terms(block.running.lagged, values, counted=members)]

    @property
    def uses(self) -> tuple[QUse]:
        """The advantage of a dropped step."""
        return (QUse(0, self.gain),)

    def used(self, block: WeightedBlock) -> tuple[Cells]:
        """The dropped steps, with the weight before them."""
        before, states = block.running.lagged.first(block.horizon), block.steps.states
        nowhere = np.zeros(states.shape, dtype=bool)
        return (Cells(before, states, nowhere if block.dropped is None else block.dropped),)
