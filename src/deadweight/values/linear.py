r"""Linear action values: the default where states are described by features.

.. math:: Q_t(x, a) = \phi(x) \cdot \theta_{a,t}, \qquad
   w_t = M^{-1} b + \gamma K^{-1} C \, w_{t+1}, \qquad w_T = 0

with phi the features and bumps between and along them, transitions pooled over time, and M, b, K and C from
sums over the rows with each action a,

.. math:: G_a = \sum \phi \phi', \qquad b_a = \sum \phi r, \qquad
   C_{a a'} = \sum \phi(x) \, \pi_e(a'|x') \, \phi(x')'

which merge: those of all folds but one are the model that has not seen it. Coefficients are
theta_a = w_0 + w_a, so that actions borrow from each other; the ridge on w_0 is a tenth of that on w_a. Rows
after which nobody knows what followed count for rewards and not for transitions. If no episode was cut, w is
what stays the same from step to step. With one column for each state and a vanishing ridge this is the model
that a table of counts makes.

Influence: with g_t the derivative of an estimate by w_t, pushed forward through the equations,

.. math:: \lambda_t = g_t + \gamma C' u_{t-1}, \qquad u_t = K^{-1} \lambda_t

an episode moves the estimate by way of its rows (x, a, r, x'):

.. math:: \varphi_i = n \sum \left[ (\phi \cdot \bar u_a) (r - \phi \cdot \theta^r_a) +
   \gamma \sum_t (\phi \cdot u_{t,a}) \left( \sum_{a'} \pi_e(a'|x') \, \phi(x') \cdot \theta_{t+1,a'} -
   \phi \cdot \theta^c_{t,a} \right) \right]

where theta^r and theta^c are what rewards and transitions contribute, and u-bar is M^-1 sum_t lambda_t.
Values that were moved into the possible range are treated as if they had not been. The brackets do not depend
on the estimate, and from step to step they differ by little: written in as few columns as they take, they are
made once for all estimates of a pass.

Reference: Bradtke & Barto (1996), linear least-squares temporal differences.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from deadweight.errors import OptionError
from deadweight.sums.summaries import Added
from deadweight.tools.bumps import Bumps
from deadweight.tools.limits import few_threads
from deadweight.typing import FloatArray, IntArray
from deadweight.values.rows import Influence, MovedValues, OfEpisodes, RowLearner, Rows, RowValues

CHUNK = 16_384
# The ridge on what all actions share, as a share of that on what is particular to one.
SHARED_RIDGE = 0.1
# Below this ridge equations may be singular, and are solved in the directions that the log knows.
SURELY_POSITIVE = 1e-6
SINGULAR = 1e-13
JITTER = 1e-12
# More values than this share outside the possible range, of so many rows: the equations are unstable.
MOST_OUTSIDE, SAMPLED = 0.01, 4_096
# A smooth function overshoots where values are nearly as high, or as low, as they can be. So much of the
# widest range does not count as outside: it is moved back, and says nothing against the equations.
SLACK = 0.1
ROUNDING = 1e-6
# Columns of the brackets that are smaller than the largest by this factor are rounding.
NOTHING = 1e-14
# How often the ridge may be raised until the equations are stable, and how many bumps there are by default.
MOST_RIDGES, SIZE = 8, 100


@dataclass(frozen=True, eq=False)
class LinearSums(Added):
    """Sums of rows by action."""

    gram: FloatArray  # (A, p, p) of all rows
    known: FloatArray  # (A, p, p) of rows after which it is known what followed
    rewards: FloatArray  # (A, p)
    carried: FloatArray  # (A, p, A, p)

    @classmethod
    def none(cls, n_actions: int, size: int) -> LinearSums:
        """The sums of no rows."""
        shapes = ((n_actions, size, size),) * 2 + ((n_actions, size), (n_actions, size) * 2)
        return cls(*map(np.zeros, shapes))

    def pooled(self) -> LinearSums:
        """Sums with all actions as one: the process that the log itself has followed."""
        gram, known, rewards = (sums.sum(axis=0)[None] for sums in (self.gram, self.known, self.rewards))
        return LinearSums(gram, known, rewards, self.carried.sum(axis=(0, 2))[None, :, None])


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in the order of the log, with their columns and, where it is known, with what follows them."""

    rows: slice
    phi: FloatArray  # (m, p)
    following: FloatArray  # (m, p) phi(x'); zero where the task ended or nobody knows what followed
    probs: FloatArray  # (m, A) pi_e(a'|x'); zero there too


def chunks(rows: Rows, basis: Bumps) -> Iterator[Chunk]:
    """The rows of a log with what follows them."""
    for lo in range(0, rows.n, CHUNK):
        hi = min(lo + CHUNK, rows.n)
        after = rows.following[lo:hi]
        inside = basis.of(rows.x[lo : hi + 1])
        following = np.zeros((hi - lo, basis.size))
        near = (after >= 0) & (after <= hi) & (after < rows.n)
        following[near] = inside[after[near] - lo]
        beyond = (after >= 0) & ~near
        if beyond.any():
            following[beyond] = basis.of(rows.x[after[beyond]])
        probs = np.where(after[:, None] >= 0, rows.probs[after], 0.0)
        yield Chunk(slice(lo, hi), inside[: hi - lo], following, probs)


def sums_by_fold(rows: Rows, basis: Bumps) -> list[LinearSums]:
    """The sums of each fold, in one reading of the rows."""
    n_actions, size, folds = rows.n_actions, basis.size, max(rows.folds, 1)
    sums = [LinearSums.none(n_actions, size) for _ in range(folds)]
    for chunk in chunks(rows, basis):
        ahead = (chunk.probs[:, :, None] * chunk.following[:, None, :]).reshape(len(chunk.phi), -1)
        known, rewards = rows.known[chunk.rows], rows.log.rewards[chunk.rows]
        for fold, action, group in groups(rows.fold[chunk.rows], rows.log.actions[chunk.rows]):
            phi, total = chunk.phi[group], sums[fold]
            total.gram[action] += phi.T @ phi
            total.rewards[action] += rewards[group] @ phi
            certain = known[group]
            if not certain.all():
                group, phi = group[certain], phi[certain]
            total.known[action] += phi.T @ phi
            total.carried[action] += (phi.T @ ahead[group]).reshape(size, n_actions, size)
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
        both = self._with_shared(self._with_shared(self.sums.carried, 0), 2)
        return np.ascontiguousarray(both.reshape((self.blocks * self.size,) * 2))

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
        for action, gram in enumerate(by_action, start=1):
            whole[0, :, action] = whole[action, :, 0] = whole[action, :, action] = gram
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
        regular = values > SINGULAR * len(values) * values[-1]
        self._root = vectors[:, regular] / np.sqrt(values[regular])

    def __call__(self, b: FloatArray) -> FloatArray:
        """The solution for one right-hand side, (P,), or several, (P, k)."""
        from scipy.linalg import cho_solve

        if self._factor is None:
            return np.asarray(self._root @ (self._root.T @ b))
        return np.asarray(cho_solve(self._factor, b, check_finite=False))


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
        chunk = order[lo : lo + CHUNK]
        phi, keys = basis.of(rows.x[chunk]), key[chunk]
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(keys)) + 1, [len(keys)]])
        for begin, end in pairwise(cuts.tolist()):
            t, fold = divmod(int(keys[begin]), max(rows.folds, 1))
            yield Run(t, fold, chunk[begin:end], phi[begin:end])


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
        """(T, A, p) coefficients of each step by action."""
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
        rows, outside, looked = self.rows, 0, 0
        lowest, highest = rows.limits(np.asarray(0))
        slack = SLACK * float(highest - lowest) + ROUNDING * (1.0 + abs(float(highest)) + abs(float(lowest)))
        sample = np.arange(0, rows.n, max(1, rows.n // SAMPLED))
        times = np.zeros_like(sample) if rows.steps is None else rows.times[sample]
        phi = basis.of(rows.x[sample])
        for t in np.unique(times):
            low, high = rows.limits(np.asarray(t))
            values = self.raw(Run(int(t), 0, sample[times == t], phi[times == t]))
            outside += int(np.count_nonzero((values < low - slack) | (values > high + slack)))
            looked += values.size
        return outside <= MOST_OUTSIDE * looked


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearValues(MovedValues):
    """Values of a linear model, with what its influence needs."""

    rows: Rows
    basis: Bumps
    whole: Solved
    folds: tuple[Solved, ...]
    sums: LinearSums

    def influences(self, by_q: Sequence[FloatArray], n: int) -> list[Influence]:
        """See `MovedValues`; what was asked for before is not computed again."""
        keys = [hashlib.blake2b(np.ascontiguousarray(q).tobytes(), digest_size=16).digest() for q in by_q]
        new = {key: q for key, q in zip(keys, by_q, strict=True) if key not in self._known}
        if new:
            models = self.folds or (self.whole,)
            with few_threads(self.rows.n):
                errors = self._errors_of_folds if self.folds else self._errors_of_whole
                starts = self._starts(models, list(new.values()))
                forms = [self._forms(models, start, errors) for start in starts]
                influences = per_episode(self.rows, self.basis, errors, forms, n)
            self._known.update(zip(new, influences, strict=True))
        return [self._known[key] for key in keys]

    @cached_property
    def _errors_of_folds(self) -> Errors:
        return Errors.of(self.folds)

    @cached_property
    def _errors_of_whole(self) -> Errors:
        return Errors.of([self.whole])

    def q_of(self, x: FloatArray, times: IntArray) -> FloatArray | None:
        """See `RowValues`; None where the model was learned from other columns than the log's features."""
        rows = self.rows
        if not np.array_equal(rows.x[: rows.n], np.asarray(rows.log.features)):
            return None
        phi, q = self.basis.of(x), np.empty((len(x), rows.n_actions))
        steps = np.zeros_like(times) if rows.steps is None else times
        for t in np.unique(steps):
            at = np.flatnonzero(steps == t)
            q[at] = self.whole.q(Run(int(t), 0, at, phi[at]))
        return q

    @cached_property
    def _known(self) -> dict[bytes, OfEpisodes]:
        return {}

    def _starts(self, models: Sequence[Solved], by_q: Sequence[FloatArray]) -> list[list[FloatArray]]:
        """For each estimate and each model, (T, A, p) the derivative by its coefficients."""
        starts = [[np.zeros(model.theta.shape) for model in models] for _ in by_q]
        for run in runs(self.rows, self.basis):
            at = self.rows.log.states[run.rows]
            for q, start in zip(by_q, starts, strict=True):
                of_fold = start[run.fold]
                of_fold[min(run.t, len(of_fold) - 1)] += q[at].T @ run.phi
        return starts

    @cached_property
    def start_influence(self) -> Influence:
        """The influence on the mean of V at the first rows."""
        start = np.zeros(self.whole.theta.shape)
        first = self.rows.log.offsets[:-1]
        with few_threads(self.rows.n):
            start[0] = self.rows.probs[first].T @ self.basis.of(self.rows.x[first]) / len(first)
            forms = self._forms((self.whole,), [start], self._errors_of_whole)
            return per_episode(self.rows, self.basis, self._errors_of_whole, [forms], len(first))[0]

    def _forms(
        self, models: Sequence[Solved], starts: Sequence[FloatArray], errors: Errors
    ) -> list[FloatArray]:
        """For each fold, (A, p, r + K) what its rows do, which are in the sums of all models but one."""
        moved = [errors.moved(k, *both) for k, both in enumerate(zip(models, starts, strict=True))]
        if len(moved) == 1:
            return moved * max(self.rows.folds, 1)
        total = np.add.reduce(moved)
        return [total - of_fold for of_fold in moved]

    def behaviour_value(self, steps: int) -> tuple[float, Influence]:
        """The value of the process that the log has followed, all actions as one, and its influence."""
        rows, first = self.rows, self.rows.log.offsets[:-1]
        with few_threads(rows.n):
            model = Solved(rows, LinearSystem(self.sums.pooled(), self.whole.system.ridge), steps)
            phi, start = self.basis.of(rows.x[first]), np.zeros(model.theta.shape)
            start[0, 0] = phi.mean(axis=0)
            errors = Errors.of([model])
            forms = [errors.moved(0, model, start)] * max(rows.folds, 1)
            influence = per_episode(rows, self.basis, errors, [forms], rows.log.n_episodes)[0]
            values = phi @ model.theta[0, 0]
        return float(start[0, 0] @ model.theta[0, 0]), OfEpisodes(influence.values + values)


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of models in rows: of their rewards, and of what follows them.

    What follows has a column for each step of each model; they are combinations of r columns.
    """

    after: FloatArray  # (A, p, r) of the columns of x', by the action there
    here: FloatArray  # (A, p, r) of those of x, by the action here: what transitions contribute
    rewarded: FloatArray  # (A, p, K) what rewards contribute, a column for each of K models
    combined: tuple[FloatArray, ...]  # of each model, (T, r) its steps by the columns, discount and all

    @classmethod
    def of(cls, models: Sequence[Solved]) -> Errors:
        """The errors of models with the same columns."""
        steps = [_later(model) for model in models]
        n_actions, size = models[0].system.n_actions, models[0].system.size
        left, sizes, columns = np.linalg.svd(np.concatenate(steps), full_matrices=False)
        large = sizes > NOTHING * sizes[0]
        both = columns[large].reshape(-1, 2, n_actions, size).transpose(1, 2, 3, 0)
        combined = models[0].rows.gamma * left[:, large] * sizes[large]
        return cls(
            np.ascontiguousarray(both[0]),
            np.ascontiguousarray(both[1]),
            np.stack([model.system.by_action(model.reward_part) for model in models], axis=2),
            tuple(np.split(combined, np.cumsum(list(map(len, steps)))[:-1])),
        )

    def moved(self, number: int, model: Solved, start: FloatArray) -> FloatArray:
        """(A, p, r + K) what a row does by way of a model to an estimate with this derivative, (T, A, p).

        It is a form in the columns of the row and in its errors.
        """
        u, total = _until_the_end(model, start) if _is_settled(model) else _over_steps(model, start)
        acting = np.tensordot(model.system.by_action(u), self.combined[number], axes=(0, 0))
        earning = np.zeros(self.rewarded.shape)
        earning[:, :, number] = model.system.by_action(model.system.gram(total))
        return np.concatenate([acting, earning], axis=2)

    def on(self, rows: Rows, chunk: Chunk, action: IntArray) -> FloatArray:
        """(m, r + K) of the rows of a chunk, whose actions are these."""
        width = self.after.shape[2]
        errors = np.zeros((len(chunk.phi), width + self.rewarded.shape[2]))
        probs = chunk.probs if len(self.after) > 1 else chunk.probs.sum(axis=1, keepdims=True)
        for a, after in enumerate(self.after):
            errors[:, :width] += probs[:, a, None] * (chunk.following @ after)
        for _, a, group in groups(np.zeros_like(action), action):
            phi = chunk.phi[group]
            errors[group, :width] -= phi @ self.here[a]
            errors[group, width:] = rows.log.rewards[chunk.rows][group, None] - phi @ self.rewarded[a]
        errors[~rows.known[chunk.rows], :width] = 0.0
        return errors


def _is_settled(model: Solved) -> bool:
    """Whether steps are alike."""
    return model.steps is None and len(model.w) == 1 and model.settled


def _later(model: Solved) -> FloatArray:
    """(T, 2 * A * p) the coefficients of the next step, and what transitions make of them."""
    later = model.w
    if not _is_settled(model):
        later = np.concatenate([later[1:], np.zeros_like(later[:1])])
    by = model.system.by_action
    both = np.stack([by(later), by(later @ model.step.T)], axis=1)
    return np.asarray(both.reshape(len(later), -1))


def _over_steps(model: Solved, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(T, P) u_t, and the sum of lambda_t."""
    system, gamma = model.system, model.rows.gamma
    u, total = np.zeros_like(model.w), np.zeros(model.w.shape[1])
    pushed = np.zeros_like(total)
    for t in range(len(u)):
        lambda_t = system.gathered(start[t]) + pushed
        total += lambda_t
        u[t] = system.known(lambda_t)
        pushed = gamma * (system.carried.T @ u[t])
    return u, total


def _until_the_end(model: Solved, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(1, P) the sum of all u_t, and that of lambda_t, where steps are alike."""
    from scipy.linalg import solve

    system, gamma = model.system, model.rows.gamma
    g = system.gathered(start.sum(axis=0))
    total = solve(np.eye(len(g)) - gamma * model.step.T, g)
    return system.known(total)[None], total


def per_episode(
    rows: Rows, basis: Bumps, errors: Errors, estimates: Sequence[Sequence[FloatArray]], n: int
) -> list[OfEpisodes]:
    """Influences of each episode on some estimates, each of which has a form for the rows of each fold."""
    by_row = np.empty((len(estimates), rows.n))
    pooled = len(errors.after) == 1  # all actions as one
    for chunk in chunks(rows, basis):
        fold = rows.fold[chunk.rows]
        action = np.zeros_like(fold) if pooled else rows.log.actions[chunk.rows]
        missed = errors.on(rows, chunk, action)
        of_chunk = by_row[:, chunk.rows]
        for k, a, group in groups(fold, action):
            phi, off = chunk.phi[group], missed[group]
            for number, forms in enumerate(estimates):
                of_chunk[number, group] = np.einsum("ir,ir->i", phi @ forms[k][a], off)
    first = rows.log.offsets[:-1]
    return [OfEpisodes(n * np.add.reduceat(influence, first)) for influence in by_row]


class LinearQ(RowLearner):
    """Action values that are linear in columns made of the features.

    Args:
      basis: "bumps" adds Gaussian bumps; "linear" does not.
      size: number of bumps. Half of them stand between the features, and the others, three to six, along
        each feature that has more than six values. With one feature, or with more than there are bumps for,
        all stand between.
      ridge: how many rows' worth the coefficients are held back by; 0 for not at all.
      seed: of the places of the bumps.

    Example:
      >>> import deadweight as dw
      >>> log = dw.Trajectories(None, [0, 1] * 20, [1.0, 3.0] * 20, range(41), features=np.zeros((40, 1)))
      >>> uniform = dw.RowPolicy(np.full((40, 2), 0.5))
      >>> round(dw.estimate("DM", log, uniform, uniform, model=dw.LinearQ(basis="linear", ridge=0)).value, 6)
      2.0
    """

    def __init__(
        self, basis: Literal["bumps", "linear"] = "bumps", size: int = SIZE, ridge: float = 1.0, seed: int = 0
    ) -> None:
        number = not isinstance(ridge, bool) and isinstance(ridge, int | float)
        for name, value, fits, what, example in (
            ("basis", basis, basis in ("bumps", "linear"), "'bumps' or 'linear'", "'bumps'"),
            ("size", size, _is_whole(size) and size >= 1, "a whole number of at least 1", 100),
            ("ridge", ridge, number and 0 <= ridge < np.inf, "a number of at least 0", 1.0),
            ("seed", seed, _is_whole(seed) and seed >= 0, "a whole number of at least 0", 0),
        ):
            if not fits:
                raise OptionError(
                    f"{name} of LinearQ must be {what}; found {value!r}.",
                    fix=f"For example LinearQ({name}={example}).",
                )
        self.basis, self.size, self.ridge, self.seed = basis, int(size), float(ridge), int(seed)

    def __repr__(self) -> str:
        return f"LinearQ(basis={self.basis!r}, size={self.size}, ridge={self.ridge:g}, seed={self.seed})"

    @property
    def is_rich(self) -> bool:
        """Whether it can bend at least as much as the default."""
        return self.basis == "bumps" and self.size >= SIZE

    def fit(self, rows: Rows) -> RowValues:
        """One reading of the rows for the sums of all folds, another one for the values."""
        with few_threads(rows.n):
            return self._fit(rows)

    def _fit(self, rows: Rows) -> LinearValues:
        size = self.size if self.basis == "bumps" else 0
        basis = Bumps.fitted(rows.x[: rows.n], size, self.seed, along=True)
        by_fold = sums_by_fold(rows, basis)
        everything = reduce(LinearSums.merge, by_fold)
        whole = self._solved(rows, basis, everything)
        folds = [
            self._solved(rows, basis, reduce(LinearSums.merge, by_fold[:k] + by_fold[k + 1 :]))
            for k in range(rows.folds)
        ]
        q = np.zeros((len(rows.pi_e), rows.n_actions))
        for run in runs(rows, basis):
            model = folds[run.fold] if folds else whole
            q[rows.log.states[run.rows]] = model.q(run)
        models = (whole, *folds)
        return LinearValues(
            q=q,
            start=self._starts(rows, basis, whole),
            start_without=np.stack([self._starts(rows, basis, fold) for fold in folds]) if folds else None,
            flags=("model-unstable",) if any(model.system.ridge > self.ridge for model in models) else (),
            settled=all(model.settled for model in models),
            rows=rows,
            basis=basis,
            whole=whole,
            folds=tuple(folds),
            sums=everything,
        )

    def _starts(self, rows: Rows, basis: Bumps, model: Solved) -> FloatArray:
        """(episodes,) value of each first row in a model."""
        first = rows.log.offsets[:-1]
        values = np.empty(len(first))
        for lo in range(0, len(first), CHUNK):
            chunk = first[lo : lo + CHUNK]
            q = model.q(Run(0, 0, chunk, basis.of(rows.x[chunk])))
            values[lo : lo + CHUNK] = np.einsum("ia,ia->i", q, rows.probs[chunk])
        return values

    def _solved(self, rows: Rows, basis: Bumps, sums: LinearSums) -> Solved:
        """The model of some sums, with a ridge that keeps its values where they can be."""
        ridge = self.ridge
        for _ in range(MOST_RIDGES):
            model = Solved(rows, LinearSystem(sums, ridge))
            if model.is_stable(basis):
                break
            ridge = max(10.0 * ridge, 1e-3)
        return model


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
