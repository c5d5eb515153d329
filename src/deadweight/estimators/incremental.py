r"""Incremental importance sampling (INCRIS, WINCRIS and, with a drop, SINCRIS, WSINCRIS).

For each step t only the m latest ratios weigh the reward, current step included. With

.. math:: A = \prod_{j \le t-m} \rho_j \prod_{t-m < j \le t,\, s_j \in S^A} \rho_j, \quad
   B = \prod_{t-m < j \le t,\, s_j \in S^B} \rho_j, \quad X = B\, r_t

the window m is the one with the smallest Var(X) / n + Cov(A, X)^2, the estimated mean squared error of using
B alone; ties go to the smallest window. Guo, Thomas & Brunskill (2017). The authors' code leaves out the 1/n
(`variance="sample"`) and lets ended episodes enter with A = B = 1 (`ended_ratios="one"`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.arithmetic import divide
from deadweight.blocks import Block, powers
from deadweight.errors import EstimationError
from deadweight.estimators.base import Fit
from deadweight.estimators.product import normaliser_members
from deadweight.typing import AnyArray, FloatArray, IntArray
from deadweight.weighting import Weighting

# Criteria that differ by less than this, relative to the sizes involved, are a tie: the rest is rounding.
TIE = 1e-12


@dataclass(frozen=True, eq=False)
class WindowSums:
    """Means and co-moments of A, B and X for each window (row) and step (column).

    Past the last column they repeat it: by then every window lies behind the end of all these episodes.
    """

    n: int
    mean_x: FloatArray  # (K, H)
    mean_a: FloatArray
    squares_x: FloatArray  # sum of (X - mean X)^2
    product_ax: FloatArray  # sum of (A - mean A) (X - mean X)
    sum_b: FloatArray  # over the members of the normaliser
    counted: FloatArray  # (K, H) their number

    def merge(self, other: WindowSums) -> WindowSums:
        """Both together (Chan, Golub & LeVeque, 1983)."""
        columns = max(self.mean_x.shape[1], other.mean_x.shape[1])
        a, b = self._extended(columns), other._extended(columns)
        n = a.n + b.n
        step_x, step_a = b.mean_x - a.mean_x, b.mean_a - a.mean_a
        share, cross = b.n / n, a.n * b.n / n
        return WindowSums(
            n,
            a.mean_x + step_x * share,
            a.mean_a + step_a * share,
            a.squares_x + b.squares_x + step_x * step_x * cross,
            a.product_ax + b.product_ax + step_a * step_x * cross,
            a.sum_b + b.sum_b,
            a.counted + b.counted,
        )

    def _extended(self, columns: int) -> WindowSums:
        extra = columns - self.mean_x.shape[1]
        if extra <= 0:
            return self
        arrays = (self.mean_x, self.mean_a, self.squares_x, self.product_ax, self.sum_b, self.counted)
        return WindowSums(
            self.n, *(np.concatenate([x, np.repeat(x[:, -1:], extra, axis=1)], axis=1) for x in arrays)
        )


class Incremental:
    """INCRIS over windows of at most `window` steps (None: unlimited).

    Args:
      weighting: the ratios, with the drop applied.
      gamma: discount.
      horizon: T, the longest episode of the whole log.
      window, variance, ended_ratios, finished: see the module and `deadweight.options`.
    """

    def __init__(
        self,
        weighting: Weighting,
        gamma: float,
        horizon: int,
        window: int | None = 10,
        variance: str = "estimator",
        ended_ratios: str = "absorb",
        finished: str = "absorb",
    ) -> None:
        self.weighting, self.gamma, self.horizon = weighting, gamma, horizon
        self.window = horizon if window is None else min(window, horizon)
        self.variance, self.ended_ratios, self.finished = variance, ended_ratios, finished

    @property
    def key(self) -> Hashable:
        """Everything that the sums depend on."""
        conventions = (self.window, self.variance, self.ended_ratios, self.finished)
        return ("incremental", self.weighting.key, self.gamma, *conventions)

    def summarise(self, block: Block) -> WindowSums:
        """Co-moments of each window; NaN where a window would reach before the start."""
        columns = self._columns(block)
        rewards = _padded(block.rewards, columns, 0.0)
        members = normaliser_members(block, self.finished)
        sums = [np.full((self.window, columns), np.nan) for _ in range(5)]
        mean_x, mean_a, squares_x, product_ax, sum_b = sums
        for row, (a, b) in enumerate(self._windows(block, columns)):
            at = slice(row, columns)
            x = b * rewards[:, at]
            mean_x[row, at] = x.mean(axis=0)
            mean_a[row, at] = a.mean(axis=0)
            x -= mean_x[row, at]
            squares_x[row, at] = np.einsum("ij,ij->j", x, x)
            product_ax[row, at] = np.einsum("ij,ij->j", a, x)
            sum_b[row, at] = np.add.reduce(
                b if members is None else b * _padded(members, columns, False)[:, at], axis=0
            )
        counted = np.full(columns, float(block.n))
        if members is not None:
            counted = _padded(members, columns, False).sum(axis=0, dtype=np.float64)
        return WindowSums(block.n, mean_x, mean_a, squares_x, product_ax, sum_b, _rows(counted, self.window))

    def finish(self, summary: WindowSums, weighted: bool) -> Fit:
        """Choose a window for each step, and add the steps up."""
        if summary.n < 2:
            raise EstimationError(
                "INCRIS chooses its windows by a covariance and needs two episodes or more; found 1.",
                fix="Use PDIS for a single episode.",
            )
        chosen = self.choose(summary)
        at = (chosen, np.arange(self.horizon))
        discount = powers(self.gamma, self.horizon)
        mean_x, sum_b = summary.mean_x[at], summary.sum_b[at]
        flags: tuple[str, ...] = ()
        if not weighted:
            pull = survival = np.zeros(self.horizon)
            value, slope = float((discount * mean_x).sum()), discount
        else:
            survivors = self.finished == "survivors"
            share = summary.counted[at] / summary.n if survivors else np.ones(self.horizon)
            per_b = divide(float(summary.n), sum_b)
            value = float((discount * share * per_b * mean_x).sum())
            slope = discount * share * per_b
            pull = slope * per_b * mean_x
            survival = discount * per_b * mean_x if survivors else np.zeros(self.horizon)
            if (sum_b == 0).any():
                flags += ("zero-weights",)
        if not np.isfinite(value):
            flags += ("overflow",)
        return Fit(
            value,
            influence=partial(self._influence, chosen=chosen, slope=slope, pull=pull, survival=survival),
            flags=flags,
            details={"windows": chosen + 1},
        )

    def choose(self, summary: WindowSums) -> IntArray:
        """(T,) row of the chosen window at each step."""
        n = summary.n
        per = n if self.variance == "estimator" else 1
        with np.errstate(over="ignore", invalid="ignore"):
            covariance = np.square(summary.product_ax / (n - 1))
            criterion = summary.squares_x / n / per + covariance
            size = criterion + np.square(summary.mean_x) / per  # of the numbers that were subtracted
        criterion = np.where(np.isnan(criterion), np.inf, criterion)
        chosen: IntArray = (criterion <= criterion.min(axis=0) + TIE * np.nan_to_num(size)).argmax(axis=0)
        return chosen

    def _columns(self, block: Block) -> int:
        """Steps until every window lies behind the end of all episodes of the block."""
        return min(self.horizon, block.horizon + self.window)

    def _windows(self, block: Block, columns: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        """(A, B) of windows 1, 2, ..., each for the steps that it fits: (m, columns - window + 1)."""
        kept = _padded(self.weighting.kept(block), columns, 1.0)
        rho = _padded(self.weighting.full(block), columns, 1.0)
        dropped = self.weighting.dropped(block)
        lost = None if dropped is None else np.where(_padded(dropped, columns, False), rho, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            before = np.ones_like(rho)
            np.multiply.accumulate(rho[:, :-1], axis=1, out=before[:, 1:])
            ended = np.arange(columns) >= block.lengths[:, None] if self.ended_ratios == "one" else None
            b, lost_in_window = np.ones_like(rho), np.ones_like(rho)
            for row in range(min(self.window, columns)):
                b = b[:, (row > 0) :] * kept[:, : columns - row]
                a = before[:, : columns - row]
                if lost is not None:
                    lost_in_window = lost_in_window[:, (row > 0) :] * lost[:, : columns - row]
                    a = a * lost_in_window
                if ended is not None:
                    b[ended[:, row:]] = 1.0
                    a = np.where(ended[:, row:], 1.0, a)
                yield a, b

    def _influence(
        self, block: Block, chosen: IntArray, slope: FloatArray, pull: FloatArray, survival: FloatArray
    ) -> FloatArray:
        """(m,) sum over t of slope_t X - pull_t B with the chosen windows, up to a constant."""
        columns = self._columns(block)
        rewards = _padded(block.rewards, columns, 0.0)
        members = normaliser_members(block, self.finished)
        inside = np.ones((block.n, columns)) if members is None else _padded(members, columns, False)
        result: FloatArray = np.add.reduce(inside * survival[:columns], axis=1)
        for row, (_, b) in enumerate(self._windows(block, columns)):
            at = np.flatnonzero(chosen[:columns] == row)
            values = rewards[:, at] * slope[at] - inside[:, at] * pull[at]
            result += np.add.reduce(b[:, at - row] * values, axis=1)
        if members is None:  # past the last column X = 0 and B = 1
            result -= pull[columns:].sum()
        return result


def _padded(cells: AnyArray, columns: int, fill: float) -> AnyArray:
    extra = columns - cells.shape[1]
    if extra <= 0:
        return cells
    return np.concatenate([cells, np.full((len(cells), extra), fill, dtype=cells.dtype)], axis=1)


def _rows(column: FloatArray, count: int) -> FloatArray:
    return np.broadcast_to(column, (count, len(column))).copy()
