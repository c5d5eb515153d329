"""A weighted block: the steps of a block together with the ratios of one weighting, each quantity by name.

This is what the terms of an estimator are made of. Whatever is asked for is computed once and shared by all
estimators that have the same weighting.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from deadweight.sums.blocks import Block
from deadweight.sums.running import Running, running_product
from deadweight.sums.summaries import NOTHING, Kish
from deadweight.sums.walks import Walk, step_sizes, walk
from deadweight.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from deadweight.sums.weighting import Weighting


class WeightedBlock:
    """m episodes of at most H steps, with their ratios.

    Attributes:
      steps: the block itself.
      weighting: the policies, and what is dropped.
    """

    def __init__(self, steps: Block, weighting: Weighting) -> None:
        self.steps, self.weighting = steps, weighting
        self._kept: FloatArray | None = None
        self._walks: dict[float, Walk | None] = {}

    @property
    def n(self) -> int:
        """Number of episodes, m."""
        return self.steps.n

    @property
    def horizon(self) -> int:
        """H, the longest of them."""
        return self.steps.horizon

    @property
    def alive(self) -> BoolArray | None:
        """(m, H) False on padding; None when there is none."""
        return self.steps.alive

    @property
    def rewards(self) -> FloatArray:
        """(m, H), 0 on padding."""
        return self.steps.rewards

    def members(self, finished: str, lagged: bool = False) -> BoolArray | None:
        """(m, H) who is in a per-step normaliser, see `Block.members`."""
        return self.steps.members(finished, lagged)

    @cached_property
    def full(self) -> FloatArray:
        """(m, H) rho_t, 1 on padding, whatever is dropped."""
        plain = self.weighting.undropped
        return self.kept if self.weighting == plain else plain.on(self.steps).kept

    @cached_property
    def dropped(self) -> BoolArray | None:
        """(m, H) True where the ratio is dropped; None when none is."""
        drop = self.weighting.drop
        return None if drop is None else drop.on(self.steps)

    @property
    def kept(self) -> FloatArray:
        """(m, H) k_t: rho_t, or 1 where the ratio is dropped; 1 on padding."""
        if self._kept is None:
            self._kept = self._ratios()
        return self._kept

    def _ratios(self) -> FloatArray:
        table = self.weighting.table
        if table is not None:
            return table.on(self.steps)
        marks = self.dropped
        if marks is None:
            return self.weighting.quotients(self.steps)
        rho = self.full
        return np.where(marks & ~np.isnan(rho), 1.0, rho)

    @cached_property
    def running(self) -> Running:
        """(m, H) cumulative kept weights W_t; after the end they keep their last value."""
        table = self.weighting.table
        if table is None:
            return running_product(self.kept)
        if self._kept is not None:
            return running_product(self._kept, table.log_bound)
        # The products take the place of the ratios in memory. Few need both; they look the ratios up again.
        return running_product(table.on(self.steps), table.log_bound, overwrite=True)

    @cached_property
    def summed(self) -> Running:
        """(m, H) the same to first order, 1 + sum over u <= t of (k_u - 1)."""
        weights = np.cumsum(self.kept - 1.0, axis=1)
        weights += 1.0
        return Running(weights)

    @cached_property
    def final(self) -> Running:
        """(m, 1) whole weights B, from a walk where one can be made, else from the running products."""
        made = next((made for made in self._walks.values() if made is not None), None)
        if made is None and "running" not in vars(self):
            made = self.walk(1.0)
        return self.running.last.contiguous if made is None else Running(made.final[:, None])

    def step_sizes(self, finished: str) -> Kish:
        """Sums of the weights of each step and of their squares, for effective sample sizes."""
        members = self.members(finished)
        if members is None:
            walked = step_sizes(self.steps, self.weighting.for_kernel(self.steps.log))
            if walked is not None:
                weight, squares = walked
                return Kish(True, np.where(weight == 0, NOTHING, 0), weight, squares)
        return Kish.of(self.running, members)

    def returns(self, gamma: float) -> FloatArray:
        """(m,) discounted return of each episode."""
        return self.steps.returns(gamma)

    def walk(self, gamma: float) -> Walk | None:
        """All sums of one pass by the kernel; None where it takes neither this block nor these ratios."""
        if gamma not in self._walks:
            made = walk(self.steps, self.weighting.for_kernel(self.steps.log), gamma)
            self._walks[gamma] = made
            if made is not None:
                self.steps.walked_returns.setdefault(gamma, made.returns)
        return self._walks[gamma]
