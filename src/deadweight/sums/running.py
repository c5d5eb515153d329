"""Running products of ratios that neither overflow nor vanish.

Products are taken linearly, which is several times faster than sums of logarithms and gives exactly 1 when
pi_e = pi_b. Where a product could leave the range of doubles, it is carried as value * 2**exponent, with a
new exponent every few steps. The test is on what the product reaches on its way, or could: an excursion that
comes back is caught as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadweight.typing import BoolArray, FloatArray, IntArray

# Products are safe up to exp(+-300): their squares, and squares times returns, are still doubles.
SAFE_LOG = 300.0


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


def running_product(ratios: FloatArray, log_bound: float | None = None, overwrite: bool = False) -> Running:
    """Running products of each row.

    Args:
      ratios: (m, H), none negative; NaN passes through.
      log_bound: a bound on abs(log(ratio)) over the positive ratios, when one is known.
      overwrite: the products may take the place of the ratios.
    """
    horizon = ratios.shape[1]
    bound = largest_log(ratios) if log_bound is None else log_bound
    if bound * horizon <= SAFE_LOG:
        return Running(_product(ratios, ratios if overwrite else None))
    # What the products do reach is cheaper to see than what they could, and every few steps are enough: in
    # between they cannot go further than the other half of the way. Zeros and NaN need a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        products = _product(ratios)
    seen = products[:, :: max(1, int(SAFE_LOG / 2 / bound))]
    if seen.min() >= np.exp(-SAFE_LOG / 2) and seen.max() <= np.exp(SAFE_LOG / 2) and bound <= SAFE_LOG / 2:
        return Running(products)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(ratios > 0, np.abs(np.log(ratios)), 0.0)
    if logs.sum(axis=1).max() <= SAFE_LOG:
        return Running(products)
    return _scaled_product(ratios, max(1, int(SAFE_LOG / logs.max())))


def largest_log(ratios: FloatArray) -> float:
    """max abs(log(ratio)) over the positive ratios; 0 when there are none."""
    positive = ratios[ratios > 0]
    if positive.size == 0:
        return 0.0
    return float(max(abs(np.log(positive.max())), abs(np.log(positive.min()))))


def _product(ratios: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Running products of each row, whichever way the matrix lies in memory; `out` may be the ratios."""
    if not ratios.flags.f_contiguous or ratios.shape[0] == 1:
        return np.multiply.accumulate(ratios, axis=1, out=out)
    products = np.empty_like(ratios) if out is None else out
    columns = list(products.T)
    columns[0][:] = ratios[:, 0]
    for before, ratio, after in zip(columns, ratios.T[1:], columns[1:], strict=False):
        np.multiply(before, ratio, out=after)
    return products


def _scaled_product(ratios: FloatArray, stride: int) -> Running:
    """Running products with a new exponent every `stride` steps."""
    values = np.empty_like(ratios)
    exponents = np.empty(ratios.shape, dtype=np.int64)
    mantissa, exponent = np.ones(len(ratios)), np.zeros(len(ratios), dtype=np.int64)
    for lo in range(0, ratios.shape[1], stride):
        part = _product(ratios[:, lo : lo + stride]) * mantissa[:, None]
        values[:, lo : lo + stride] = part
        exponents[:, lo : lo + stride] = exponent[:, None]
        mantissa, extra = np.frexp(part[:, -1])
        exponent = exponent + extra
        if stride == 1:  # a single ratio may be as large as the whole safe range
            values[:, lo], exponents[:, lo] = mantissa, exponent
    return Running(values, exponents)
