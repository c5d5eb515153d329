r"""Sums of whole-episode weights in many lanes, from which a standard error follows without a second pass.

The influence of an episode on :math:`v = \sum B G / \sum B` is B (G - v) up to a factor, and v is known in
the end. With squares around a centre c near v,

.. math:: \sum B^2 (G - v)^2 = \sum B^2 (G - c)^2 - 2 (v - c) \sum B^2 (G - c) + (v - c)^2 \sum B^2

loses no digits: c is what the episodes so far say themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import divide
from deadweight.typing import FloatArray


@dataclass(frozen=True, eq=False)
class WholeSums:
    """Sums over episodes, (L,) each; they merge.

    Attributes:
      weight, weighted, squares: of B, of B G and of B^2.
      centred, spread: of B^2 (G - c) and of B^2 (G - c)^2, where c = weighted / weight.
    """

    weight: FloatArray
    weighted: FloatArray
    squares: FloatArray
    centred: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, final: FloatArray, returns: FloatArray) -> WholeSums:
        """Of (m, L) whole weights and (m,) returns."""
        # In the order of `ColumnSums` and `Kish`: a lane has the bits that it has by itself.
        columns = np.ascontiguousarray(final.T)[:, :, None]  # (L, m, 1)
        weighted = np.array([np.einsum("ij,ij->j", one, returns[:, None])[0] for one in columns])
        squared = columns * columns
        weight, squares = (np.add.reduce(one, axis=1)[:, 0] for one in (columns, squared))
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
        (a, a_spread), (b, b_spread) = (one.around(divide(weighted, weight)) for one in (self, other))
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
