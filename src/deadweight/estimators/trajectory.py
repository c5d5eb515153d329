r"""Importance sampling of whole episodes (IS, WIS and, with a drop, SIS, WSIS).

.. math:: \hat G = \frac1n \sum_i B_i G_i, \qquad B_i = \prod_t k^{(i)}_t

One term an episode: the product of all its kept ratios, and its return. Precup, Sutton & Singh (2000);
the state-based variant is the paper's Section IV.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from deadweight.estimators.family import Fit
from deadweight.estimators.product import Terms
from deadweight.sums.blocks import Block
from deadweight.sums.running import Running
from deadweight.sums.summaries import Moments
from deadweight.sums.walks import Walk
from deadweight.sums.weighted_block import WeightedBlock


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
