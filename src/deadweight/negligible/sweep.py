"""The path of whole-episode estimators (SIS, WSIS, C-SIS, C-WSIS), all levels at once.

Sums over episodes are swept from the last level to the first: each level adds the changes of the episodes
that visit what it keeps. A sum that shrinks a lot on the way loses digits; where it could lose too many, the
sums are taken anew at every level from the runs of all episodes, which costs episodes times levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deadweight.arithmetic import divide
from deadweight.blocks import Block, blocks
from deadweight.estimators.names import Recipe
from deadweight.negligible.columns import Columns
from deadweight.negligible.levels import Levels
from deadweight.negligible.runs import Runs
from deadweight.question import Question
from deadweight.running import SAFE_LOG, largest_log
from deadweight.typing import BoolArray, FloatArray
from deadweight.weighting import Weighting

BLOCK_CELLS = 1 << 20
# Relative error that swept sums may have.
TOLERANCE = 1e-11
# A sum of squares that is so much smaller than its terms is taken again around its centre.
CANCELLED = 1e-4


def sweep(question: Question, made: Recipe, levels: Levels) -> Columns | None:
    """The columns of a whole-episode estimator.

    None where level by level is better: few levels, or weights outside the range of doubles.
    """
    if len(levels) <= question.horizon or not _in_range(question):
        return None
    one = _Weighted if made.weighted else _Plain
    return one(question, levels, made.corrected).columns()


class _Sweep(ABC):
    """What the plain and the self-normalised sweep share: blocks, and sums at every level."""

    spare = 0

    def __init__(self, question: Question, levels: Levels, corrected: bool) -> None:
        self.question, self.levels, self.corrected = question, levels, corrected
        self.weighting = Weighting(question.pair)
        self.centre = _mean_return(question)

    def runs(self) -> Iterator[Runs]:
        question = self.question
        most = max(1, BLOCK_CELLS // (2 * (question.horizon + 1) ** 2)) * question.horizon
        for part in question.parts:
            for block in blocks(part, most):
                yield Runs(block, self.weighting, self.levels, question.delta, question.gamma, self.spare)

    @abstractmethod
    def rows(self, runs: Runs) -> FloatArray:
        """(H + 1, m, C) whatever is to be summed over episodes; may use the table of the runs."""

    @abstractmethod
    def aligned(self, sums: FloatArray) -> FloatArray:
        """Sums of a block, (..., C), as sums of the whole log, whose longest episode may be longer."""

    def sums(self) -> FloatArray:
        """(K + 1, C) sums over all episodes at every level."""
        swept = sum((_Swept.of(runs, self) for runs in self.runs()), start=_Swept())
        sums = swept.sums()
        if swept.lost_digits(sums, self.positive(sums)):
            return np.asarray(sum(self._at_every_level(runs) for runs in self.runs()))
        return sums

    @abstractmethod
    def positive(self, sums: FloatArray) -> BoolArray:
        """(C,) the columns whose terms cannot be negative: in them, lost digits can be seen."""

    def _at_every_level(self, runs: Runs) -> FloatArray:
        rows = self.rows(runs)
        columns = [runs.spread(rows[:, :, c]).sum(axis=0) for c in range(rows.shape[2])]
        return self.aligned(np.stack(columns, axis=1))

    def std_error(self, squares: FloatArray) -> FloatArray:
        n = self.question.n
        return np.sqrt(squares / (n - 1) / n) if n > 1 else np.full(len(squares), np.nan)


class _Plain(_Sweep):
    """SIS and C-SIS: columns B, B^2, m, V - c and (V - c)^2, with V = B G, or B G + m when corrected."""

    def rows(self, runs: Runs) -> FloatArray:
        b, lost = runs.whole, runs.lost.sum(axis=2)
        v = self._values(runs) - self.centre
        return np.stack([b, b * b, lost, v, v * v], axis=2)

    def aligned(self, sums: FloatArray) -> FloatArray:
        return sums

    def positive(self, sums: FloatArray) -> BoolArray:
        return np.array([True, True, False, False, True])

    def _values(self, runs: Runs) -> FloatArray:
        v = runs.whole * runs.returns
        return v + runs.lost.sum(axis=2) if self.corrected else v

    def columns(self) -> Columns:
        n = self.question.n
        b, b_squares, lost, v, v_squares = self.sums().T
        squares = v_squares - v * v / n
        if (squares < CANCELLED * v_squares).any():
            mean = self.centre + v / n
            squares = np.asarray(
                sum(np.square(runs.spread(self._values(runs)) - mean).sum(axis=0) for runs in self.runs())
            )
        value = self.centre + v / n
        estimate = value - lost / n if self.corrected else value
        return Columns(estimate, self.std_error(squares), _bias(lost / n), _kish(b, b_squares))


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
        horizon, longest = (sums.shape[-1] - 5) // 2, self.question.horizon
        if horizon == longest:
            return sums
        weights, lost, whole = np.split(sums, [horizon + 1, 2 * horizon + 1], axis=-1)
        # Ended episodes stay in the normaliser with their last weight and lose nothing more.
        more = [(0, 0)] * (sums.ndim - 1) + [(0, longest - horizon)]
        return np.concatenate([np.pad(weights, more, mode="edge"), np.pad(lost, more), whole], axis=-1)

    def positive(self, sums: FloatArray) -> BoolArray:
        found = np.zeros(sums.shape[1], dtype=bool)
        found[: self.question.horizon + 1] = True
        found[[-3, -1]] = True
        return found

    def columns(self) -> Columns:
        longest = self.question.horizon
        weights, lost, whole = np.split(self.sums(), [longest + 1, 2 * longest + 1], axis=1)
        b, (bg, b_squares, bbg, bbgg) = weights[:, -1], whole.T
        centred = divide(bg, b)
        estimate = np.where(b > 0, self.centre + centred, 0.0)
        per_step = divide(lost, weights[:, :-1])
        squares = bbgg - 2 * centred * bbg + centred * centred * b_squares
        if self.corrected or (squares < CANCELLED * (bbgg + centred * centred * b_squares)).any():
            squares = self._squared_influence(estimate, b, per_step, weights[:, :-1])
        else:
            squares = squares * np.square(divide(float(self.question.n), b))
        return Columns(estimate, self.std_error(squares), _bias(per_step.sum(axis=1)), _kish(b, b_squares))

    def _squared_influence(
        self, estimate: FloatArray, b: FloatArray, per_step: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Sum of the squared influence of each episode, level by level.

        With m_t = sum w y / sum w, an episode moves the t-th term by n w (y - m_t) / sum w.
        """
        n = float(self.question.n)
        squares = np.zeros(len(b))
        slope = divide(n, weights)
        pull = slope * per_step
        for runs in self.runs():
            whole = runs.spread(runs.whole)
            influence = whole * (runs.returns[:, None] - estimate) * divide(n, b)
            if self.corrected:
                horizon = runs.lost.shape[2]
                for t in range(horizon):
                    influence += runs.spread(runs.lost[:, :, t]) * slope[:, t]
                    influence -= runs.spread(runs.weights[:, :, t]) * pull[:, t]
                influence -= whole * pull[:, horizon:].sum(axis=1)
            squares += np.square(influence).sum(axis=0)
        return squares


@dataclass(frozen=True, eq=False)
class _Swept:
    """Sums at the first and the last level, and what each level changes; adds up over blocks."""

    first: FloatArray | float = 0.0  # (C,)
    last: FloatArray | float = 0.0  # (C,)
    changes: FloatArray | float = 0.0  # (K + 1, C): what level k has more of than level k + 1

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

    def __add__(self, other: _Swept) -> _Swept:
        return _Swept(self.first + other.first, self.last + other.last, self.changes + other.changes)

    def sums(self) -> FloatArray:
        """(K + 1, C), from the last level to the first."""
        backward = np.concatenate([np.atleast_2d(self.last), np.asarray(self.changes)[::-1]])
        return np.add.accumulate(backward, axis=0)[::-1]

    def lost_digits(self, sums: FloatArray, positive: BoolArray) -> bool:
        """Whether rounding may have eaten what `TOLERANCE` demands.

        The error of a swept sum is about that of the largest value on its way, plus the drift seen at the
        first level, which is known exactly.
        """
        swept = sums[:, positive]
        largest = np.maximum.accumulate(swept[::-1], axis=0)[::-1]
        drift = np.abs(swept[0] - np.asarray(self.first)[positive])
        error = 16 * np.finfo(np.float64).eps * largest + drift
        return bool((error > TOLERANCE * swept).any())


def _in_range(question: Question) -> bool:
    """Whether no product of an episode's ratios can leave the range of doubles."""
    pi_e, pi_b = question.pair.pi_e, question.pair.pi_b
    if pi_e is not None and pi_b is not None:
        table = divide(pi_e, pi_b)  # pairs with pi_b = 0 are never logged
        if largest_log(table) * question.horizon <= SAFE_LOG:
            return True
    weighting = Weighting(question.pair)

    def reach(block: Block) -> float:
        rho = weighting.on(block).full
        logs = np.log(rho, where=rho > 0, out=np.zeros_like(rho))
        return float(np.abs(logs).sum(axis=1).max())

    return all(reach(block) <= SAFE_LOG for part in question.parts for block in blocks(part))


def _mean_return(question: Question) -> float:
    total = sum(block.returns(question.gamma).sum() for part in question.parts for block in blocks(part))
    return float(total) / question.n


def _kish(b: FloatArray, squares: FloatArray) -> FloatArray:
    return divide(b * b, squares)


def _bias(lost: FloatArray) -> FloatArray:
    """Minus what is lost; nothing at level 0, where a swept sum may leave a rounding error."""
    bias = 0.0 - lost
    bias[0] = 0.0
    return bias
