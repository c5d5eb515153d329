r"""How heavy the weights of a log are: the tail that a sample shows, and their variance in the fitted model.

The shape k of the upper tail is that of a generalised Pareto fit,

.. math:: P(W > u + y \mid W > u) \approx (1 + k y / \sigma)^{-1/k}

For k above 1/2 the variance of the weights is infinite or might as well be, for k above 1 their mean is: no
number of episodes within reach helps then. Above 0.7 an estimate should not be trusted. The fit is the
empirical Bayes one of Zhang & Stephens (2009), on the largest min(n/5, 3 sqrt(n)) weights, with the weak
prior k = 1/2 worth ten observations of Vehtari et al. (2024).

Where episodes run until they end, the second moment of their weights is a sum over all lengths. It is finite
if and only if the spectral radius of

.. math:: M(s, s') = \sum_a \pi_b(a|s) \, k(s,a)^2 \, \hat P(s'|s,a)

over the states that are reached is below 1, with kept ratios k. A pair that was seen once would make loops
of its own, so transitions are shrunk towards those of all actions of the state, by a few visits. M is made of
the counts of the log: a table that needs no model for its estimates need not fit one for this.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.mdp.tabular import SMALL, reached, reached_in
from deadweight.question.question import Question
from deadweight.sums.blocks import Block
from deadweight.sums.weighting import Weighting
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.tools.limits import one_blas_thread
from deadweight.tools.thresholds import FAR_ABOVE_MEAN, HEAVY_TAIL, SURELY_INFINITE
from deadweight.typing import BoolArray, FloatArray
from deadweight.values.model import Counts

# Fewer observations than this say nothing about a tail.
SMALLEST_TAIL = 5
# Weights that differ by less than this share of the largest are equal: a tail of rounding errors is none.
EXCESS_ROUNDING = 1e-9
PRIOR_K, PRIOR_WEIGHT = 0.5, 10.0


def tail_size(n: int) -> int:
    """The number of n weights that make the tail."""
    return math.ceil(min(n / 5, 3 * math.sqrt(n)))


def pareto_k(log_weights: FloatArray) -> float:
    """The shape of the upper tail of weights given by their logarithms; NaN where there is no tail to fit.

    Args:
      log_weights: (n,), -inf for zero weights.

    >>> pareto_k(np.zeros(1000))
    nan
    """
    size = tail_size(len(log_weights))
    return math.nan if size >= len(log_weights) else tail_shape(np.sort(log_weights)[-size - 1 :])


def tail_shape(ordered: FloatArray) -> float:
    """The shape from the sorted logarithms of the tail and of the largest weight below it."""
    if len(ordered) <= SMALLEST_TAIL or ordered[-1] == -math.inf:
        return math.nan
    tail, cut = ordered[1:], ordered[0]
    # The shape does not depend on the unit: the largest weight is 1.
    excess = np.exp(tail - tail[-1]) - math.exp(cut - tail[-1])
    excess = excess[excess > EXCESS_ROUNDING]
    if len(excess) < SMALLEST_TAIL or not excess[-1] > excess[0]:
        return math.nan
    return shape(excess, PRIOR_WEIGHT)


def shape(excess: FloatArray, prior_weight: float = 0.0) -> float:
    """The shape k of a generalised Pareto distribution from sorted positive observations.

    The likelihood profile in theta = -k / sigma is averaged over a grid of quantiles of a data-driven prior.
    """
    n = len(excess)
    points = 30 + math.isqrt(n)
    quartile = excess[int(n / 4 + 0.5) - 1]
    grid = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    theta = 1 / excess[-1] + grid / (3 * quartile)
    k = np.log1p(-theta[:, None] * excess).mean(axis=1)  # (points,) best shape for each theta
    likelihood = n * (np.log(-theta / k) - k - 1)
    weights = np.exp(likelihood - likelihood.max())
    best = float(weights @ theta / weights.sum())
    fitted = float(np.log1p(-best * excess).mean())
    return (n * fitted + prior_weight * PRIOR_K) / (n + prior_weight)


@dataclass(frozen=True, eq=False)
class Largest:
    """Logarithms of the largest weights, as many as a tail needs, and of the sum of all n; merges."""

    logs: FloatArray
    size: int
    log_sum: float
    n: int

    def merge(self, other: Largest) -> Largest:
        """The largest weights of both."""
        both = Largest.of(np.concatenate([self.logs, other.logs]), self.size)
        return replace(both, log_sum=float(np.logaddexp(self.log_sum, other.log_sum)), n=self.n + other.n)

    @classmethod
    def of(cls, logs: FloatArray, size: int) -> Largest:
        """The largest `size` of (m,) logarithms."""
        kept = logs if len(logs) <= size else np.partition(logs, -size)[-size:]
        return cls(kept, size, float(np.logaddexp.reduce(logs)), len(logs))

    @property
    def shape(self) -> float:
        """Pareto k of the tail; NaN where there is none."""
        return tail_shape(np.sort(self.logs))

    @property
    def is_heavy(self) -> bool:
        """Whether the tail is heavy, and reaches far enough to matter."""
        reach = float(self.logs.max()) - self.log_sum + math.log(self.n)
        return reach > math.log(FAR_ABOVE_MEAN) and self.shape > HEAVY_TAIL


class LargestWeights:
    """The largest final weights of a log."""

    def __init__(self, weighting: Weighting, n: int) -> None:
        self.weighting, self.size = weighting, tail_size(n) + 1
        self.key: Hashable = ("largest", weighting)

    def summarise(self, block: Block) -> Largest:
        """The largest weights of a block."""
        return Largest.of(self.weighting.on(block).final.logs()[:, 0], self.size)


# --- The second moment in the fitted model

# Visits of a pair that count as much as all other actions of its state together.
PSEUDO_VISITS = 10.0
# The factors of a larger sparse matrix may be dense.
MOST_STATES = 5_000
# Relative distance of two bounds of a radius that are one number.
ROUNDING = 1e-10
# Far more iterations than a radius takes: each squares the error of the last one.
MOST_ITERATIONS = 60


@dataclass(frozen=True)
class Radius:
    r"""The spectral radius of states that lead back to each other, as a log shows it.

    It is as noisy as the counts, and half of all logs of a task with a radius just below 1 have one above it.
    With the right and the left eigenvector of the radius, v and u, it changes by :math:`u^\top dM \, v /
    u^\top v`, and each logged step of (s, a) brings weight(s, a) v(s') into row s of M v:

    .. math:: \mathrm{Var}(\hat\rho) = \frac{1}{(u^\top v)^2}
       \sum_s u_s^2 \, \mathrm{Var}_s(v) \sum_a n(s,a) \, \mathrm{weight}(s,a)^2

    where Var_s(v) is the variance of v(s') over all steps in s, whatever the action: those of a pair that was
    seen once would have none.
    """

    value: float  # in the fitted model
    std_error: float  # of the value, due to the transitions that were logged

    @property
    def is_infinite(self) -> bool:
        """Whether the second moment is infinite beyond the noise of the log."""
        return self.value - SURELY_INFINITE * self.std_error >= 1.0 - ROUNDING


def has_infinite_variance(question: Question, dropped: BoolArray | None = None) -> bool:
    """Whether the weights of a log have infinite variance in its fitted model, beyond the noise of the log.

    False where episodes are cut, for their weights are bounded; and where there are too many states to tell.

    Args:
      question: with pi_e of all actions.
      dropped: (S,) states whose ratios are dropped.
    """
    if question.terminated < question.n or question.pair.n_states > MOST_STATES:
        return False
    key = (Radius, None if dropped is None or not dropped.any() else dropped.tobytes())
    return question.made_once(key, lambda: any(radius.is_infinite for radius in radii(question, dropped)))


def second_moment(question: Question, second: FloatArray, most: float) -> float:
    r"""E[w^2] of whole-episode weights in the fitted model, over the steps of the longest episode.

    .. math:: u_t(s) = \sum_{s'} M(s, s') \, u_{t+1}(s'), \qquad E[w^2] = \sum_s d_0(s) \, u_0(s)

    with u = 1 after an end and after the last step: ended episodes keep their weight.

    Args:
      question: with counts.
      second: (S, A) pi_b k^2, as it is summed over actions.
      most: infinity is returned as soon as the moment is larger than this.
    """
    steps, d0 = _Steps(question.counts, second), question.counts.start_distribution()
    moments, unknown = steps.moments, steps.without_successor
    u = np.ones(len(second) + 1)
    for _ in range(question.horizon):
        following = np.where(unknown, second.sum(axis=1), moments @ u)
        change, u[:-1] = np.abs(following - u[:-1]).max(), following
        if not d0 @ following <= most:
            return math.inf
        if change <= ROUNDING * following.max():
            break
    return float(d0 @ u[:-1])


def radii(question: Question, dropped: BoolArray | None = None) -> Iterator[Radius]:
    """The radii of 1 or more of all states that lead back to each other; arguments as above."""
    pi_e, pi_b = question.pi_e("The variance of the weights"), question.pi_b
    second = divide(np.square(pi_e), pi_b)
    if dropped is not None:
        second = np.where(dropped[:, None], pi_b, second)
    steps, d0 = _Steps(question.counts, second), question.counts.start_distribution()
    if steps.surely_finite(d0):
        return
    for states in _classes(steps.moments, d0):
        value, right, left = _perron(steps.moments[states][:, states])
        if value >= 1.0:
            yield Radius(value, steps.std_error(states, right, left))


class _Steps:
    """The logged steps with what each of them adds to M."""

    def __init__(self, counts: Counts, second: FloatArray) -> None:
        pairs, self.after = np.divmod(counts.transitions.keys, counts.n_states + 1)
        self.state, self.number = pairs // counts.n_actions, counts.transitions.sums[0]
        # Visits whose successor is known: a cut may leave none.
        visits = sums_by(pairs, self.number, second.size).reshape(second.shape)
        of_pair = divide(second, visits + PSEUDO_VISITS)
        rest = (second - of_pair * visits).sum(axis=1, keepdims=True)
        weights = of_pair + divide(rest, visits.sum(axis=1, keepdims=True))
        self.weight: FloatArray = weights.ravel()[pairs]
        self.without_successor = visits.sum(axis=1) == 0  # (S,)
        self.n_states = counts.n_states

    @cached_property
    def moments(self) -> Any:
        """M, sparse, with a last column for the end."""
        from scipy import sparse

        shape = (self.n_states, self.n_states + 1)
        moments = sparse.csr_array((self.weight * self.number, (self.state, self.after)), shape=shape)
        moments.eliminate_zeros()
        return moments

    def surely_finite(self, d0: FloatArray) -> bool:
        """Whether all radii are below 1, where one solve tells: in a table of few states.

        That is so if and only if (I - M) x = 1 has a solution that is nowhere negative.
        """
        if self.n_states > SMALL:
            return False
        cells = self.state * (self.n_states + 1) + self.after
        moments = sums_by(cells, self.weight * self.number, self.n_states * (self.n_states + 1))
        moments = moments.reshape(self.n_states, self.n_states + 1)
        states = np.flatnonzero(reached_in(moments, d0))
        inner = moments[np.ix_(states, states)]
        try:
            with one_blas_thread():
                solution = np.linalg.solve(np.eye(states.size) - inner, np.ones(states.size))
        except np.linalg.LinAlgError:  # a radius of exactly 1
            return False
        return bool(np.isfinite(solution).all() and (solution >= 1.0 - 1e-9).all())

    def std_error(self, states: FloatArray, right: FloatArray, left: FloatArray) -> float:
        """The standard error of the radius of these states, from its eigenvectors."""
        v, u = np.zeros(self.n_states + 1), np.zeros(self.n_states)
        v[states], u[states] = right, left
        ahead, steps = v[self.after], self._by_state(self.number)
        mean = divide(self._by_state(self.number * ahead), steps)
        spread = self._by_state(self.number * np.square(ahead - mean[self.state]))
        squares = self._by_state(self.number * np.square(self.weight))
        variance = float((np.square(u) * divide(spread, steps) * squares).sum())
        return float(np.sqrt(variance) / (left @ right))

    def _by_state(self, values: FloatArray) -> FloatArray:
        return sums_by(self.state, values, self.n_states)


def _classes(moments: Any, d0: FloatArray) -> Iterator[Any]:
    """Reached states that lead back to each other, together."""
    from scipy.sparse.csgraph import connected_components

    states = reached(moments, d0)
    count, label = connected_components(moments[states][:, states], connection="strong")
    order = np.argsort(label, kind="stable")
    for members in np.split(order, np.searchsorted(label[order], np.arange(1, count))):
        yield states[members]


def _perron(block: Any) -> tuple[float, FloatArray, FloatArray]:
    """The radius of irreducible M with its right and left eigenvector; below 1 just a bound of it.

    Noda's inverse iteration: x stays positive, the least and the most growth of its components under M are
    bounds of the radius from the first step on, and the upper one falls to it, in the end quadratically.
    """
    right: FloatArray = np.ones(block.shape[0])
    upper, lower = _bounds(block, right)
    for _ in range(MOST_ITERATIONS):
        if upper < 1.0:
            return upper, right, right
        if upper - lower <= ROUNDING * upper:
            break
        before, right = upper, _nearer(block, right, upper)
        upper, lower = _bounds(block, right)
        if upper >= before:  # all that rounding leaves
            break
    left = np.ones_like(right)
    for _ in range(2):  # so close to the radius nothing else is left of it
        left = _nearer(block.T, left, upper)
    return upper, right, left


def _nearer(block: Any, x: FloatArray, upper: float) -> FloatArray:
    """x nearer to the eigenvector of the radius, by a solve with something just above it."""
    above = upper * (1.0 + ROUNDING)
    if len(x) <= SMALL:
        with one_blas_thread():
            nearer = np.abs(np.linalg.solve(above * np.eye(len(x)) - block.toarray(), x))
    else:
        from scipy import sparse
        from scipy.sparse.linalg import splu

        nearer = np.abs(splu(sparse.csc_array(above * sparse.eye_array(len(x)) - block)).solve(x))
    return np.asarray(nearer / nearer.max())


def _bounds(block: Any, x: FloatArray) -> tuple[float, float]:
    """The largest and the smallest growth of a component of x."""
    growth = divide(block @ x, x)
    return float(growth.max()), float(growth.min())
