r"""The weight of an episode, split by state: what the covariance test multiplies and divides.

For each episode and state, a(i, s) is the product of the ratios of the visits of s. A drop set S splits the
episode's weight into A = prod of a over S and B = the rest, and X = B G. Zero ratios (pi_e rules an action
out) are counted, never divided by: with P the product of the positive factors of an episode,

.. math:: X_S = G \, P \prod_{s \in S} u(s) \quad \text{if all its zero factors lie in } S, \text{ else } 0,

where u = 1 / a, and 1 where a is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.basics.memory import NUMBER, require
from deadweight.log.row_numbers import step_of_rows
from deadweight.log.trajectories import Trajectories
from deadweight.sums.fields import Table
from deadweight.sums.pairs import PolicyPair, quotient
from deadweight.sums.running import SAFE_LOG, largest_log, scale
from deadweight.sums.summaries import NOTHING
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, FloatArray, IntArray

# Moments are found from sums; relative to the mean square this bounds what that loses.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class SetMoments:
    """Var(X) (ddof 0) and Cov(A, X) (ddof 1) of some sets, with bounds on their rounding errors."""

    variance: FloatArray  # (C,)
    covariance: FloatArray  # (C,)
    variance_error: FloatArray | float = 0.0
    covariance_error: FloatArray | float = 0.0


@dataclass(frozen=True, eq=False)
class Factors:
    """Positive factors a(i, s) = values * 2**exponents of the visited states, zeros apart.

    No exponents means that all are zero, which is so unless a product could leave the range of doubles. A row
    a state: sums over episodes then run along memory.
    """

    states: IntArray  # (V,) the visited states
    values: FloatArray  # (V, n), 1 where the factor is zero
    zero: BoolArray  # (V, n)
    returns: FloatArray  # (n,)
    exponents: IntArray | None = None  # (V, n)

    @property
    def shape(self) -> tuple[int, int]:
        """(V, n)."""
        return self.values.shape[0], self.values.shape[1]

    @cached_property
    def _zeros(self) -> IntArray | None:
        """(n,) how many states have a zero factor; None when there is no such state at all."""
        return np.add.reduce(self.zero, axis=0, dtype=np.int64) if self.zero.any() else None

    @cached_property
    def _inverse(self) -> FloatArray:
        """(V, n) u."""
        return 1.0 / self.values

    @cached_property
    def _whole(self) -> tuple[FloatArray, IntArray | None]:
        """(n,) G P as value and exponent."""
        if self.exponents is None:
            return self.returns * np.multiply.reduce(self.values, axis=0), None
        mantissa, exponent = np.ones(self.shape[1]), self.exponents.sum(axis=0)
        for row in self.values:  # a factor's value is below 2, yet the product of hundreds is not
            mantissa, extra = np.frexp(mantissa * row)
            exponent = exponent + extra
        return self.returns * mantissa, exponent

    @cached_property
    def _weighted_returns(self) -> FloatArray:
        """(n,) W G in units of the whole: this is A X, whatever the set."""
        whole = self._whole[0]
        return whole if self._zeros is None else np.where(self._zeros == 0, whole, 0.0)

    def plain_variance(self) -> float:
        """Var(X) of the empty set."""
        if self.exponents is None:
            x = self._weighted_returns
            return float(np.add.reduce(np.square(x - np.add.reduce(x) / len(x))) / len(x))
        return float(self.moments(np.empty((1, 0), dtype=np.int64)).variance[0])

    def moments(self, sets: IntArray) -> SetMoments:
        """Moments of (C, k) sets of rows, in two passes over the episodes."""
        whole, exponent = self._whole
        size = (len(sets), len(whole))
        a, x = np.ones(size), np.broadcast_to(whole, size).copy()
        inside, shift = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for row in sets.T:
            a *= self.values[row]
            x *= self._inverse[row]
            if self._zeros is not None:
                inside += self.zero[row]
            if self.exponents is not None:
                shift += self.exponents[row]
        if self._zeros is not None:
            x[inside < self._zeros] = 0.0
            a[inside > 0] = 0.0
        a_unit = x_unit = np.zeros(len(sets), dtype=np.int64)
        if exponent is not None:
            a, a_unit = _common_unit(a, shift)
            x, x_unit = _common_unit(x, exponent - shift)
        n = len(whole)
        dx = x - x.mean(axis=1, keepdims=True)
        da = a - a.mean(axis=1, keepdims=True)
        variance, covariance = np.einsum("ci,ci->c", dx, dx) / n, np.einsum("ci,ci->c", da, dx) / (n - 1)
        with np.errstate(over="ignore"):
            return SetMoments(scale(variance, 2 * x_unit), scale(covariance, a_unit + x_unit))

    def pairs(self) -> SetMoments:
        """Moments of all sets of one and two states as (V, V) tables, singles on the diagonal.

        Sums over episodes of products of two rows are matrix products. An episode without zero factors enters
        every pair; one with a single zero state the pairs with that state; one with two that pair; one with
        more none. Needs factors without exponents.
        """
        assert self.exponents is None
        n, (whole, _), zeros = len(self.returns), self._whole, self._zeros
        a, u, weights = self.values, self.values, self._weighted_returns
        if zeros is not None:
            a = np.where(self.zero, 0.0, a)
            near = np.flatnonzero(zeros <= 2)  # all others have X = 0 in every pair
            u, weights, whole, zeros = u[:, near], weights[near], whole[near], zeros[near]
            marks = self.zero[:, near].astype(np.float64)
        u = 1.0 / u
        clean = weights * u
        clean_squares = np.square(clean)
        x, squares = u @ clean.T, np.square(u) @ clean_squares.T
        # The products have u twice on the diagonal; a set of one state has it once.
        x_alone, squares_alone = np.add.reduce(clean, axis=1), np.add.reduce(clean_squares, axis=1)
        if zeros is not None:
            one = np.where(zeros == 1, whole, 0.0)
            rest, both = one * u, np.where(zeros == 2, whole, 0.0) * marks
            part, part_squares = marks @ rest.T, marks @ np.square(rest).T
            x += part + part.T + marks @ both.T
            squares += part_squares + part_squares.T + marks @ np.square(both).T
            x_alone, squares_alone = x_alone + marks @ one, squares_alone + marks @ np.square(one)
        a_sum = a @ a.T
        for table, alone in ((x, x_alone), (squares, squares_alone), (a_sum, np.add.reduce(a, axis=1))):
            table.flat[:: len(table) + 1] = alone
        mean, square = x / n, squares / n
        product = a_sum * mean
        return SetMoments(
            np.maximum(square - mean * mean, 0.0),
            (np.add.reduce(weights) - product) / (n - 1),
            ROUNDING * square,
            ROUNDING / (n - 1) * (np.add.reduce(np.abs(weights)) + np.abs(product)),
        )


def factors(log: Trajectories, pair: PolicyPair, visits: FloatArray, gamma: float) -> Factors:
    """The factors of a log, one pass over its steps; `visits` (S,) are the visits of each state."""
    visited, n = np.flatnonzero(visits), log.n_episodes
    shape = (visited.size, n)
    require(
        5 * NUMBER * float(visited.size) * n,
        f"The covariance test on {visited.size:,} states x {n:,} episodes",
        'Use another rule, such as drop="auto", or fewer episodes.',
    )
    row = np.zeros(pair.n_states, dtype=np.int64)
    row[visited] = np.arange(0, visited.size * n, n)
    key = row.take(log.states)
    key += np.repeat(np.arange(n), log.lengths)
    rho, bound = _step_ratios(log, pair)
    returns, values = _returns(log, gamma), np.ones(shape)
    if bound * log.horizon <= SAFE_LOG or _reach(log, rho) <= SAFE_LOG:
        np.multiply.at(values.ravel(), key, rho)
        zero = values == 0  # no product of positive ratios gets there
        values[zero] = 1.0
        return Factors(visited, values, zero, returns)
    zero = np.zeros(shape, dtype=bool)
    zero.ravel()[key[rho == 0]] = True
    counts = ~zero.ravel()[key]
    logs = np.bincount(key[counts], weights=np.log2(rho[counts]), minlength=zero.size).reshape(shape)
    exponents = np.floor(logs)
    return Factors(visited, np.exp2(logs - exponents), zero, returns, exponents.astype(np.int64))


def _step_ratios(log: Trajectories, pair: PolicyPair) -> tuple[FloatArray, float]:
    """(steps,) rho, and a bound on abs(log(rho)) over the positive ones."""
    table = Weighting(pair).table
    if table is not None:
        return Table(table.values.reshape(-1, pair.n_actions), by_action=True).along(log), table.log_bound
    ratios = quotient(pair.evaluation.along(log), pair.behaviour.along(log))
    return ratios, largest_log(ratios)


def _returns(log: Trajectories, gamma: float) -> FloatArray:
    """(n,) discounted return of each episode."""
    if gamma == 1.0:
        return np.add.reduceat(log.rewards, log.offsets[:-1])
    steps = step_of_rows(log)
    return np.add.reduceat(log.rewards * gamma**steps, log.offsets[:-1])


def _reach(log: Trajectories, rho: FloatArray) -> float:
    """How far the logarithm of a product of some of an episode's positive ratios can get from zero."""
    logs = np.log(rho, where=rho > 0, out=np.zeros_like(rho))
    return float(np.add.reduceat(np.abs(logs), log.offsets[:-1]).max())


def _common_unit(values: FloatArray, exponents: IntArray) -> tuple[FloatArray, IntArray]:
    """Each row in units of 2**unit, with its largest entry in range."""
    unit = np.where(values != 0, exponents, NOTHING).max(axis=1)
    unit = np.where(unit == NOTHING, 0, unit)
    return scale(values, exponents - unit[:, None]), unit
