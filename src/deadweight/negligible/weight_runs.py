r"""Runs: how the weights of a block of episodes change along a path of nested drop sets.

An episode's weight changes only at the levels that drop a state it visits. With its steps in the order in
which they are dropped, the weight before step t with the first c of them dropped is

.. math:: F_{c,t} = \prod_{c' \ge c,\; t_{c'} < t} \rho_{c'}

a running product from the last step to the first: ratios are multiplied, never divided out, so that zeros are
nothing special. F holds for a run of levels, from the one that drops the c-th step up to the next.
"""

from __future__ import annotations

import numpy as np

from deadweight.negligible.levels import Levels
from deadweight.sums.blocks import Block, powers
from deadweight.sums.fields import Field
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray


class Runs:
    """Weights and missing advantages of a block at every number of dropped steps.

    Args:
      block: m episodes of at most H steps.
      weighting: the full ratios.
      levels: the nested drop sets, K + 1 of them.
      delta: advantage that a dropped visit loses.
      gamma: discount.
      spare: columns to leave free in the table.

    Attributes:
      order: (H, m) the level that drops each step, ascending; K + 1 for steps never dropped and padding.
      weights: (H + 1, m, H + 1) F, by number of dropped steps, episode and t; the last t is the whole weight.
      lost: (H + 1, m, H) discounted F * delta of the dropped steps, zero elsewhere.
      table: (H + 1, m, 2 H + 1 + spare) these two side by side, and the free columns.
      returns: (m,).
    """

    def __init__(
        self,
        block: Block,
        weighting: Weighting,
        levels: Levels,
        delta: Field,
        gamma: float,
        spare: int = 0,
    ) -> None:
        m, horizon, never = block.n, block.horizon, len(levels)
        entry = levels.entry.take(block.states)
        loss = delta.on(block).copy()  # zero on padding
        if gamma != 1.0:
            loss *= powers(gamma, horizon)
        if block.alive is not None:
            entry[~block.alive] = never
        # One sort of whole numbers gives both the order and the step behind each place in it.
        entry *= horizon
        entry += np.arange(horizon)
        entry.sort(axis=1)
        entry, step = np.divmod(entry, horizon)
        rho = np.take_along_axis(weighting.on(block).full, step, axis=1)

        self.never, self.returns = never, block.returns(gamma)
        self.order = np.ascontiguousarray(entry.T)
        self.table = np.empty((horizon + 1, m, 2 * horizon + 1 + spare))
        self.weights = self.table[:, :, : horizon + 1]
        self.lost = self.table[:, :, horizon + 1 : 2 * horizon + 1]
        self.weights[horizon], self.lost[horizon] = 1.0, loss
        episodes, times = np.arange(m), np.arange(horizon + 1)
        for c in reversed(range(horizon)):
            ratios = np.where(step[:, c, None] < times, rho[:, c, None], 1.0)
            np.multiply(self.weights[c + 1], ratios, out=self.weights[c])
            loss[episodes, step[:, c]] = 0.0  # with c steps dropped, the one at place c is kept
            np.multiply(self.weights[c, :, :-1], loss, out=self.lost[c])

    @property
    def whole(self) -> FloatArray:
        """(H + 1, m) the weight of the whole episode."""
        return self.weights[:, :, -1]

    def spread(self, rows: FloatArray) -> FloatArray:
        """(m, K + 1) values at every level of what is known by number of dropped steps, (H + 1, m)."""
        m = self.order.shape[1]
        edges = np.zeros((m, len(self.order) + 2), dtype=np.int64)
        edges[:, 1:-1], edges[:, -1] = self.order.T, self.never
        lengths = np.diff(edges, axis=1)
        return np.repeat(rows.T.ravel(), lengths.ravel()).reshape(m, self.never)
