"""Summaries: sums over episodes that merge.

Every estimate is a function of such sums, so a log may be summed whole, in blocks, or in parts on several
workers. Each summary has `merge`, which takes the summary of other episodes.

Weights are products of many ratios. `Running` carries them as value * 2**exponent where they could leave the
range of doubles (`sums.weighting` makes them), and sums of such weights are in units of a power of two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from deadweight.tools.arithmetic import divide, once
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

# The exponent of a sum that is zero: smaller than any other, so that it never sets the unit.
NOTHING = -(1 << 40)
# Rows of a table whose moments are taken together: as many as stay in cache.
ROW_CELLS = 1 << 16
# Mean weights closer to 1 than this are 1: probabilities are often written with six digits.
NEAR_ONE = 1e-6
# A table of all keys is quicker than sorting them where it has at most so many places for each that is there.
SPARSE_KEYS = 8


@dataclass(frozen=True)
class Moments:
    """Number, mean and sum of squared deviations (Chan, Golub & LeVeque, 1983)."""

    n: int
    mean: float
    squares: float

    @classmethod
    def of(cls, values: FloatArray) -> Moments:
        """Moments of (m,) values."""
        with np.errstate(invalid="ignore", over="ignore"):
            mean = float(values.mean())
            return cls(len(values), mean, float(np.square(values - mean).sum()))

    def merge(self, other: Moments) -> Moments:
        """Moments of both together."""
        n = self.n + other.n
        step = other.mean - self.mean
        mean = self.mean + step * (other.n / n)
        return Moments(n, mean, self.squares + other.squares + step * step * (self.n * other.n / n))

    @property
    def std_error(self) -> float:
        """Standard error of the mean, ddof 1; NaN for a single value."""
        return float(np.sqrt(self.squares / (self.n - 1) / self.n)) if self.n > 1 else float("nan")


@dataclass(frozen=True, eq=False)
class RowMoments:
    """The moments of several values an episode, each by itself."""

    n: int
    mean: FloatArray  # (k,)
    squares: FloatArray  # (k,)

    @classmethod
    def of(
        cls, values: FloatArray, rows: Sequence[int] | None = None, less: FloatArray | None = None
    ) -> RowMoments:
        """The moments of (k, m) values of m episodes, or of some rows, less (m,) others."""
        chosen = np.arange(len(values)) if rows is None else np.asarray(rows, dtype=np.int64)
        mean, squares = np.empty(len(chosen)), np.empty(len(chosen))
        at_once = max(1, ROW_CELLS // max(1, values.shape[1]))
        with np.errstate(invalid="ignore", over="ignore"):
            for lo in range(0, len(chosen), at_once):
                here = slice(lo, lo + at_once)
                table = np.ascontiguousarray(values[chosen[here]])  # a row has the bits that it has alone
                if less is not None:
                    table -= less
                table.mean(axis=1, out=mean[here])
                table -= mean[here, None]
                np.square(table, out=table).sum(axis=1, out=squares[here])
        return cls(values.shape[1], mean, squares)

    @classmethod
    def beside(cls, tables: Sequence[RowMoments]) -> RowMoments:
        """The moments of several tables of the same episodes, one below the other."""
        mean, squares = (np.concatenate([getattr(t, name) for t in tables]) for name in ("mean", "squares"))
        return cls(tables[0].n, mean, squares)

    @classmethod
    def none(cls, n: int) -> RowMoments:
        """The moments of episodes whose values could not be had: NaN."""
        return cls(n, np.full(1, np.nan), np.full(1, np.nan))

    def merge(self, other: RowMoments) -> RowMoments:
        """The moments of both together."""
        n = self.n + other.n
        step = other.mean - self.mean
        squares = self.squares + other.squares + step * step * (self.n * other.n / n)
        return RowMoments(n, self.mean + step * (other.n / n), squares)

    def row(self, number: int) -> Moments:
        """The moments of one value."""
        return Moments(self.n, float(self.mean[number]), float(self.squares[number]))


@dataclass(frozen=True, eq=False)
class CoMoments:
    """Number, means and sums of products of deviations of several values an episode."""

    n: int
    mean: FloatArray  # (k,)
    products: FloatArray  # (k, k)

    @classmethod
    def of(cls, values: FloatArray) -> CoMoments:
        """The moments of (k, m) values of m episodes."""
        mean: FloatArray = values.mean(axis=1)
        deviations = values - mean[:, None]
        return cls(values.shape[1], mean, deviations @ deviations.T)

    def merge(self, other: CoMoments) -> CoMoments:
        """The moments of both together."""
        n = self.n + other.n
        step = other.mean - self.mean
        mean = self.mean + step * (other.n / n)
        between = np.outer(step, step) * (self.n * other.n / n)
        return CoMoments(n, mean, self.products + other.products + between)

    @property
    def covariance_of_means(self) -> FloatArray:
        """(k, k), ddof 1; NaN for a single episode."""
        if self.n < 2:
            return np.full_like(self.products, np.nan)
        return self.products / ((self.n - 1) * float(self.n))


@dataclass(frozen=True, eq=False)
class Running:
    """Weights `values * 2**exponents`; no exponents means that all are zero."""

    values: FloatArray  # (m, C)
    exponents: IntArray | None = None  # (m, C)

    @property
    def last(self) -> Running:
        """The last column, (m, 1)."""
        return self._columns(slice(-1, None))

    def first(self, columns: int) -> Running:
        """The weights of the first so many columns."""
        return self._columns(slice(columns))

    @property
    def contiguous(self) -> Running:
        """The weights in one piece: numpy sums those in another order than what lies scattered."""
        return Running(np.ascontiguousarray(self.values), self.exponents)

    @property
    def lagged(self) -> Running:
        """(m, C + 1): the weight before each step, 1 before the first, and the final one after the last."""
        m = len(self.values)
        values = np.concatenate([np.ones((m, 1)), self.values], axis=1)
        if self.exponents is None:
            return Running(values)
        return Running(values, np.concatenate([np.zeros((m, 1), dtype=np.int64), self.exponents], axis=1))

    def linear(self) -> FloatArray:
        """The weights as doubles; too large ones become inf."""
        return times(self, 1.0)

    def logs(self) -> FloatArray:
        """Natural logarithms of the weights; -inf for zeros."""
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(self.values)
        return logs if self.exponents is None else logs + self.exponents * math.log(2.0)

    def among(self, counted: BoolArray | None) -> Running:
        """The weights with those not counted set to zero, so that they never set the unit of a column."""
        return self if counted is None else Running(self.values * counted, self.exponents)

    def relative_to(self, shift: IntArray | int) -> FloatArray:
        """The weights divided by 2**shift, column by column."""
        if self.exponents is None and np.all(shift == 0):
            return self.values
        exponents = 0 if self.exponents is None else self.exponents
        return scale(self.values, exponents - shift)

    def _columns(self, which: slice) -> Running:
        exponents = None if self.exponents is None else self.exponents[:, which]
        return Running(self.values[:, which], exponents)


def scale(values: FloatArray, exponents: IntArray | int) -> FloatArray:
    """values * 2**exponents, with exponents of any size."""
    return np.ldexp(values, np.clip(exponents, -5_000, 5_000).astype(np.int32))


def times(weights: Running, factor: FloatArray | float) -> FloatArray:
    """weights * factor as doubles. Zero factors give zero even where the weight is too large."""
    product = weights.values * factor
    if weights.exponents is None:
        return product
    with np.errstate(over="ignore"):
        return scale(product, weights.exponents)


def discounted(weights: Running, gamma: float) -> Running:
    """gamma**t times the weights of column t, also where the one vanishes while the other overflows."""
    if gamma == 1.0:
        return weights
    mantissas, whole = np.modf(np.arange(weights.values.shape[1]) * np.log2(gamma))
    exponents = whole.astype(np.int64) + (0 if weights.exponents is None else weights.exponents)
    return Running(weights.values * np.exp2(mantissas), exponents)


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums of weights, of weighted values and of squared weights for each column (step) of a block.

    The sums of column c are in units of 2**shift[c] (squares in its square), so that weights of any size can
    be normalised. Past the last column all these episodes have ended: the values are zero, and the weights
    keep their last value if ended episodes stay in the normaliser.
    """

    n: int
    stays: bool
    shift: IntArray  # (C,)
    weight: FloatArray  # (C,) sum of w
    weighted: FloatArray  # (C,) sum of w * y
    counted: FloatArray  # (C,) number of episodes in the normaliser

    @classmethod
    def of(
        cls,
        weights: Running,
        values: FloatArray,
        counted: BoolArray | None = None,
    ) -> ColumnSums:
        """Sums over the episodes of a block.

        Args:
          weights: (m, C).
          values: (m, C), zero where there is nothing to weigh.
          counted: (m, C) False where an episode has left the normaliser (its value is zero there); None:
            all stay.
        """
        n, columns = values.shape
        shift, w, weight = _summed(weights, counted)
        return cls(
            n=n,
            stays=counted is None,
            shift=shift,
            weight=weight,
            weighted=np.einsum("ij,ij->j", w, values),
            counted=np.full(columns, float(n)) if counted is None else counted.sum(axis=0, dtype=np.float64),
        )

    @classmethod
    def in_units_of_one(cls, n: int, weight: FloatArray, weighted: FloatArray) -> ColumnSums:
        """From sums over n episodes, all of which stay, whose weights are plain doubles."""
        shift = np.zeros(len(weight), dtype=np.int64)
        if np.count_nonzero(weight) < len(weight):
            shift[weight == 0] = NOTHING
        counted = np.empty(len(weight))
        counted.fill(n)
        return cls(n, True, shift, weight, weighted, counted)

    def extended(self, columns: int) -> ColumnSums:
        """The sums with the steps after the end written out, up to `columns` columns."""
        extra, stays = columns - len(self.weight), self.stays
        if extra <= 0:
            return self
        return ColumnSums(
            self.n,
            stays,
            _extended(self.shift, extra, stays, NOTHING),
            _extended(self.weight, extra, stays),
            _extended(self.weighted, extra, False),
            _extended(self.counted, extra, stays),
        )

    def merge(self, other: ColumnSums) -> ColumnSums:
        """Sums over the episodes of both, in the larger unit of the two."""
        columns = max(len(self.weight), len(other.weight))
        a, b = self.extended(columns), other.extended(columns)
        shift, to_a, to_b = common_unit(a.shift, b.shift)
        return ColumnSums(
            a.n + b.n,
            self.stays,
            shift,
            a.weight * to_a + b.weight * to_b,
            a.weighted * to_a + b.weighted * to_b,
            a.counted + b.counted,
        )

    @once
    def has_zero_weights(self) -> bool:
        """Whether the weights of a column are all zero."""
        return int(np.count_nonzero(self.weight)) < len(self.weight)

    @property
    def ratio(self) -> FloatArray:
        """(C,) sum of w * y / sum of w, with 0 / 0 = 0."""
        return self.per_weight(self.weighted)

    def per_weight(self, top: FloatArray | float) -> FloatArray:
        """(C,) top / sum of w, and 0 where that sum is 0."""
        if not self.has_zero_weights:
            return top / self.weight
        return np.divide(top, self.weight, out=np.zeros_like(self.weight), where=self.weight != 0)


@dataclass(frozen=True, eq=False)
class Kish:
    """Effective sample size (sum w)^2 / sum w^2 of the weights of each column (Kish, 1965)."""

    stays: bool
    shift: IntArray  # (C,) the unit of w is 2**shift, that of w^2 its square
    weight: FloatArray  # (C,) sum of w
    squares: FloatArray  # (C,) sum of w^2

    @classmethod
    def of(cls, weights: Running, counted: BoolArray | None = None) -> Kish:
        """From (m, C) weights; `counted` as in `ColumnSums`."""
        shift, w, weight = _summed(weights, counted)
        return cls(counted is None, shift, weight, np.add.reduce(w * w, axis=0))

    def merge(self, other: Kish) -> Kish:
        """The sums of both, in the larger unit of the two."""
        columns = max(len(self.weight), len(other.weight))
        a, b = self._extended(columns), other._extended(columns)
        shift, to_a, to_b = common_unit(a.shift, b.shift)
        squares = a.squares * to_a**2 + b.squares * to_b**2
        return Kish(self.stays, shift, a.weight * to_a + b.weight * to_b, squares)

    def _extended(self, columns: int) -> Kish:
        extra, stays = columns - len(self.weight), self.stays
        if extra <= 0:
            return self
        shift = _extended(self.shift, extra, stays, NOTHING)
        return Kish(stays, shift, *(_extended(sums, extra, stays) for sums in (self.weight, self.squares)))

    @property
    def ess(self) -> FloatArray:
        """(C,) effective sample size; 0 where all weights are zero."""
        return np.divide(self.weight**2, self.squares, out=np.zeros_like(self.weight), where=self.squares > 0)


def _summed(weights: Running, counted: BoolArray | None) -> tuple[IntArray, FloatArray, FloatArray]:
    """The unit of each column, its weights in that unit, without those not counted, and their sum."""
    members = weights.among(counted)
    shift = common_shift(members)
    w = members.relative_to(shift)
    weight = np.add.reduce(w, axis=0)
    return np.where(weight == 0, NOTHING, shift), w, weight


def common_shift(weights: Running) -> IntArray:
    """(C,) an exponent for each column that brings its largest weight into range."""
    if weights.exponents is None:
        return np.zeros(weights.values.shape[1], dtype=np.int64)
    shift: IntArray = np.where(weights.values != 0, weights.exponents, NOTHING).max(axis=0)
    return shift


def common_unit(a: IntArray, b: IntArray) -> tuple[IntArray, FloatArray | float, FloatArray | float]:
    """The larger unit of each column, and the factors that bring either side into it."""
    if np.array_equal(a, b):
        return a, 1.0, 1.0
    shift = np.maximum(a, b)
    ones = np.ones(len(shift))
    return shift, scale(ones, a - shift), scale(ones, b - shift)


def _extended(column: AnyArray, extra: int, stays: bool, otherwise: float = 0.0) -> AnyArray:
    """The column with `extra` more entries: its last one again, or `otherwise`."""
    return np.append(column, np.full(extra, column[-1] if stays else otherwise, dtype=column.dtype))


def z_from_one(mean: float, std_error: float, unit: float = 1.0) -> float:
    """The distance of a mean of weights from 1, in standard errors; 0 where it is 1 up to rounding.

    `unit` is 1 in the unit of the mean and its error, 0 where it is nothing beside them.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        near = abs(mean - unit) <= NEAR_ONE * unit
        return 0.0 if near else float(np.divide(mean - unit, std_error))


@dataclass(frozen=True, eq=False)
class KeyedSums:
    """Sums by an integer key, such as (s, a, s') written as one number: a sparse table that merges."""

    keys: AnyArray  # (U,) sorted, distinct; whole numbers but for conditions on rewards and returns
    sums: FloatArray  # (columns, U)

    @classmethod
    def of(cls, keys: IntArray, *columns: FloatArray | float) -> KeyedSums:
        """Sums of each column over equal keys; a number stands for a constant column."""
        distinct, index = np.unique(keys, return_inverse=True)
        sums = [
            np.bincount(index, minlength=distinct.size) * float(column)
            if np.ndim(column) == 0
            else np.bincount(index, weights=column, minlength=distinct.size)
            for column in columns
        ]
        return cls(distinct, np.array(sums, dtype=np.float64).reshape(len(columns), distinct.size))

    def without_zeros(self) -> KeyedSums:
        """The sums without keys whose first sum is zero."""
        there = self.sums[0] != 0
        return self if there.all() else KeyedSums(self.keys[there], self.sums[:, there])

    def merge(self, other: KeyedSums) -> KeyedSums:
        """Sums over both."""
        if not self._small_beside(other):
            keys = np.concatenate([self.keys, other.keys])
            columns = np.concatenate([self.sums, other.sums], axis=1)
            return KeyedSums.of(keys, *columns)
        size = 1 + max(int(keys[-1]) for keys in (self.keys, other.keys) if keys.size)
        table, seen = np.zeros((len(self.sums), size)), np.zeros(size, dtype=bool)
        table[:, self.keys] = self.sums
        table[:, other.keys] += other.sums
        seen[self.keys] = seen[other.keys] = True
        both = np.flatnonzero(seen)
        return KeyedSums(both, table[:, both])

    def _small_beside(self, other: KeyedSums) -> bool:
        """Whether a table of all keys is small: there is none of rewards, only of whole numbers from 0 on."""
        filled = [keys for keys in (self.keys, other.keys) if keys.size]
        if not filled or any(keys.dtype.kind not in "iu" or keys[0] < 0 for keys in filled):
            return False
        return 1 + max(int(keys[-1]) for keys in filled) <= SPARSE_KEYS * sum(keys.size for keys in filled)


class Added:
    """A dataclass of sums that merges field by field: numbers and arrays add up, the rest merges."""

    def merge(self, other: Self) -> Self:
        """The sums of both."""
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(_added(getattr(self, name), getattr(other, name)) for name in names))


def _added(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return tuple(_added(x, y) for x, y in zip(a, b, strict=True))
    return a.merge(b) if hasattr(a, "merge") else a + b


@dataclass(frozen=True, eq=False)
class Total(Added):
    """A sum, of a number or of an array."""

    value: FloatArray | float


@dataclass(frozen=True)
class Extent:
    """The smallest and the largest of some numbers."""

    lowest: float
    highest: float

    @classmethod
    def of(cls, values: FloatArray) -> Extent:
        """The extent of an array of any shape."""
        return cls(float(values.min()), float(values.max()))

    def merge(self, other: Extent) -> Extent:
        """The extent of both together."""
        return Extent(min(self.lowest, other.lowest), max(self.highest, other.highest))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Results that do not add up: a piece from each block, side by side in the order of the blocks."""

    items: tuple[Any, ...]

    def merge(self, other: Pieces) -> Pieces:
        """The pieces of both."""
        return Pieces(self.items + other.items)


@dataclass(frozen=True, eq=False)
class WholeSums:
    r"""Sums of whole-episode weights in L lanes, from which standard errors follow without a second pass.

    The influence of an episode on :math:`v = \sum B G / \sum B` is B (G - v) up to a factor, and v is known
    in the end. With squares around a centre c near v,

    .. math:: \sum B^2 (G - v)^2 = \sum B^2 (G - c)^2 - 2 (v - c) \sum B^2 (G - c) + (v - c)^2 \sum B^2

    loses no digits: c is what the episodes so far say themselves.
    """

    weight: FloatArray  # of B
    weighted: FloatArray  # of B G
    squares: FloatArray  # of B^2
    centred: FloatArray  # of B^2 (G - c), where c = weighted / weight
    spread: FloatArray  # of B^2 (G - c)^2

    @classmethod
    def of(cls, final: FloatArray, returns: FloatArray) -> WholeSums:
        """The sums of (m, L) whole weights and (m,) returns."""
        # In the order of `ColumnSums` and `Kish`: a lane has the bits that it has by itself.
        columns = np.ascontiguousarray(final.T)[:, :, None]  # (L, m, 1)
        weighted = np.array([np.einsum("ij,ij->j", lane, returns[:, None])[0] for lane in columns])
        squared = columns * columns
        weight, squares = (np.add.reduce(table, axis=1)[:, 0] for table in (columns, squared))
        away = returns - divide(weighted, weight)[:, None]  # (L, m)
        first = squared[:, :, 0] * away
        return cls(weight, weighted, squares, first.sum(axis=1), np.einsum("ij,ij->i", first, away))

    @property
    def centre(self) -> FloatArray:
        """(L,) c; 0 where there is no weight."""
        return divide(self.weighted, self.weight)

    def merge(self, other: WholeSums) -> WholeSums:
        """Sums over the episodes of both, around the centre of both."""
        weight, weighted = self.weight + other.weight, self.weighted + other.weighted
        (a, a_spread), (b, b_spread) = (sums.around(divide(weighted, weight)) for sums in (self, other))
        return WholeSums(weight, weighted, self.squares + other.squares, a + b, a_spread + b_spread)

    def around(self, centre: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`centred` and `spread` around another centre."""
        step = self.centre - centre
        spread = self.spread + 2.0 * step * self.centred + step * step * self.squares
        return self.centred + step * self.squares, spread

    def std_error(self, n: int) -> FloatArray:
        """(L,) standard errors of the self-normalised sums of n episodes; NaN for a single one."""
        if n < 2:
            return np.full_like(self.weight, np.nan)
        spread = np.maximum(self.spread, 0.0)
        return np.sqrt(n / (n - 1) * spread) / np.where(self.weight == 0, np.inf, self.weight)
