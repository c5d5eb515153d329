"""Windowed weights by the kernel: one walk along a block sums all windows, and what a blend asks besides.

`windowed` has the same in numpy, which takes a block where there is no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.estimators.product import Normalised
from deadweight.estimators.starts import StartSums
from deadweight.sums import kernel
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import NOTHING, ColumnSums, Kish
from deadweight.typing import FloatArray

if TYPE_CHECKING:
    from deadweight.estimators.windowed import ModelSteps

SHORTEST, LONGEST = 2, 3


@dataclass(frozen=True, eq=False)
class WindowWalk:
    """What one walk along a block gives, of K windows and H steps.

    Attributes:
      n: episodes.
      weight, weighted, squares: (K, H) sums of w, of w times p delta, and of w^2.
      counted: (H,) steps whose successor is known.
      surprise, visits: (S,) squared errors of state values, and these steps, by state.
      by_pair, by_next: (K, H, S * A) and (K, H, S) sums of w p by pair, and by successor.
    """

    n: int
    weight: FloatArray
    weighted: FloatArray
    squares: FloatArray
    counted: FloatArray
    surprise: FloatArray
    visits: FloatArray
    by_pair: FloatArray
    by_next: FloatArray

    def column_sums(self, window: int) -> ColumnSums:
        """Sums of each step."""
        weight = self.weight[window - SHORTEST]
        shift = np.where(weight == 0, NOTHING, 0)
        return ColumnSums(self.n, False, shift, weight, self.weighted[window - SHORTEST], self.counted)

    def start_sums(self, window: int) -> tuple[StartSums, StartSums]:
        """Weights by step and pair, and by step and successor."""
        none = np.zeros(len(self.counted), dtype=np.int64)
        k = window - SHORTEST
        return StartSums(none, self.by_pair[k]), StartSums(none, self.by_next[k])

    def sizes(self, window: int) -> Kish:
        """Sums of weights and of their squares."""
        weight = self.weight[window - SHORTEST]
        shift = np.where(weight == 0, NOTHING, 0)
        return Kish(False, shift, weight, self.squares[window - SHORTEST])


@dataclass(frozen=True, eq=False)
class WindowWalks:
    """The walks of a model along blocks, each made once."""

    steps: ModelSteps

    def on(self, block: Block) -> WindowWalk | None:
        """The walk along a block; None where there is no kernel, or it declines the log."""
        return block.once(self, self._walk)

    def _walk(self, block: Block) -> WindowWalk | None:
        arguments = self._arguments(block)
        if arguments is None or kernel.KERNEL is None:
            return None
        horizon, n_states, n_actions = self.steps.q.shape
        count = LONGEST - SHORTEST + 1
        shapes: list[tuple[int, ...]] = [(count, horizon)] * 3 + [(horizon,), (n_states,), (n_states,)]
        shapes += [(horizon, n_states * n_actions, count), (horizon, n_states, count)]
        found = [np.zeros(shape) for shape in shapes]
        if not kernel.KERNEL.window_sums(*arguments, count, tuple(one.reshape(-1) for one in found)):
            return None
        h = block.horizon
        weight, weighted, squares = (one[:, :h] for one in found[:3])
        by_pair, by_next = (np.ascontiguousarray(one[:h].transpose(2, 0, 1)) for one in found[6:])
        counted, surprise, visits = found[3][:h], found[4], found[5]
        return WindowWalk(block.n, weight, weighted, squares, counted, surprise, visits, by_pair, by_next)

    def influences(self, block: Block, on: Sequence[tuple[int, Normalised]]) -> FloatArray | None:
        """(k, m) influences of the episodes on the sums of some windows, up to constants."""
        arguments = self._arguments(block)
        if arguments is None or kernel.KERNEL is None:
            return None
        count = max(window for window, _ in on) - SHORTEST + 1
        slope, pull = np.zeros((2, count, len(self.steps.alive)))
        for window, one in on:
            slope[window - SHORTEST, : len(one.slope)] = one.slope
            pull[window - SHORTEST, : len(one.pull)] = one.pull
        found, factors = np.zeros((count, block.n)), (slope.reshape(-1), pull.reshape(-1))
        done = kernel.KERNEL.window_influences(*arguments, count, factors, found.reshape(-1))
        return found[[window - SHORTEST for window, _ in on]] if done else None

    def _arguments(self, block: Block) -> tuple[Any, ...] | None:
        steps, log = self.steps, block.log
        if kernel.KERNEL is None or log.discounting is not None:
            return None
        ratios = steps.weighting.for_kernel(log)
        columns = (log.states, log.actions, log.rewards, log.offsets, block.rows)
        tables = (steps.q, steps.v, steps.ratios, steps.alive)
        if not all(map(kernel.readable, (*columns, *log.ends, *ratios.arrays[:5], *tables))):
            return None
        sources = (*ratios.arrays[:5], ratios.n_actions, steps.q.shape[1])
        values = (*(table.reshape(-1) for table in tables), steps.gamma, steps.nothing_after)
        return columns, log.ends, sources, values
