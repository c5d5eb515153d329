"""The full influence of an episode: on the sums of an estimate, and on the model whose values it uses.

A product estimator is linear in Q: a term weighs minus Q_t(s, a) of the step, or a fixed mean over actions of
Q_t(s, .), such as V_t(s) or the advantage of a dropped step. The derivative of the estimate by Q, its
*start*, is therefore the sum of the weights of all cells with the same step, state and action, over the
normaliser of the term. Sums merge; `deadweight.values.model_influence` pushes the start through the model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np

from deadweight.estimators.direct import Together
from deadweight.estimators.product import Cells, Family, Normalised, ProductFamily, ProductSums, QUse
from deadweight.question.question import Values
from deadweight.sums.blocks import Block, Field, Folds, powers
from deadweight.sums.summaries import Added, ColumnSums, common_shift, common_unit, scale
from deadweight.sums.weighting import WeightedBlock
from deadweight.tools.arithmetic import sums_by
from deadweight.typing import FloatArray, IntArray


class UsesQ(Protocol):
    """A maker of terms that use action values (optional).

    One that sums its uses on a walk of its own has a method `start_sums` as well: from a block to the
    `StartSums` of each use, or None where the walk does not take the block.
    """

    @property
    def n_groups(self) -> int:
        """How many groups of terms it makes."""

    @property
    def uses(self) -> Sequence[QUse]:
        """How they use action values."""

    def used(self, block: WeightedBlock) -> Sequence[Cells]:
        """In which cells, one for each use."""


# There are hundreds of makers, and looking for a method is far quicker than `isinstance` of a protocol.
def _uses_q(maker: object) -> TypeGuard[UsesQ]:
    return hasattr(maker, "used") and hasattr(maker, "uses")


@dataclass(frozen=True, eq=False)
class StartSums:
    """Weights by step and place, in units of 2**shift for each step; merges.

    Where a place has a single step, `column` says which, and there is one sum a place.
    """

    shift: IntArray  # (C,)
    sums: FloatArray  # (C, places), or (places,)
    column: IntArray | None = None  # (places,)

    @classmethod
    def of(cls, cells: Cells, places: int, column: IntArray | None = None) -> StartSums:
        """The sums of a block; `column` where each place has a step of its own."""
        weights = cells.weights.among(cells.where)
        shift = common_shift(weights)
        w = weights.relative_to(shift)
        columns = w.shape[1]
        index = cells.index if column is not None else cells.index + np.arange(columns) * places
        if cells.where is not None:
            index = np.where(cells.where, index, 0)
        if column is not None:
            return cls(shift, sums_by(index.ravel(), w.ravel(), places), column)
        # Transposed, so that matrices that lie step by step are read in the order of memory.
        sums = sums_by(index.T.ravel(), w.T.ravel(), columns * places)
        return cls(shift, sums.reshape(columns, places))

    def merge(self, other: StartSums) -> StartSums:
        """The sums of both, in the larger unit of the two."""
        longer, shorter = (self, other) if len(self.shift) >= len(other.shift) else (other, self)
        columns = len(shorter.shift)
        shift, to_longer, to_shorter = common_unit(longer.shift[:columns], shorter.shift)
        if longer.column is not None:
            rest = np.ones(len(longer.shift) - columns)
            first = np.concatenate([np.broadcast_to(to_longer, columns), rest])
            second = np.concatenate([np.broadcast_to(to_shorter, columns), rest])
            at = np.minimum(longer.column, len(longer.shift) - 1)
            both = longer.sums * first[at] + shorter.sums * second[at]
            return StartSums(np.concatenate([shift, longer.shift[columns:]]), both, longer.column)
        head = (longer.sums[:columns].T * to_longer + shorter.sums.T * to_shorter).T
        return StartSums(
            np.concatenate([shift, longer.shift[columns:]]), np.concatenate([head, longer.sums[columns:]])
        )


@dataclass(frozen=True, eq=False)
class Starts(Added):
    """The sums of all uses; merges."""

    tables: tuple[StartSums, ...]


@dataclass(frozen=True, eq=False)
class StartFamily:
    """The starts of a product estimator."""

    family: ProductFamily
    shape: tuple[int, ...]  # (S, A)
    folds: Folds | None = None  # of a cross-fitted model; None where there is one model
    times: IntArray | None = None  # (S,) the only step of each state, where rows are states; None: any step

    @property
    def key(self) -> Hashable:
        """Equal for equal estimators."""
        return ("starts", self.family.key)

    def summarise(self, block: Block) -> Starts:
        """The sums of a block."""
        n_states, n_actions = self.shape
        count = 1 if self.folds is None else self.folds.count
        fold_of = None if self.folds is None else self.folds(block)[:, None]
        tables: list[StartSums] = []
        weighted = self.family.weighting.on(block)
        for maker in self.family.makers:
            if not _uses_q(maker):
                continue
            sums_starts = getattr(maker, "start_sums", None) if self.folds is None else None
            walked = None if sums_starts is None else sums_starts(block)
            if walked is not None:
                tables += walked
                continue
            for use, used in zip(maker.uses, maker.used(weighted), strict=True):
                places = n_states * n_actions if use.along is None else n_states
                used = _in_time(block, use, used)
                if fold_of is not None:
                    used = Cells(used.weights, used.index + fold_of * places, used.where)
                column = None if self.times is None else np.repeat(self.times, places // n_states)
                tables.append(StartSums.of(used, count * places if column is None else places, column))
        return Starts(tuple(tables))

    def finish(
        self, starts: Starts, sums: ProductSums, weighted: bool
    ) -> Sequence[Start] | Sequence[FloatArray]:
        """The start of each fold's model; `sums` are those of the estimator itself.

        Where rows are states it is one table, (S, A): each row has a single step.
        """
        family, tables = self.family, list(starts.tables)
        end, parts = len(sums.groups), []
        for maker in reversed(family.makers):
            if not _uses_q(maker):
                break  # makers that use Q come last
            end -= maker.n_groups
            for use in reversed(maker.uses):
                scaled = self._scaled(tables.pop(), sums.groups[end + use.group], weighted)
                parts.append((use, *scaled))
        if self.times is not None:
            by_row = np.zeros(self.shape)
            for use, table, _ in parts:
                by_row += -table.reshape(self.shape) if use.along is None else table[:, None] * use.along
            return [by_row]
        count = 1 if self.folds is None else self.folds.count
        return [Start(parts, k, count, family.gamma) for k in range(count)]

    def _scaled(
        self, table: StartSums, group: ColumnSums, weighted: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        """(C, places) the weights over their normaliser, discounted; (places,) of rows.

        Where they are not multiplied yet, the second is what each step is to be multiplied by.
        """
        columns = len(table.shift)
        if table.column is not None:
            factor = powers(self.family.gamma, columns) / group.n
            shift = table.shift
            if weighted:
                on = Normalised(group, self.family.gamma, self.family.finished)
                factor, shift = on.slope[:columns] / group.n, shift - group.shift[:columns]
            return table.sums * scale(factor, shift)[np.minimum(table.column, columns - 1)], None
        if not weighted:
            discounted = scale(table.sums.T, table.shift).T * powers(self.family.gamma, columns)[:, None]
            return discounted / group.n, None
        on = Normalised(group, self.family.gamma, self.family.finished)
        return table.sums, scale(on.slope[:columns], table.shift - group.shift[:columns]) / group.n


def _in_time(block: Block, use: QUse, used: Cells) -> Cells:
    """The cells times the discounts of a log by its durations."""
    if block.before is not None:
        used = used.times(block.before)
    return used if block.during is None or not use.later else used.times(block.during)


class Start:
    """start_t(s, a) of one model."""

    def __init__(
        self, parts: Sequence[tuple[QUse, FloatArray, FloatArray | None]], fold: int, folds: int, gamma: float
    ) -> None:
        self._parts, self._gamma = [], gamma
        for use, table, factor in parts:
            places = table.shape[1] // folds
            self._parts.append((use, table[:, fold * places : (fold + 1) * places], factor))

    def __call__(self, t: int) -> FloatArray | None:
        """(S, A); None where it is zero."""
        total: FloatArray | None = None
        for use, table, factor in self._parts:
            at = t - use.later
            if not 0 <= at < len(table):
                continue
            part = self._part(use, table[at] if factor is None else table[at] * factor[at])
            total = part if total is None else total + part
        return total

    def total(self, steps: int) -> FloatArray | None:
        """(S * A,) the sum over the first steps; None where it is zero."""
        total: FloatArray | None = None
        for use, table, factor in self._parts:
            first = table[: max(0, steps - use.later)]
            weights = (
                first.sum(axis=0) if factor is None else np.einsum("c,cp->p", factor[: len(first)], first)
            )
            part = self._part(use, weights)
            total = part if total is None else total + part
        return total

    def _part(self, use: QUse, weights: FloatArray) -> FloatArray:
        if use.along is None:
            return -weights
        return np.ravel((self._gamma if use.later else 1.0) * weights[:, None] * use.along)


Influence = Callable[[Block], FloatArray]


def no_influence(block: Block) -> FloatArray:
    """(m,) zeros: of what no episode moves."""
    return np.zeros(block.n)


def starts_of(family: Family, values: Values[Field], shape: tuple[int, int]) -> StartFamily | None:
    """The sums behind the influence of the model, of (S, A) pairs; None where none is fitted."""
    if not values.fits or not isinstance(family, ProductFamily):
        return None
    if not any(_uses_q(maker) for maker in family.makers):
        return None
    return StartFamily(family, shape, values.folds, values.times)


@dataclass(frozen=True, eq=False)
class WithModel:
    """An estimate, with the model whose values it uses."""

    own: Influence  # the influence on the estimate with the model as it is
    sums: ProductSums  # behind the estimate
    weighted: bool  # whether it is self-normalised
    starts: tuple[StartFamily, Starts]  # the family of its starts, with their sums
    fits: Sequence[Any]  # the models, `FittedModel` or `RowValues`


def full_influences(estimates: Sequence[WithModel]) -> list[Influence]:
    """The influences on some estimates and on their models; each model is gone through once."""
    parts: list[list[Influence]] = [[estimate.own] for estimate in estimates]
    by_model: dict[Any, list[tuple[int, Any]]] = {}
    for number, estimate in enumerate(estimates):
        family, sums = estimate.starts
        starts = family.finish(sums, estimate.sums, estimate.weighted)
        for fitted, start in zip(estimate.fits, starts, strict=True):
            by_model.setdefault(fitted, []).append((number, start))
    for fitted, numbered in by_model.items():
        n = estimates[numbered[0][0]].sums.plain.n
        influences = fitted.influences([start for _, start in numbered], n)
        for (number, _), influence in zip(numbered, influences, strict=True):
            parts[number].append(influence)
    return [Together(tuple(addends)) for addends in parts]
