"""Starts: the derivative of an estimate by the action values that it uses, as sums over episodes.

A product estimator is linear in Q: a term weighs minus Q_t(s, a) of the step, or a fixed mean over actions of
Q_t(s, .), such as V_t(s) or the advantage of a dropped step. The derivative is therefore the sum of the
weights of all cells with the same step, state and action, over the normaliser of the term; sums merge, and
`model_influence.py` does the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.estimators.product import Normalised, ProductFamily, ProductSums
from deadweight.sums.blocks import Block, powers
from deadweight.sums.fields import Folds
from deadweight.sums.running import Running, scale
from deadweight.sums.summaries import ColumnSums, common_shift, common_unit
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class QUse:
    """One way in which the terms of a group use the action values.

    Attributes:
      group: which group of terms of the maker, by number.
      along: (S, A) the term adds sum_a along(s, a) Q_t(s, a); None: it subtracts Q_t(s, a) itself.
      later: Q of the next step instead, times gamma.
    """

    group: int
    along: FloatArray | None = None
    later: bool = False


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a block in which a use happens: weights (m, C), state or pair (m, C), where."""

    weights: Running
    index: IntArray
    where: BoolArray | None


@runtime_checkable
class UsesQ(Protocol):
    """A maker of terms that use action values (optional)."""

    @property
    def n_groups(self) -> int:
        """How many groups of terms it makes."""
        ...

    @property
    def uses(self) -> Sequence[QUse]:
        """How they use action values."""
        ...

    def used(self, block: WeightedBlock) -> Sequence[Cells]:
        """In which cells, one for each use."""
        ...


@dataclass(frozen=True, eq=False)
class StartSums:
    """Weights by step and place, in units of 2**shift for each step; merges."""

    shift: IntArray  # (C,)
    sums: FloatArray  # (C, places)

    @classmethod
    def of(cls, cells: Cells, places: int) -> StartSums:
        """Of a block."""
        weights = cells.weights.among(cells.where)
        shift = common_shift(weights)
        w = weights.relative_to(shift)
        columns = w.shape[1]
        index = cells.index + np.arange(columns) * places
        if cells.where is not None:
            index = np.where(cells.where, index, 0)
        # Transposed, so that matrices that lie step by step are read in the order of memory.
        sums = sums_by(index.T.ravel(), w.T.ravel(), columns * places)
        return cls(shift, sums.reshape(columns, places))

    def merge(self, other: StartSums) -> StartSums:
        """Both together, in the larger unit of the two."""
        longer, shorter = (self, other) if len(self.shift) >= len(other.shift) else (other, self)
        columns = len(shorter.shift)
        shift, to_longer, to_shorter = common_unit(longer.shift[:columns], shorter.shift)
        head = (longer.sums[:columns].T * to_longer + shorter.sums.T * to_shorter).T
        return StartSums(
            np.concatenate([shift, longer.shift[columns:]]), np.concatenate([head, longer.sums[columns:]])
        )


@dataclass(frozen=True, eq=False)
class Starts:
    """The sums of all uses; merges."""

    tables: tuple[StartSums, ...]

    def merge(self, other: Starts) -> Starts:
        """Both together."""
        return Starts(tuple(a.merge(b) for a, b in zip(self.tables, other.tables, strict=True)))


class StartFamily:
    """The starts of a product estimator.

    Args:
      family: the estimator.
      shape: (S, A).
      folds: of a cross-fitted model; None where there is one model.
    """

    def __init__(self, family: ProductFamily, shape: tuple[int, ...], folds: Folds | None = None) -> None:
        self.family, self.shape, self.folds = family, shape, folds

    @property
    def key(self) -> Hashable:
        """Those of one estimator."""
        return ("starts", self.family.key)

    def summarise(self, block: Block) -> Starts:
        """The sums of a block."""
        n_states, n_actions = self.shape
        count = 1 if self.folds is None else self.folds.count
        fold_of = None if self.folds is None else self.folds(block)[:, None]
        tables, weighted = [], self.family.weighting.on(block)
        for maker in self.family.makers:
            if not isinstance(maker, UsesQ):
                continue
            cells = maker.used(weighted)
            for use, found in zip(maker.uses, cells, strict=True):
                places = n_states * n_actions if use.along is None else n_states
                if fold_of is not None:
                    found = Cells(found.weights, found.index + fold_of * places, found.where)
                tables.append(StartSums.of(found, count * places))
        return Starts(tuple(tables))

    def finish(self, starts: Starts, sums: ProductSums, weighted: bool) -> list[Start]:
        """The start of each fold's model; `sums` are those of the estimator itself."""
        family, tables = self.family, list(starts.tables)
        end, parts = len(sums.groups), []
        for maker in reversed(family.makers):
            if not isinstance(maker, UsesQ):
                break  # makers that use Q come last
            end -= maker.n_groups
            for use in reversed(maker.uses):
                scaled = self._scaled(tables.pop(), sums.groups[end + use.group], weighted)
                parts.append((use, scaled))
        count = 1 if self.folds is None else self.folds.count
        return [Start(parts, k, count, family.gamma) for k in range(count)]

    def _scaled(self, table: StartSums, group: ColumnSums, weighted: bool) -> FloatArray:
        """(C, places) the weights over their normaliser, discounted."""
        columns = len(table.shift)
        if not weighted:
            return (
                scale(table.sums.T, table.shift).T * powers(self.family.gamma, columns)[:, None]
            ) / group.n
        on = Normalised(group, self.family.gamma, self.family.finished)
        factor = scale(on.slope[:columns], table.shift - group.shift[:columns]) / group.n
        return table.sums * factor[:, None]


class Start:
    """start_t(s, a) of one model."""

    def __init__(self, parts: Sequence[tuple[QUse, FloatArray]], fold: int, folds: int, gamma: float) -> None:
        self._parts, self._gamma = [], gamma
        for use, table in parts:
            places = table.shape[1] // folds
            self._parts.append((use, table[:, fold * places : (fold + 1) * places]))

    def __call__(self, t: int) -> FloatArray | None:
        """(S, A); None where it is zero."""
        total: FloatArray | None = None
        for use, table in self._parts:
            at = t - use.later
            if not 0 <= at < len(table):
                continue
            if use.along is None:
                one = -table[at]
            else:
                one = ((self._gamma if use.later else 1.0) * table[at][:, None] * use.along).ravel()
            total = one if total is None else total + one
        return total
