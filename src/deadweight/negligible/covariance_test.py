r"""The covariance test: the drop set with the smallest estimated error of importance sampling.

Dropping S splits every weight into A (dropped) and B (kept). With X = B G the bias of SIS is -Cov(A, X), so

.. math:: \mathrm{MSE}(S) = \mathrm{Var}(X) / n + \mathrm{Cov}(A, X)^2

is searched over sets of states, from small to large. The covariance carries the very noise that dropping is
to avoid: on few episodes the choice is mostly noise, and `q_gap` or the automatic choice is steadier.

For an episode i and a state s, a(i, s) is the product of the ratios of the visits of s. Zero ratios (pi_e
rules an action out) are counted, never divided by: with P the product of the positive factors of an episode,

.. math:: X_S = G \, P \prod_{s \in S} u(s) \quad \text{if all its zero factors lie in } S, \text{ else } 0,

where u = 1 / a, and 1 where a is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, islice

import numpy as np

from deadweight.errors import EstimationError, OptionError
from deadweight.log.columns import require_labels
from deadweight.log.interface import check_gamma, in_memory, require_log
from deadweight.log.labels import StateSet
from deadweight.log.trajectories import Trajectories, step_of_rows
from deadweight.negligible.state_tests import warn_if_extreme
from deadweight.negligible.sweep import in_range
from deadweight.question.question import Policy
from deadweight.question.understanding import one_behaviour, paired
from deadweight.sums.blocks import Table
from deadweight.sums.pairs import PolicyPair, quotient
from deadweight.sums.summaries import NOTHING, scale
from deadweight.sums.weighting import Weighting, refuse_unsupported
from deadweight.tools.limits import NUMBER, require
from deadweight.typing import BoolArray, FloatArray, IntArray

# Moments are taken from sums; relative to the mean square this bounds what that loses.
ROUNDING = 1e-12
# Equal sets differ by rounding; only what is lower by more than this counts as lower.
TIE = 1e-12
CHUNK_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class SetMoments:
    """Var(X) (ddof 0) and Cov(A, X) (ddof 1) of C sets, with bounds on their rounding errors."""

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
    def size(self) -> int:
        """The number of visited states."""
        return len(self.states)

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
        mantissa, exponent = np.ones(len(self.returns)), self.exponents.sum(axis=0)
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
            lone = np.where(zeros == 1, whole, 0.0)
            rest, both = lone * u, np.where(zeros == 2, whole, 0.0) * marks
            part, part_squares = marks @ rest.T, marks @ np.square(rest).T
            x += part + part.T + marks @ both.T
            squares += part_squares + part_squares.T + marks @ np.square(both).T
            x_alone, squares_alone = x_alone + marks @ lone, squares_alone + marks @ np.square(lone)
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
    weighting = Weighting(pair)
    rho, returns, values = _step_ratios(log, weighting), _returns(log, gamma), np.ones(shape)
    if in_range([log], weighting, log.horizon):
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


def _step_ratios(log: Trajectories, weighting: Weighting) -> FloatArray:
    """(steps,) rho."""
    table, pair = weighting.table, weighting.pair
    if table is not None:
        return Table(table.values.reshape(-1, pair.n_actions), by_action=True).along(log)
    return quotient(pair.evaluation.along(log), pair.behaviour.along(log))


def _returns(log: Trajectories, gamma: float) -> FloatArray:
    """(n,) discounted return of each episode."""
    rewards = log.rewards if gamma == 1.0 else log.rewards * gamma ** step_of_rows(log)
    return np.add.reduceat(rewards, log.offsets[:-1])


def _common_unit(values: FloatArray, exponents: IntArray) -> tuple[FloatArray, IntArray]:
    """Each row in units of 2**unit, with its largest entry in range."""
    unit = np.where(values != 0, exponents, NOTHING).max(axis=1)
    unit = np.where(unit == NOTHING, 0, unit)
    return scale(values, exponents - unit[:, None]), unit


# --- The search


def covariance(
    log: Trajectories,
    pi_e: Policy,
    pi_b: Policy,
    epsilon: float = 0.01,
    epsilon_s: float = 0.01,
    max_size: int = 2,
    variance: str = "estimator",
    signed: bool = False,
    gamma: float = 1.0,
    *,
    search: str = "exhaustive",
) -> StateSet:
    """The set of visited states that the covariance test chooses.

    Sets are tried by size, then in lexicographic order. One with abs(Cov(A, X)) >= epsilon is rejected; it is
    taken if its MSE is below that of the set held, or below (1 + epsilon_s) times it and the set is larger.
    The empty set is always admissible.

    Args:
      log: episodes of the behaviour policy, two or more.
      pi_e, pi_b: the policies; None takes the log's target_prob and propensities.
      epsilon: largest covariance.
      epsilon_s: how much larger an MSE may get for a larger set.
      max_size: most states in a set.
      variance: the MSE has the variance of the "estimator", Var(X) / n, or as published that of the "sample".
      signed: reject Cov >= epsilon only, which is the paper's letter; its code takes the absolute value.
      gamma: discount.
      search: "exhaustive", or "greedy": all sets of up to two states, then the held set grows by the best
        state as long as the rule takes it. Greedy is a heuristic for sizes at which trying all is hopeless.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(11)
      >>> covariance(lift.sample(1000), lift.pi_e, lift.pi_b, epsilon=0.5).states
      [6, 7]

    Reference: Bossens & Thomas (2024), Section V.
    """
    require_labels(require_log(log), "The covariance test")
    parts, pi_b, _ = one_behaviour(in_memory(log), pi_b)
    parts, pair = paired(parts, pi_e, pi_b)
    require_labels(parts, "The covariance test")
    log = parts[0]
    if pair.pi_b is not None and (pair.pi_b == 0).any():
        refuse_unsupported(pair, log)
    check_gamma(gamma)
    log, gamma = log.in_time(gamma)
    rule = Rule(epsilon, epsilon_s, max_size, variance, signed, search)
    states = covariance_set(log, pair, rule, gamma)
    return warn_if_extreme(states, states.evidence["visits"])


@dataclass(frozen=True)
class Rule:
    """The options of `covariance`: which sets are tried, which are admissible, and what their MSE is."""

    epsilon: float = 0.01
    epsilon_s: float = 0.01
    max_size: int = 2
    variance: str = "estimator"
    signed: bool = False
    search: str = "exhaustive"

    def __post_init__(self) -> None:
        if self.variance not in ("estimator", "sample"):
            raise OptionError(
                f"variance must be estimator or sample; found {self.variance!r}.",
                fix='For example variance="estimator".',
            )
        if self.search not in ("exhaustive", "greedy"):
            raise OptionError(
                f"search must be exhaustive or greedy; found {self.search!r}.",
                fix='For example search="exhaustive".',
            )


def covariance_set(log: Trajectories, pair: PolicyPair, rule: Rule, gamma: float) -> StateSet:
    """The set of `covariance` with the policies in the log's index order, without the warning."""
    if log.n_episodes < 2:
        raise EstimationError(
            "The covariance test needs two episodes or more; found one.",
            fix='Log more episodes, or use drop="auto".',
        )
    visits = np.bincount(log.states, minlength=pair.n_states).astype(np.float64)
    parts = factors(log, pair, visits, gamma)
    search = _Search(parts, rule)
    singles = search.up_to_two()
    if rule.search == "greedy":
        search.grow()
    else:
        search.larger()
    mask, single = np.zeros(pair.n_states, dtype=bool), np.full(pair.n_states, np.nan)
    mask[parts.states[list(search.held)]] = True
    single[parts.states] = singles
    how = "heuristic: greedy beyond pairs" if rule.search == "greedy" else "all sets tried"
    origin = (
        f"covariance test with epsilon={rule.epsilon:g}, epsilon_s={rule.epsilon_s:g}, "
        f"max_size={rule.max_size} ({how})"
    )
    return StateSet(mask, pair.state_labels, origin, {"covariance": single, "visits": visits})


class _Search:
    """The set held, bounds of its MSE, and the sets offered one after another."""

    def __init__(self, parts: Factors, rule: Rule) -> None:
        self.parts, self.rule, self.n = parts, rule, len(parts.returns)
        self.held: tuple[int, ...] = ()
        self.divisor = self.n if rule.variance == "estimator" else 1
        self.low = self.high = parts.plain_variance() / self.divisor

    def up_to_two(self) -> FloatArray:
        """Offer all sets of one and two states; return the covariance of every single state."""
        size = self.parts.size
        singles = np.arange(size)[:, None]
        if self.parts.exponents is not None:
            alone = self.parts.moments(singles)
            if self.rule.max_size >= 1:
                self._offer(singles, *self._bounds(alone))
            if self.rule.max_size >= 2:
                self._offer_in_chunks(2)
            return alone.covariance
        table = self.parts.pairs()
        low, high = self._bounds(table)
        if self.rule.max_size >= 1:
            self._offer(singles, low.diagonal(), high.diagonal())
        if self.rule.max_size >= 2 and size >= 2:
            sets, index = _pairs(size)
            self._offer(sets, low.take(index), high.take(index))
        return table.covariance.diagonal()

    def larger(self) -> None:
        """Offer all sets of three states and more."""
        for size in range(3, min(self.rule.max_size, self.parts.size) + 1):
            self._offer_in_chunks(size)

    def grow(self) -> None:
        """Add the best state to the set held, for as long as the rule takes it."""
        while len(self.held) < self.rule.max_size:
            rest = [s for s in range(self.parts.size) if s not in self.held]
            if not rest:
                return
            sets = np.array([sorted((*self.held, s)) for s in rest])
            step = self._chunk(sets.shape[1])
            chunks = [sets[lo : lo + step] for lo in range(0, len(sets), step)]
            mse = np.concatenate([self._bounds(self.parts.moments(part))[0] for part in chunks])
            best = int(mse.argmin())
            self._settle()
            if not mse[best] < self.low * (1 + self.rule.epsilon_s):
                return
            self._take(sets[best], mse[best], mse[best])

    def _offer_in_chunks(self, size: int) -> None:
        every = combinations(range(self.parts.size), size)
        while part := list(islice(every, self._chunk(size))):
            sets = np.array(part)
            self._offer(sets, *self._bounds(self.parts.moments(sets)))

    def _offer(self, sets: IntArray, low: FloatArray, high: FloatArray) -> None:
        """Go through sets of equal size, in order, and take what the rule takes.

        `low` and `high` bound the MSE of each. Where they leave open whether a set is better than the one
        held, both are computed again in two passes.
        """
        at = 0
        while at < len(sets):
            tolerance = (self.rule.epsilon_s if sets.shape[1] > len(self.held) else 0.0) - TIE
            possible = low[at:] < self.high * (1 + tolerance)
            first = int(possible.argmax())
            if not possible[first]:
                return
            at += first
            if high[at] < self.low * (1 + tolerance):
                self._take(sets[at], low[at], high[at])
            else:
                self._settle()
                mse = self._exact(sets[at : at + 1])
                if mse < self.low * (1 + tolerance):
                    self._take(sets[at], mse, mse)
            at += 1

    def _take(self, states: IntArray, low: float, high: float) -> None:
        self.held, self.low, self.high = tuple(states.tolist()), float(low), float(high)

    def _settle(self) -> None:
        """Know the MSE of the set held exactly."""
        if self.low != self.high:
            self.low = self.high = self._exact(np.array([self.held]))

    def _bounds(self, moments: SetMoments) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of the MSE of each set, infinite where it may be (is) inadmissible."""
        size, rule = np.abs(moments.covariance), self.rule
        cov, slack = moments.covariance if rule.signed else size, moments.covariance_error
        with np.errstate(over="ignore", invalid="ignore"):
            doubt = moments.variance_error / self.divisor + 2 * size * slack
            mse = moments.variance / self.divisor + size * size
            # Comparisons with NaN are false: a set whose moments overflow is inadmissible.
            finite = mse < np.inf
            low = np.where((cov - slack < rule.epsilon) & finite, mse - doubt, np.inf)
            high = np.where((cov + slack < rule.epsilon) & finite, mse + doubt, np.inf)
        return low, high

    def _exact(self, states: IntArray) -> float:
        """The MSE of the set of these (1, k) states."""
        return float(self._bounds(self.parts.moments(states))[0][0])

    def _chunk(self, size: int) -> int:
        return max(1, CHUNK_CELLS // (self.n * size))


@lru_cache(maxsize=4)
def _pairs(size: int) -> tuple[IntArray, IntArray]:
    """All pairs of columns in lexicographic order, (C, 2), and their places in a flat (size, size) table."""
    rows, columns = np.triu_indices(size, 1)
    return np.stack([rows, columns], axis=1), rows * size + columns
