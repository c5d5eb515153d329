"""The path of whole-episode estimators (SIS, WSIS, C-SIS, C-WSIS), all levels at once.

Sums over episodes are swept from the last level to the first: each level adds the changes of the episodes
that visit what it keeps. A sum that shrinks a lot on the way loses digits; where it could lose too many, the
sums are taken anew at every level from the runs of all episodes, which costs episodes times levels.

An episode's weight changes only at the levels that drop a state it visits. With its steps in the order in
which they are dropped, the weight before step t with the first c of them dropped is

.. math:: F_{c,t} = \\prod_{c' \\ge c,\\; t_{c'} < t} \rho_{c'}

a running product from the last step to the first: ratios are multiplied, never divided out, so that zeros are
nothing special. F holds for a run of levels, from the one that drops the c-th step up to the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.estimators.estimator import Estimator
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.levels import Columns, Levels
from deadweight.question.question import Question
from deadweight.sums.blocks import Block, Field, powers
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Added, Extent, Total
from deadweight.sums.weighting import SAFE_LOG, Weighting
from deadweight.tools.arithmetic import divide
from deadweight.typing import BoolArray, FloatArray

BLOCK_CELLS = 1 << 20
# Relative error that swept sums may have.
TOLERANCE = 1e-11
# A sum of squares that is so much smaller than its terms is taken again around its centre.
CANCELLED = 1e-4


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
        self, block: Block, weighting: Weighting, levels: Levels, delta: Field, gamma: float, spare: int = 0
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


def sweep(question: Question, estimator: Estimator, levels: Levels) -> Columns | None:
    """The columns of a whole-episode estimator.

    None where level by level is better: few levels, or weights outside the range of doubles.
    """
    weighting = Weighting(question.pair)
    if len(levels) <= question.horizon or not in_range(
        question.parts, weighting, question.horizon, question.workers
    ):
        return None
    kind = _Weighted if estimator.is_weighted else _Plain
    return kind(question, levels, estimator.is_corrected).columns(_passes(question))


Passes = Callable[[Callable[[Block], Sequence[Any]]], Any]


def _passes(question: Question) -> Passes:
    """Sums over the runs of a log; blocks are small enough for the table of runs that is made of each."""
    cells = max(1, BLOCK_CELLS // (2 * (question.horizon + 1) ** 2)) * question.horizon
    return lambda summarise: reduce_log(question.parts, summarise, question.workers, cells)[0]


class _Sweep(ABC):
    """A sweep, plain or self-normalised: runs of a block, and sums at every level.

    Workers get the sweep itself, and so it holds what they need and no question.
    """

    spare = 0

    def __init__(self, question: Question, levels: Levels, corrected: bool) -> None:
        self.levels, self.corrected = levels, corrected
        self.weighting = Weighting(question.pair)
        self.delta, self.gamma = question.discounted(question.delta), question.gamma
        self.n, self.horizon = question.n, question.horizon
        total: Total = reduce_log(question.parts, partial(_returns, self.gamma), question.workers)[0]
        self.centre = float(total.value) / self.n

    def runs(self, block: Block) -> Runs:
        """The runs of a block."""
        return Runs(block, self.weighting, self.levels, self.delta, self.gamma, self.spare)

    @abstractmethod
    def columns(self, add_up: Passes) -> Columns:
        """The columns of the path."""

    @abstractmethod
    def rows(self, runs: Runs) -> FloatArray:
        """(H + 1, m, C) values that are summed over episodes; may use the table of the runs."""

    def aligned(self, sums: FloatArray) -> FloatArray:
        """Sums of a block, (..., C), as sums of the whole log, whose longest episode may be longer."""
        return sums

    def sums(self, add_up: Passes) -> FloatArray:
        """(K + 1, C) sums over all episodes at every level."""
        swept: _Swept = add_up(self._swept)
        sums = swept.sums()
        if swept.lost_digits(sums, self.positive(sums)):
            return np.asarray(add_up(self._at_every_level).value)
        return sums

    def _swept(self, block: Block) -> list[_Swept]:
        return [_Swept.of(self.runs(block), self)]

    @abstractmethod
    def positive(self, sums: FloatArray) -> BoolArray:
        """(C,) the columns whose terms cannot be negative: in them, lost digits can be seen."""

    def _at_every_level(self, block: Block) -> list[Total]:
        runs = self.runs(block)
        rows = self.rows(runs)
        columns = [runs.spread(rows[:, :, c]).sum(axis=0) for c in range(rows.shape[2])]
        return [Total(self.aligned(np.stack(columns, axis=1)))]

    def std_error(self, squares: FloatArray) -> FloatArray:
        n = self.n
        return np.sqrt(squares / (n - 1) / n) if n > 1 else np.full(len(squares), np.nan)


class _Plain(_Sweep):
    """SIS and C-SIS: columns B, B^2, m, V - c and (V - c)^2, with V = B G, or B G + m when corrected."""

    def rows(self, runs: Runs) -> FloatArray:
        b, lost = runs.whole, runs.lost.sum(axis=2)
        v = self._values(runs) - self.centre
        return np.stack([b, b * b, lost, v, v * v], axis=2)

    def positive(self, sums: FloatArray) -> BoolArray:
        return np.array([True, True, False, False, True])

    def _values(self, runs: Runs) -> FloatArray:
        v = runs.whole * runs.returns
        return v + runs.lost.sum(axis=2) if self.corrected else v

    def columns(self, add_up: Passes) -> Columns:
        n = self.n
        b, b_squares, lost, v, v_squares = self.sums(add_up).T
        squares = v_squares - v * v / n
        if (squares < CANCELLED * v_squares).any():
            squares = np.asarray(add_up(partial(self._squares_around, self.centre + v / n)).value)
        value = self.centre + v / n
        estimate = value - lost / n if self.corrected else value
        return Columns(estimate, self.std_error(squares), _bias(lost / n), divide(b * b, b_squares))

    def _squares_around(self, mean: FloatArray, block: Block) -> list[Total]:
        runs = self.runs(block)
        return [Total(np.square(runs.spread(self._values(runs)) - mean).sum(axis=0))]


class _Weighted(_Sweep):
    """WSIS and C-WSIS: columns of weights before each step, of what is lost there, and of B with returns."""

    spare = 4

    def rows(self, runs: Runs) -> FloatArray:
        b, g = runs.whole, runs.returns - self.centre
        bg = b * g
        for column, values in zip((-4, -3, -2, -1), (bg, b * b, b * bg, bg * bg), strict=True):
            runs.table[:, :, column] = values
        return runs.table

    def aligned(self, sums: FloatArray) -> FloatArray:
        horizon, longest = (sums.shape[-1] - 5) // 2, self.horizon
        if horizon == longest:
            return sums
        weights, lost, whole = np.split(sums, [horizon + 1, 2 * horizon + 1], axis=-1)
        # Ended episodes stay in the normaliser with their last weight and lose nothing more.
        more = [(0, 0)] * (sums.ndim - 1) + [(0, longest - horizon)]
        return np.concatenate([np.pad(weights, more, mode="edge"), np.pad(lost, more), whole], axis=-1)

    def positive(self, sums: FloatArray) -> BoolArray:
        positive = np.zeros(sums.shape[1], dtype=bool)
        positive[: self.horizon + 1] = True
        positive[[-3, -1]] = True
        return positive

    def columns(self, add_up: Passes) -> Columns:
        longest = self.horizon
        weights, lost, whole = np.split(self.sums(add_up), [longest + 1, 2 * longest + 1], axis=1)
        b, (bg, b_squares, bbg, bbgg) = weights[:, -1], whole.T
        centred = divide(bg, b)
        estimate = np.where(b > 0, self.centre + centred, 0.0)
        per_step = divide(lost, weights[:, :-1])
        squares = bbgg - 2 * centred * bbg + centred * centred * b_squares
        if self.corrected or (squares < CANCELLED * (bbgg + centred * centred * b_squares)).any():
            influence = partial(self._squared_influence, estimate, b, per_step, weights[:, :-1])
            squares = np.asarray(add_up(influence).value)
        else:
            squares = squares * np.square(divide(float(self.n), b))
        bias, ess = _bias(per_step.sum(axis=1)), divide(b * b, b_squares)
        return Columns(estimate, self.std_error(squares), bias, ess)

    def _squared_influence(
        self, estimate: FloatArray, b: FloatArray, per_step: FloatArray, weights: FloatArray, block: Block
    ) -> list[Total]:
        """Sum of the squared influence of a block's episodes, level by level.

        With m_t = sum w y / sum w, an episode moves the t-th term by n w (y - m_t) / sum w.
        """
        n, runs = float(self.n), self.runs(block)
        whole = runs.spread(runs.whole)
        influence = whole * (runs.returns[:, None] - estimate) * divide(n, b)
        if self.corrected:
            slope = divide(n, weights)
            pull = slope * per_step
            horizon = runs.lost.shape[2]
            for t in range(horizon):
                influence += runs.spread(runs.lost[:, :, t]) * slope[:, t]
                influence -= runs.spread(runs.weights[:, :, t]) * pull[:, t]
            influence -= whole * pull[:, horizon:].sum(axis=1)
        return [Total(np.square(influence).sum(axis=0))]


@dataclass(frozen=True, eq=False)
class _Swept(Added):
    """Sums at the first and the last level, and what each level changes."""

    first: FloatArray  # (C,)
    last: FloatArray  # (C,)
    changes: FloatArray  # (K + 1, C): what level k has more of than level k + 1

    @classmethod
    def of(cls, runs: Runs, sweep: _Sweep) -> _Swept:
        from scipy import sparse

        rows, order = sweep.rows(runs), runs.order
        size, never = order.size, runs.never
        dropped = np.add.reduce(order < never, axis=0)
        first, last = rows[0].sum(axis=0), rows[dropped, np.arange(order.shape[1])].sum(axis=0)
        for c in range(len(order)):  # in place, for nobody needs these rows again
            rows[c] -= rows[c + 1]
        entries = (np.ones(size), (order.ravel(), np.arange(size)))
        by_level = sparse.csr_array(entries, shape=(never + 1, size))
        changes = np.asarray(by_level @ rows[:-1].reshape(size, -1))[1:never]
        return cls(*(sweep.aligned(part) for part in (first, last, changes)))

    def sums(self) -> FloatArray:
        """(K + 1, C), from the last level to the first."""
        backward = np.concatenate([self.last[None], self.changes[::-1]])
        return np.add.accumulate(backward, axis=0)[::-1]

    def lost_digits(self, sums: FloatArray, positive: BoolArray) -> bool:
        """Whether rounding may have eaten what `TOLERANCE` demands.

        The error of a swept sum is about that of the largest value on its way, plus the drift seen at the
        first level, which is known exactly.
        """
        swept = sums[:, positive]
        largest = np.maximum.accumulate(swept[::-1], axis=0)[::-1]
        drift = np.abs(swept[0] - self.first[positive])
        error = 16 * np.finfo(np.float64).eps * largest + drift
        return bool((error > TOLERANCE * swept).any())


def in_range(parts: Sequence[Trajectories], weighting: Weighting, horizon: int, workers: int = 1) -> bool:
    """Whether no product of an episode's ratios can leave the range of doubles."""
    if weighting.table is not None and weighting.table.log_bound * horizon <= SAFE_LOG:
        return True
    extent: Extent = reduce_log(parts, partial(_reach, weighting), workers)[0]
    return extent.highest <= SAFE_LOG


def _reach(weighting: Weighting, block: Block) -> list[Extent]:
    """The largest absolute logarithm of a product of positive ratios of each episode."""
    rho = weighting.on(block).full
    logs = np.log(rho, where=rho > 0, out=np.zeros_like(rho))
    return [Extent.of(np.abs(logs).sum(axis=1))]


def _returns(gamma: float, block: Block) -> list[Total]:
    return [Total(float(block.returns(gamma).sum()))]


def _bias(lost: FloatArray) -> FloatArray:
    """Minus what is lost; nothing at level 0, where a swept sum may leave a rounding error."""
    bias = 0.0 - lost
    bias[0] = 0.0
    return bias
