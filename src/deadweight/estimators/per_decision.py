r"""Per-decision importance sampling (PDIS, WPDIS and, with a drop, SPDIS, WSPDIS).

.. math:: \hat G = \frac1n \sum_i \sum_t \gamma^t W^{(i)}_t r^{(i)}_t, \qquad W_t = \prod_{j \le t} k_j

A reward is weighted by the ratios up to its own step only. Precup, Sutton & Singh (2000).
"""

from __future__ import annotations

from dataclasses import dataclass

from deadweight.estimators.product import Normalised, Terms
from deadweight.sums.summaries import ColumnSums
from deadweight.sums.walks import Walk
from deadweight.sums.weighted_block import WeightedBlock
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
