r"""Whether a model of labels says anything about episodes that it has not seen.

Over the logged steps, with y the reward to go and x = Q_t(s, a) of a model without the episode's fold, each
less its mean at the same step,

.. math:: b = \frac{\sum x y}{\sum x^2}, \qquad u_i = \sum_{t \in i} x (y - b x), \qquad
   z = \frac{b \sum x^2}{\sqrt{\sum_i u_i^2}}

Labels that mean nothing have z around zero or below, however well they fit the log itself. The slope takes
one pass over the log and its error another; both travel with passes that are made anyway.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.influences import Job
from deadweight.basics.arithmetic import divide
from deadweight.question.core import MOST_VALUES, Question, Values
from deadweight.sums import kernel
from deadweight.sums.blocks import Block
from deadweight.sums.fields import ByFold, Field, Folds, Table, stacked
from deadweight.sums.summaries import Total
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

FOLDS = 5
# More episodes than the first so many change nothing about whether a model is of any use.
ENOUGH = 10_000


def unseen_values(question: Question) -> Values[Field] | None:
    """Values of models that have not seen the episodes they are used on; None where there are none."""
    if question.options.model is not None:
        return question.values
    if question.n < FOLDS or FOLDS * question.values.q.values.size > MOST_VALUES:
        return None
    return question.cross_fitted(FOLDS)


class Proof:
    """z of a model, in two passes.

    Args:
      question: of labels.
      values: of models that have not seen the episodes.
    """

    def __init__(self, question: Question, values: Values[Field]) -> None:
        self.steps = Steps(values.q, Folds.of(1, question.sizes), question.gamma, question.horizon)
        self._spread: float | None = None

    @property
    def summed(self) -> Steps:
        """What the first pass sums."""
        return self.steps

    def job(self, answers: Answers) -> Job:
        """What the second pass does, once the first is made."""
        sums: FloatArray = answers.found(self.steps).value
        self._slope = Slope.of(sums)
        return Job([], Residuals(self.steps, self._slope), self._keep)

    def _keep(self, found: Total) -> None:
        self._spread = math.sqrt(float(found.value))

    @property
    def is_made(self) -> bool:
        """Whether both passes were made."""
        return self._spread is not None

    @property
    def z(self) -> float:
        """How surely values go with what was earned, in standard errors."""
        assert self._spread is not None, "both passes were made"
        top = self._slope.b
        return top / self._spread if self._spread > 0 else math.copysign(math.inf, top) if top else 0.0


@dataclass(frozen=True, eq=False)
class Walk:
    """Some episodes of a block from their ends, by the kernel (`_unseen.c`); None where it declines.

    Attributes:
      horizon: the longest of them, or more.
      columns: of the log, with the episodes' numbers.
      values: tables and folds.
      gamma: discount.
    """

    horizon: int
    columns: tuple[AnyArray, ...]
    values: tuple[Any, ...]
    gamma: float

    def sums(self, sums: FloatArray) -> bool:
        """Adds (H, 5) of the first pass; False where a step is in no table."""
        assert kernel.KERNEL is not None
        done: bool = kernel.KERNEL.unseen_sums(
            self.horizon, self.columns, self.values, self.gamma, sums.reshape(-1)
        )
        return done

    def residuals(self, means: FloatArray, slope: float) -> FloatArray | None:
        """(m,) sums of x (y - b x), each less its mean, of (H, 2) means; None where a step is in no table."""
        assert kernel.KERNEL is not None
        found = np.empty(len(self.columns[-1]))
        done = kernel.KERNEL.unseen_residuals(
            self.horizon, self.columns, self.values, self.gamma, means.reshape(-1), slope, found
        )
        return found if done else None


@dataclass(frozen=True, eq=False)
class Steps:
    """Sums of the first pass, by step: how many there are, x, y, x^2 and x y.

    Attributes:
      q: values of the actions taken.
      numbers: where each part of the log begins, by number of episode.
      gamma: discount.
      horizon: the longest episode.
    """

    q: Field
    numbers: Folds
    gamma: float
    horizon: int

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("proof", self)

    def summarise(self, block: Block) -> Total:
        """(5, T) of the block's episodes that count."""
        sums = np.zeros((5, self.horizon))
        steps = sums[:, : block.horizon]
        walk = self.walk(block)
        if walk is not None:
            by_step = np.zeros((block.horizon, 5))
            if walk.sums(by_step):
                steps[:] = by_step.T
                return Total(sums)
        found = self.cells(block)
        if found is None:
            return Total(sums)
        counted, x, y = found
        steps[0] = block.n if counted is None else counted.sum(axis=0)
        steps[1], steps[2] = x.sum(axis=0), y.sum(axis=0)
        steps[3], steps[4] = np.einsum("ij,ij->j", x, x), np.einsum("ij,ij->j", x, y)
        return Total(sums)

    def number(self, block: Block) -> IntArray:
        """(m,) of each episode in the whole log."""
        number: IntArray = self.numbers.first[block.part] + block.first + block.rows
        return number

    def walk(self, block: Block) -> Walk | None:
        """The compiled walk along the episodes that count; None where numpy has to do it."""
        log, counted = block.log, self.number(block) < ENOUGH
        if kernel.KERNEL is None or self._tables is None or log.discounting is not None or not counted.any():
            return None
        q, folds = self._tables
        columns = (log.states, log.actions, log.rewards, log.offsets, block.rows[counted])
        if not all(map(kernel.readable, (*columns, q))):
            return None
        fold_of = None if folds is None else folds(block)[counted]
        return Walk(block.horizon, columns, (q.reshape(-1), fold_of, *q.shape), self.gamma)

    @cached_property
    def _tables(self) -> tuple[FloatArray, Folds | None] | None:
        """(folds, T, S, A) values, T = 1 for the same at all steps; None where they are no tables."""
        fields = self.q.fields if isinstance(self.q, ByFold) else (self.q,)
        if not all(isinstance(one, Table) and one.by_action for one in fields):
            return None
        q, folds = stacked(self.q)
        return (q if q.ndim == 4 else q[:, None]), folds

    def cells(self, block: Block) -> tuple[BoolArray | None, FloatArray, FloatArray] | None:
        """(m, H) what counts (None: all), values, rewards to go, 0 where a cell does not; None: none."""
        number = self.number(block)
        if number.min() >= ENOUGH:
            return None
        counted: BoolArray | None = block.alive
        if number.max() >= ENOUGH:
            early = np.broadcast_to((number < ENOUGH)[:, None], (block.n, block.horizon))
            counted = early if counted is None else counted & early
        to_go = np.array(block.paid, dtype=np.float64)
        plain = self.gamma == 1.0 and block.during is None
        for t in range(block.horizon - 2, -1, -1):
            discount = self.gamma if block.during is None else block.during[:, t]
            to_go[:, t] += to_go[:, t + 1] if plain else discount * to_go[:, t + 1]
        values: FloatArray = self.q.on(block)
        if counted is None:
            return None, values, to_go
        return counted, counted * values, counted * to_go


@dataclass(frozen=True, eq=False)
class Slope:
    """The regression of rewards to go on values, each less its mean at the same step."""

    sums: FloatArray  # (5, T)

    @classmethod
    def of(cls, sums: FloatArray) -> Slope:
        """From the sums of the first pass."""
        return cls(sums)

    @cached_property
    def means(self) -> tuple[FloatArray, FloatArray]:
        """(T,) of values, and of rewards to go."""
        count, x, y = self.sums[:3]
        return divide(x, count), divide(y, count)

    @cached_property
    def squares(self) -> float:
        """Of the values."""
        return float((self.sums[3] - self.sums[1] * self.means[0]).sum())

    @cached_property
    def b(self) -> float:
        """The slope; 0 where all values are alike."""
        product = float((self.sums[4] - self.sums[1] * self.means[1]).sum())
        alike = self.squares <= 1e-12 * float(self.sums[3].sum())
        return 0.0 if alike else product / self.squares


@dataclass(frozen=True, eq=False)
class Residuals:
    """The second pass: the sum of the squares of u_i, in units of the squares of the values."""

    steps: Steps
    slope: Slope

    def __call__(self, values: FloatArray, block: Block) -> Total:
        """Of a block's episodes."""
        means = [mean[: block.horizon] for mean in self.slope.means]
        walk = self.steps.walk(block)
        found = None if walk is None else walk.residuals(np.stack(means, axis=1), self.slope.b)
        sums = self._by_cells(block, *means) if found is None else found
        # In these units the squares of huge rewards stay within the range of doubles.
        u = divide(sums, self.slope.squares)
        return Total(float(u @ u))

    def _by_cells(self, block: Block, mean_x: FloatArray, mean_y: FloatArray) -> FloatArray:
        """(m,) sums of x (y - b x), by numpy."""
        found = self.steps.cells(block)
        if found is None:
            return np.zeros(block.n)
        counted, x, y = found
        x = x - (mean_x if counted is None else counted * mean_x)
        y -= mean_y if counted is None else counted * mean_y
        y -= self.slope.b * x
        sums: FloatArray = np.einsum("ij,ij->i", x, y)
        return sums
