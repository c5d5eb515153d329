r"""The second moment of the weights in the fitted model, and whether it is finite at all.

Where episodes run until they end, the second moment of their weights is a sum over all lengths. It is finite
if and only if the spectral radius of

.. math:: M(s, s') = \sum_a \pi_b(a|s) \, k(s,a)^2 \, \hat P(s'|s,a)

over the states that are reached is below 1, with kept ratios k. A pair that was seen once would make loops of
its own, so transitions are shrunk towards those of all actions of the state, by a few visits. M is made of
the counts of the log: a table that needs no model for its estimates need not fit one for this.

The fitted radius is as noisy as the counts, and half of all logs of a task with a radius just below 1 have
one above it. So the flag allows for that noise. With the right and the left eigenvector of the radius, v and
u, it changes by :math:`u^\top dM \, v / u^\top v`, and each logged step of (s, a) brings weight(s, a) v(s')
into row s of M v:

.. math:: \mathrm{Var}(\hat\rho) = \frac{1}{(u^\top v)^2}
   \sum_s u_s^2 \, \mathrm{Var}_s(v) \sum_a n(s,a) \, \mathrm{weight}(s,a)^2

where Var_s(v) is the variance of v(s') over all steps in s, whatever the action: those of a pair that was
seen once would have none. States that lead back to each other have a radius of their own, and the largest
of these is that of M; each is asked by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import divide, sums_by
from deadweight.basics.products import one_thread
from deadweight.mdp.chains import reached
from deadweight.mdp.small_chains import SMALL, reached_in
from deadweight.question.core import Question
from deadweight.typing import BoolArray, FloatArray
from deadweight.values.model import Counts

# Visits of a pair that count as much as all other actions of its state together.
PSEUDO_VISITS = 10.0
# The factors of a larger sparse matrix may be dense.
MOST_STATES = 5_000
# Standard errors by which a radius must be above 1: of the logs of a task just below it 2 % would be flagged.
SURE = 2.054
# Relative distance of two bounds of a radius that are one number.
ROUNDING = 1e-10
# Far more iterations than a radius takes: each squares the error of the last one.
MOST_ITERATIONS = 60


@dataclass(frozen=True)
class Radius:
    """The spectral radius of states that lead back to each other, as a log shows it.

    Attributes:
      value: in the fitted model.
      std_error: of the value, due to the transitions that were logged.
    """

    value: float
    std_error: float

    @property
    def is_infinite(self) -> bool:
        """Whether the second moment is infinite beyond the noise of the log."""
        return self.value - SURE * self.std_error >= 1.0 - ROUNDING


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
    return question.made_once(key, lambda: any(one.is_infinite for one in radii(question, dropped)))


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
        found = _perron(steps.moments[states][:, states])
        if found is not None:
            value, right, left = found
            yield Radius(value, steps.std_error(states, right, left))


class _Steps:
    """The logged steps with what each of them adds to M."""

    def __init__(self, counts: Counts, second: FloatArray) -> None:
        pairs, self.after = np.divmod(counts.transitions.keys, counts.n_states + 1)
        self.state, self.number = pairs // counts.n_actions, counts.transitions.sums[0]
        # Visits whose successor is known: a cut may leave none.
        visits = sums_by(pairs, self.number, second.size).reshape(second.shape)
        own = divide(second, visits + PSEUDO_VISITS)
        rest = (second - own * visits).sum(axis=1, keepdims=True)
        weights = own + divide(rest, visits.sum(axis=1, keepdims=True))
        self.weight: FloatArray = weights.ravel()[pairs]
        self.without_successor = visits.sum(axis=1) == 0  # (S,)
        self.n_states = counts.n_states

    @cached_property
    def moments(self) -> Any:
        """M, sparse, with a last column for the end."""
        from scipy import sparse

        shape = (self.n_states, self.n_states + 1)
        made = sparse.csr_array((self.weight * self.number, (self.state, self.after)), shape=shape)
        made.eliminate_zeros()
        return made

    def surely_finite(self, d0: FloatArray) -> bool:
        """Whether all radii are below 1, where that is found out at once: in a table of few states.

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
            with one_thread():
                solution = np.linalg.solve(np.eye(states.size) - inner, np.ones(states.size))
        except np.linalg.LinAlgError:  # a radius of exactly 1
            return False
        return bool(np.isfinite(solution).all() and (solution >= 1.0 - 1e-9).all())

    def std_error(self, states: FloatArray, right: FloatArray, left: FloatArray) -> float:
        """Of the radius of some states, with its eigenvectors."""
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
    for some in np.split(order, np.searchsorted(label[order], np.arange(1, count))):
        yield states[some]


def _perron(block: Any) -> tuple[float, FloatArray, FloatArray] | None:
    """The radius of irreducible M with its right and left eigenvector; None where it is below 1.

    Noda's inverse iteration: x stays positive, the least and the most growth of its components under M are
    bounds of the radius from the first step on, and the upper one falls to it, in the end quadratically.
    """
    right: FloatArray = np.ones(block.shape[0])
    upper, lower = _bounds(block, right)
    for _ in range(MOST_ITERATIONS):
        if upper < 1.0:
            return None
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
    found = np.abs(_solved(block, upper * (1.0 + ROUNDING), x))
    return np.asarray(found / found.max())


def _solved(block: Any, above: float, x: FloatArray) -> FloatArray:
    """(above I - M)^-1 x."""
    if len(x) <= SMALL:
        with one_thread():
            return np.asarray(np.linalg.solve(above * np.eye(len(x)) - block.toarray(), x))
    from scipy import sparse
    from scipy.sparse.linalg import splu

    return np.asarray(splu(sparse.csc_array(above * sparse.eye_array(len(x)) - block)).solve(x))


def _bounds(block: Any, x: FloatArray) -> tuple[float, float]:
    """The largest and the smallest growth of a component of x."""
    growth = divide(block @ x, x)
    return float(growth.max()), float(growth.min())
