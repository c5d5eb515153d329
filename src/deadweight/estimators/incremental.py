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

from deadweight.errors import EstimationError
from deadweight.estimators.product import Fit
from deadweight.sums import kernel
from deadweight.sums.blocks import Block, powers, readable
from deadweight.sums.weighting import WeightedBlock, Weighting
from deadweight.tools.arithmetic import divide
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

# Criteria that differ by less than this, relative to the sizes involved, are a tie: the rest is rounding.
TIE = 1e-12
# All windows are computed for so many (episode, step) cells at a time.
TILE_CELLS = 1 << 17


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

    The horizon T is the longest episode of the whole log; for the conventions see the module and
    `deadweight.question.asked`.
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
        return ("incremental", self.weighting, self.gamma, *conventions)

    def summarise(self, block: Block) -> WindowSums:
        """Co-moments of each window; NaN where a window would reach before the start."""
        ratios = self._ratios(block)
        columns = ratios.columns
        rewards = _padded(block.rewards, columns, 0.0)
        members = block.members(self.finished)
        inside = None if members is None else _padded(members, columns, False)
        moments = np.full((5, self.window, columns), np.nan)
        for row, at, a, b in ratios.windows(self.window):
            moments[:, row, at] = _moments(a, b, rewards[:, at], None if inside is None else inside[:, at])
        counted = np.full(columns, float(block.n))
        if inside is not None:
            counted = inside.sum(axis=0, dtype=np.float64)
        mean_x, mean_a, squares_x, product_ax, sum_b = moments
        counts = np.broadcast_to(counted, (self.window, columns)).copy()
        return WindowSums(block.n, mean_x, mean_a, squares_x, product_ax, sum_b, counts)

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
        return np.asarray((criterion <= criterion.min(axis=0) + TIE * np.nan_to_num(size)).argmax(axis=0))

    def _ratios(self, block: Block) -> _Ratios:
        """The ratios of a block until every window lies behind the end of all its episodes."""
        columns = min(self.horizon, block.horizon + self.window)
        return _Ratios(self.weighting.on(block), columns, self.ended_ratios == "one")

    def _influence(
        self, block: Block, chosen: IntArray, slope: FloatArray, pull: FloatArray, survival: FloatArray
    ) -> FloatArray:
        """(m,) sum over t of slope_t X - pull_t B with the chosen windows, up to a constant."""
        ratios = self._ratios(block)
        columns = ratios.columns
        rewards = _padded(block.rewards, columns, 0.0)
        members = block.members(self.finished)
        inside = np.ones((block.n, columns)) if members is None else _padded(members, columns, False)
        result: FloatArray = np.add.reduce(inside * survival[:columns], axis=1)
        for row, steps, _, b in ratios.windows(self.window):
            picked = np.flatnonzero(chosen[steps] == row)
            at = picked + steps.start
            values = rewards[:, at] * slope[at] - inside[:, at] * pull[at]
            result += np.add.reduce(b[:, picked] * values, axis=1)
        if members is None:  # past the last column X = 0 and B = 1
            result -= pull[columns:].sum()
        return result


def _moments(a: FloatArray, b: FloatArray, rewards: FloatArray, inside: BoolArray | None) -> FloatArray:
    """(5, steps) moments of one window at some steps: means of X and A, squares of X, products, sum of B."""
    by_step = (a.T, b.T, rewards.T)
    if kernel.KERNEL is not None and inside is None and all(map(readable, by_step)):
        moments = np.empty(5 * rewards.shape[1])
        kernel.KERNEL.windows(*(cells.reshape(-1) for cells in by_step), len(rewards), moments)
        return moments.reshape(-1, 5).T
    n = len(rewards)
    x = b * rewards
    mean_x = np.add.reduce(x, axis=0) / n
    x -= mean_x
    return np.stack(
        [
            mean_x,
            np.add.reduce(a, axis=0) / n,
            np.einsum("ij,ij->j", x, x),
            np.einsum("ij,ij->j", a, x),
            np.add.reduce(b if inside is None else b * inside, axis=0),
        ]
    )


class _Ratios:
    """Kept and full ratios of a block, and the products of both in windows."""

    def __init__(self, block: WeightedBlock, columns: int, ended_count_one: bool) -> None:
        self.columns = columns
        self.width = max(1, TILE_CELLS // block.n)
        self.kept = _padded(block.kept, columns, 1.0)
        rho, dropped = _padded(block.full, columns, 1.0), block.dropped
        self.lost = None if dropped is None else np.where(_padded(dropped, columns, False), rho, 1.0)
        self.ended = np.arange(columns) >= block.steps.lengths[:, None] if ended_count_one else None
        self.before = _products_before(block.weighting.undropped.on(block.steps), columns)

    def windows(self, count: int) -> Iterator[tuple[int, slice, FloatArray, FloatArray]]:
        """(row, steps, A, B) of window row + 1 at some of the steps where it fits.

        All windows of a few steps come before those of the next steps: the cells that they share, and what
        is computed of them, stay in cache however long episodes are.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            for lo in range(0, self.columns, self.width):
                yield from self._windows(lo, min(lo + self.width, self.columns), count)

    def _windows(self, lo: int, hi: int, count: int) -> Iterator[tuple[int, slice, FloatArray, FloatArray]]:
        b = lost_in_window = np.ones((1, hi - lo))
        for row in range(min(count, hi)):
            first = max(lo, row)
            fits, back = slice(first - hi, None), slice(first - row, hi - row)
            b = b[:, fits] * self.kept[:, back]
            a = self.before[:, back]
            if self.lost is not None:
                lost_in_window = lost_in_window[:, fits] * self.lost[:, back]
                a = a * lost_in_window
            if self.ended is not None:
                ended = self.ended[:, first:hi]
                b[ended] = 1.0
                a = np.where(ended, 1.0, a)
            yield row, slice(first, hi), a, b


def _products_before(block: WeightedBlock, columns: int) -> FloatArray:
    """(m, columns) the product of the ratios before each step."""
    # Where nothing is dropped, the effective sample size needs the same products: they are made once.
    running = block.running
    products = running.values if running.exponents is None else running.linear()
    before = np.ones((columns, block.n)).T if block.steps.by_step else np.ones((block.n, columns))
    before[:, 1 : block.horizon + 1] = products[:, : columns - 1]
    before[:, block.horizon + 1 :] = products[:, -1:]
    return before


def _padded(cells: AnyArray, columns: int, fill: float) -> AnyArray:
    extra = columns - cells.shape[1]
    if extra <= 0:
        return cells
    return np.concatenate([cells, np.full((len(cells), extra), fill, dtype=cells.dtype)], axis=1)
