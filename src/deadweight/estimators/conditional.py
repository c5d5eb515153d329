r"""Conditional importance sampling (CIS): the weight replaced by its mean given less than the whole past.

.. math:: \hat G = \frac1n \sum_i \sum_t \gamma^t r_t \, E[\rho_{1:t} \mid \phi_t]

Given the state: r_t rho_t E[rho_{1:t-1} | s_t] by means over all visits of (t, s), which is marginalised
importance sampling without propagation. Given the reward, E[rho_{1:t} | r_t] by means over equal rewards of
step t; given the return, G E[rho_{1:H} | G]. With bins of one value the last two are PDIS and IS again,
which is a good test and no reason to use them. Rowland et al. (2020).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.estimators.family import Fit
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import KeyedSums
from deadweight.sums.weighting import Weighting
from deadweight.typing import AnyArray, FloatArray


@dataclass(frozen=True, eq=False)
class ConditionalSums:
    """Per condition: visits, sum of weights, sum of what they weigh."""

    n: int
    sums: KeyedSums

    def merge(self, other: ConditionalSums) -> ConditionalSums:
        """Both together."""
        return ConditionalSums(self.n + other.n, self.sums.merge(other.sums))


@dataclass(frozen=True, eq=False)
class _Cells:
    """One weight and one value a cell, and the condition under which weights are averaged."""

    keys: AnyArray  # (m, C) equal keys: equal conditions
    weights: FloatArray  # (m, C)
    values: FloatArray  # (m, C), discounted; zero on padding


class Conditional:
    """CIS given the "state", the "reward" or the "return"."""

    def __init__(self, weighting: Weighting, gamma: float, given: str = "state") -> None:
        self.weighting, self.gamma, self.given = weighting, gamma, given

    @property
    def key(self) -> Hashable:
        """Everything that the sums depend on."""
        return ("conditional", self.weighting, self.gamma, self.given)

    def summarise(self, block: Block) -> ConditionalSums:
        """Sums by condition."""
        with np.errstate(over="ignore", invalid="ignore"):  # too large a weight is flagged in `finish`
            cells = self._cells(block)
        flat = np.ravel if self.given == "return" else block.flat  # one cell an episode, or one a step
        sums = KeyedSums.of(flat(cells.keys), 1.0, flat(cells.weights), flat(cells.values))
        return ConditionalSums(block.n, sums)

    def finish(self, summary: ConditionalSums, weighted: bool) -> Fit:
        """Sum over conditions of (sum of values) times (mean weight)."""
        number, weights, values = summary.sums.sums
        mean_weight, mean_value = weights / number, values / number
        keys = summary.sums.keys
        with np.errstate(over="ignore", invalid="ignore"):
            value = float((values * mean_weight).sum() / summary.n)
        influence = partial(self._influence, keys=keys, mean_weight=mean_weight, mean_value=mean_value)
        return Fit(value, influence=influence, flags=() if np.isfinite(value) else ("overflow",))

    def _influence(
        self, block: Block, keys: AnyArray, mean_weight: FloatArray, mean_value: FloatArray
    ) -> FloatArray:
        """(m,) influence of a block's episodes, up to a constant; the means are those of the sorted keys."""
        with np.errstate(over="ignore", invalid="ignore"):
            cells = self._cells(block)
            at = np.minimum(np.searchsorted(keys, cells.keys), len(keys) - 1)
            w, y = mean_weight[at], mean_value[at]
            both = cells.values * w + y * (cells.weights - w)
            if block.alive is not None and self.given != "return":
                both = np.where(block.alive, both, 0.0)
            total: FloatArray = np.add.reduce(both, axis=1)
        return total

    def _cells(self, block: Block) -> _Cells:
        weighted = self.weighting.on(block)
        weights = weighted.running
        if self.given == "return":
            returns = block.returns(self.gamma)[:, None]
            return _Cells(returns, weights.last.linear(), returns)
        discount = self.gamma ** np.arange(block.horizon)
        rewards = block.rewards * discount
        if self.given == "reward":
            # A complex number sorts and compares as the pair (t, r).
            return _Cells(block.times + 1j * block.rewards, weights.linear(), rewards)
        before = weights.lagged.linear()[:, :-1]
        return _Cells(
            block.times * self.weighting.pair.n_states + block.states,
            before,
            rewards * weighted.kept,
        )
