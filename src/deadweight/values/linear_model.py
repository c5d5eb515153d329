"""A linear model of action values, solved over the steps of a question or until the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from deadweight.basics.bumps import Bumps
from deadweight.typing import FloatArray, IntArray
from deadweight.values.linear_sums import CHUNK, LinearSystem
from deadweight.values.row_values import Rows

# More values than this share outside the possible range mean that the equations are unstable.
MOST_OUTSIDE = 0.01
# A smooth function overshoots where values are nearly as high, or as low, as they can be. So much of the
# widest range does not count as outside: it is moved back, and says nothing against the equations.
SLACK = 0.1
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Run:
    """Rows of one step and one fold, with their columns."""

    t: int
    fold: int
    rows: IntArray
    phi: FloatArray


def runs(rows: Rows, basis: Bumps) -> Iterator[Run]:
    """All rows, those of the same step and fold together; until the end, all steps are alike."""
    times = np.zeros_like(rows.times) if rows.steps is None else rows.times
    key = times * max(rows.folds, 1) + rows.fold
    order = np.argsort(key, kind="stable")
    for lo in range(0, rows.n, CHUNK):
        some = order[lo : lo + CHUNK]
        phi, own = basis.of(rows.x[some]), key[some]
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(own)) + 1, [len(own)]])
        for begin, end in pairwise(cuts.tolist()):
            t, fold = divmod(int(own[begin]), max(rows.folds, 1))
            yield Run(t, fold, some[begin:end], phi[begin:end])


class Solved:
    """A linear model, solved over the steps of the question, or until the end."""

    def __init__(self, rows: Rows, system: LinearSystem, steps: int | None = None) -> None:
        self.rows, self.system = rows, system
        self.steps = rows.steps if steps is None else steps

    @cached_property
    def reward_part(self) -> FloatArray:
        """(P,) M^-1 b."""
        return self.system.gram(self.system.rewards)

    @cached_property
    def step(self) -> FloatArray:
        """(P, P) K^-1 C."""
        return self.system.known(self.system.carried)

    @cached_property
    def settled(self) -> bool:
        """Whether values until the end exist, where they are asked for."""
        return self.steps is not None or self._until_the_end is not None

    @cached_property
    def _until_the_end(self) -> FloatArray | None:
        from scipy.linalg import LinAlgError, solve

        try:
            w = solve(np.eye(len(self.step)) - self.rows.gamma * self.step, self.reward_part)
        except (LinAlgError, ValueError):
            return None
        return np.asarray(w) if np.isfinite(w).all() else None

    @cached_property
    def w(self) -> FloatArray:
        """(T, P) coefficients of each step; a single row where all steps are alike."""
        if self.steps is None and self._until_the_end is not None:
            return self._until_the_end[None]
        steps = self.rows.log.horizon if self.steps is None else self.steps
        w = np.zeros((steps + 1, len(self.reward_part)))
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(steps - 1, -1, -1):
                w[t] = self.reward_part + self.rows.gamma * (self.step @ w[t + 1])
        return w[:-1] if self.steps is not None else w[:1]

    @cached_property
    def theta(self) -> FloatArray:
        """(T, A, p) the same by action."""
        return self.system.by_action(self.w)

    def raw(self, run: Run) -> FloatArray:
        """(m, A) values as the equations have them."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(run.phi @ self.theta[min(run.t, len(self.theta) - 1)].T)

    def q(self, run: Run) -> FloatArray:
        """(m, A) values within the possible range."""
        low, high = self.rows.limits(np.asarray(run.t))
        return np.clip(np.nan_to_num(self.raw(run)), low, high)

    def is_stable(self, basis: Bumps) -> bool:
        """Whether nearly all values are possible ones, on a fixed sample of rows."""
        if not np.isfinite(self.w).all():
            return False
        outside = looked = 0
        lowest, highest = self.rows.limits(np.asarray(0))
        slack = SLACK * float(highest - lowest) + ROUNDING * (1.0 + abs(float(highest)) + abs(float(lowest)))
        for run in _sampled(self.rows, basis):
            low, high = self.rows.limits(np.asarray(run.t))
            values = self.raw(run)
            outside += int(np.count_nonzero((values < low - slack) | (values > high + slack)))
            looked += values.size
        return outside <= MOST_OUTSIDE * looked


def _sampled(rows: Rows, basis: Bumps, most: int = 4_096) -> Iterator[Run]:
    """A fixed sample of rows by step."""
    some = np.arange(0, rows.n, max(1, rows.n // most))
    times = np.zeros_like(some) if rows.steps is None else rows.times[some]
    phi = basis.of(rows.x[some])
    for t in np.unique(times):
        chosen = times == t
        yield Run(int(t), 0, some[chosen], phi[chosen])
