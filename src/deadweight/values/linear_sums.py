r"""The sums behind a linear model of action values, by fold and action, and the systems that they make.

With columns phi(x) and a coefficient theta_a for each action,

.. math:: G_a = \sum \phi \phi', \qquad b_a = \sum \phi r, \qquad
   C_{a a'} = \sum \phi(x) \, \pi_e(a'|x') \, \phi(x')'

over the rows with action a. Sums merge: those of all folds but one are the model that has not seen it.
Coefficients are theta_a = w_0 + w_a, so that actions borrow from each other; the ridge on w_0 is a tenth of
that on w_a. Rows after which nobody knows what followed count for rewards and not for transitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from deadweight.tools.bumps import Bumps
from deadweight.typing import FloatArray, IntArray
from deadweight.values.rows import Rows

CHUNK = 16_384
# The ridge on what all actions share, as a share of that on what is particular to one.
SHARED_RIDGE = 0.1
# Below this ridge equations may be singular, and are solved in the directions that the log knows.
SURELY_POSITIVE = 1e-6
SINGULAR = 1e-13
JITTER = 1e-12


@dataclass(frozen=True, eq=False)
class LinearSums:
    """Sums of some rows by action; they merge."""

    gram: FloatArray  # (A, p, p) of all rows
    known: FloatArray  # (A, p, p) of rows after which it is known what followed
    rewards: FloatArray  # (A, p)
    carried: FloatArray  # (A, p, A, p)

    @classmethod
    def none(cls, n_actions: int, size: int) -> LinearSums:
        """Of no rows."""
        square = (n_actions, size, size)
        return cls(
            np.zeros(square), np.zeros(square), np.zeros(square[:2]), np.zeros((n_actions, size, *square[:2]))
        )

    def merge(self, other: LinearSums) -> LinearSums:
        """Of both."""
        return LinearSums(
            self.gram + other.gram,
            self.known + other.known,
            self.rewards + other.rewards,
            self.carried + other.carried,
        )

    def pooled(self) -> LinearSums:
        """The same with all actions as one: the process that the log itself has followed."""
        return LinearSums(
            self.gram.sum(axis=0)[None],
            self.known.sum(axis=0)[None],
            self.rewards.sum(axis=0)[None],
            self.carried.sum(axis=(0, 2))[None, :, None],
        )


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows in the order of the log, with their columns.

    Attributes:
      rows: their numbers.
      phi: (m, p).
      following: (m, p) phi(x'); zero where the task ended or nobody knows what followed.
      probs: (m, A) pi_e(a'|x'); zero there too.
    """

    rows: slice
    phi: FloatArray
    following: FloatArray
    probs: FloatArray

    @property
    def ahead(self) -> FloatArray:
        """(m, A * p) pi_e(a'|x') phi(x')."""
        return (self.probs[:, :, None] * self.following[:, None, :]).reshape(len(self.phi), -1)


def chunks(rows: Rows, basis: Bumps) -> Iterator[Chunk]:
    """The rows of a log with what follows them."""
    for lo in range(0, rows.n, CHUNK):
        hi = min(lo + CHUNK, rows.n)
        after = rows.following[lo:hi]
        inside = basis.of(rows.x[lo : hi + 1])
        following = np.zeros((hi - lo, basis.size))
        own = (after >= 0) & (after <= hi) & (after < rows.n)
        following[own] = inside[after[own] - lo]
        beyond = (after >= 0) & ~own
        if beyond.any():
            following[beyond] = basis.of(rows.x[after[beyond]])
        probs = np.where(after[:, None] >= 0, rows.probs[after], 0.0)
        yield Chunk(slice(lo, hi), inside[: hi - lo], following, probs)


def sums_by_fold(rows: Rows, basis: Bumps) -> list[LinearSums]:
    """The sums of each fold, in one reading of the rows."""
    n_actions, size, folds = rows.n_actions, basis.size, max(rows.folds, 1)
    sums = [LinearSums.none(n_actions, size) for _ in range(folds)]
    for chunk in chunks(rows, basis):
        ahead, known, rewards = chunk.ahead, rows.known[chunk.rows], rows.log.rewards[chunk.rows]
        for fold, action, some in groups(rows.fold[chunk.rows], rows.log.actions[chunk.rows]):
            phi, total = chunk.phi[some], sums[fold]
            total.gram[action] += phi.T @ phi
            total.rewards[action] += rewards[some] @ phi
            certain = known[some]
            if not certain.all():
                some, phi = some[certain], phi[certain]
            total.known[action] += phi.T @ phi
            total.carried[action] += (phi.T @ ahead[some]).reshape(size, n_actions, size)
    return sums


def groups(fold: IntArray, action: IntArray) -> Iterator[tuple[int, int, IntArray]]:
    """(fold, action, which of these rows have both)."""
    key = fold * (int(action.max()) + 1) + action
    if key.max() < 1 << 15:
        key = key.astype(np.int16)  # which numpy sorts by its digits
    order = np.argsort(key, kind="stable")
    cuts = np.flatnonzero(np.diff(key[order])) + 1
    for group in np.split(order, cuts):
        yield int(fold[group[0]]), int(action[group[0]]), group


class LinearSystem:
    """The equations of one model: w = M^-1 b + gamma K^-1 C w', from its sums and a ridge."""

    def __init__(self, sums: LinearSums, ridge: float) -> None:
        self.n_actions, self.size = sums.rewards.shape
        self.sums, self.ridge = sums, ridge

    @property
    def blocks(self) -> int:
        """Blocks of coefficients: what actions share, and what each has of its own."""
        return self.n_actions + 1 if self.n_actions > 1 else 1

    @cached_property
    def gram(self) -> Solver:
        """M."""
        return Solver(self._square(self.sums.gram), self._ridges, self.ridge)

    @cached_property
    def known(self) -> Solver:
        """K, which is M where it is known of all rows what followed."""
        if np.array_equal(self.sums.known, self.sums.gram):
            return self.gram
        return Solver(self._square(self.sums.known), self._ridges, self.ridge)

    @cached_property
    def rewards(self) -> FloatArray:
        """(P,) b."""
        return self.gathered(self.sums.rewards)

    @cached_property
    def carried(self) -> FloatArray:
        """(P, P) C."""
        size, blocks = self.size, self.blocks
        rows = self._with_shared(self.sums.carried, 0)
        both = self._with_shared(rows, 2)
        return np.ascontiguousarray(both.reshape(blocks * size, blocks * size))

    def gathered(self, by_action: FloatArray) -> FloatArray:
        """(P,) the derivative by w of what has this derivative by theta, (A, p)."""
        return np.asarray(self._with_shared(by_action, 0).reshape(-1))

    def by_action(self, w: FloatArray) -> FloatArray:
        """(..., A, p) theta of w, (..., P)."""
        parts = w.reshape(*w.shape[:-1], self.blocks, self.size)
        return parts if self.n_actions == 1 else parts[..., 1:, :] + parts[..., :1, :]

    def _with_shared(self, by_action: FloatArray, axis: int) -> FloatArray:
        if self.n_actions == 1:
            return by_action
        return np.concatenate([by_action.sum(axis=axis, keepdims=True), by_action], axis=axis)

    def _square(self, by_action: FloatArray) -> FloatArray:
        """(P, P) the Gram matrix of phi in the blocks of each row: the shared one, and that of its action."""
        size, blocks = self.size, self.blocks
        if self.n_actions == 1:
            return np.array(by_action[0])
        whole = np.zeros((blocks, size, blocks, size))
        whole[0, :, 0] = by_action.sum(axis=0)
        for action, own in enumerate(by_action, start=1):
            whole[0, :, action] = whole[action, :, 0] = whole[action, :, action] = own
        return whole.reshape(blocks * size, blocks * size)

    @cached_property
    def _ridges(self) -> FloatArray:
        ridges = np.full(self.blocks * self.size, self.ridge)
        ridges[: self.size] *= SHARED_RIDGE
        return ridges


class Solver:
    """The inverse of a Gram matrix with a ridge, without writing it out."""

    def __init__(self, gram: FloatArray, ridges: FloatArray, ridge: float) -> None:
        from scipy.linalg import cho_factor, eigh

        matrix = gram + np.diag(ridges)
        self._factor: Any = None
        if ridge >= SURELY_POSITIVE:
            matrix[np.diag_indices_from(matrix)] *= 1.0 + JITTER
            self._factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
            return
        values, vectors = eigh(matrix, overwrite_a=True, check_finite=False)
        some = values > SINGULAR * len(values) * values[-1]
        self._root = vectors[:, some] / np.sqrt(values[some])

    def __call__(self, b: FloatArray) -> FloatArray:
        """The solution for one right-hand side, (P,), or several, (P, k)."""
        from scipy.linalg import cho_solve

        if self._factor is None:
            return np.asarray(self._root @ (self._root.T @ b))
        return np.asarray(cho_solve(self._factor, b, check_finite=False))


# --------------------------------------------------------------------------------------------------------
# A linear model of action values, solved over the steps of a question or until the end.

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
