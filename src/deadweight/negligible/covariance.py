r"""The covariance test: the drop set with the smallest estimated error of importance sampling.

Dropping S splits every weight into A (dropped) and B (kept). With X = B G the bias of SIS is -Cov(A, X), so

.. math:: \mathrm{MSE}(S) = \mathrm{Var}(X) / n + \mathrm{Cov}(A, X)^2

is searched over sets of states, from small to large. The covariance carries the very noise that dropping is
to avoid: on few episodes the choice is mostly noise, and `q_gap` or the automatic choice is steadier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice

import numpy as np

from deadweight.errors import EstimationError, OptionError
from deadweight.log.features import require_labels
from deadweight.log.interface import in_memory, require_log
from deadweight.log.state_sets import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import check_gamma
from deadweight.negligible.extremes import warn_if_extreme
from deadweight.negligible.factors import Factors, SetMoments, factors
from deadweight.question.asking import Policy
from deadweight.question.one_behaviour import one_behaviour
from deadweight.question.understanding import paired
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.weighting import refuse_unsupported
from deadweight.typing import FloatArray, IntArray

# Equal sets differ by rounding; only what is lower by more than this counts as lower.
TIE = 1e-12
CHUNK_CELLS = 1 << 20


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
    log, rest = log.in_time(gamma)
    states = covariance_set(log, pair, epsilon, epsilon_s, max_size, variance, signed, rest, search)
    return warn_if_extreme(states, states.evidence["visits"])


def covariance_set(
    log: Trajectories,
    pair: PolicyPair,
    epsilon: float = 0.01,
    epsilon_s: float = 0.01,
    max_size: int = 2,
    variance: str = "estimator",
    signed: bool = False,
    gamma: float = 1.0,
    search: str = "exhaustive",
) -> StateSet:
    """`covariance` with the policies in the log's index order."""
    check_gamma(gamma)
    if variance not in ("estimator", "sample"):
        raise OptionError(
            f"variance must be estimator or sample; found {variance!r}.",
            fix='For example variance="estimator".',
        )
    if search not in ("exhaustive", "greedy"):
        raise OptionError(
            f"search must be exhaustive or greedy; found {search!r}.", fix='For example search="exhaustive".'
        )
    if log.n_episodes < 2:
        raise EstimationError(
            "The covariance test needs two episodes or more; found one.",
            fix='Log more episodes, or use drop="auto".',
        )
    visits = np.bincount(log.states, minlength=pair.n_states).astype(np.float64)
    parts = factors(log, pair, visits, gamma)
    rule = _Rule(epsilon, epsilon_s, signed, log.n_episodes if variance == "estimator" else 1)
    found = _Search(parts, rule)
    singles = found.up_to_two(max_size)
    if search == "greedy":
        found.grow(max_size)
    else:
        found.larger(max_size)
    mask, single = np.zeros(pair.n_states, dtype=bool), np.full(pair.n_states, np.nan)
    mask[parts.states[list(found.held)]] = True
    single[parts.states] = singles
    evidence = {"covariance": single, "visits": visits}
    how = "heuristic: greedy beyond pairs" if search == "greedy" else "all sets tried"
    origin = f"covariance test with epsilon={epsilon:g}, epsilon_s={epsilon_s:g}, max_size={max_size} ({how})"
    return StateSet(mask, pair.state_labels, origin, evidence)


@dataclass(frozen=True)
class _Rule:
    """Which sets are admissible, and what their MSE is."""

    epsilon: float
    epsilon_s: float
    signed: bool
    divisor: int

    def bounds(self, moments: SetMoments) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of the MSE of each set, infinite where it may be (is) inadmissible."""
        size = np.abs(moments.covariance)
        cov, slack = moments.covariance if self.signed else size, moments.covariance_error
        with np.errstate(over="ignore", invalid="ignore"):
            doubt = moments.variance_error / self.divisor + 2 * size * slack
            mse = moments.variance / self.divisor + size * size
            # Comparisons with NaN are false: a set whose moments overflow is inadmissible.
            finite = mse < np.inf
            low = np.where((cov - slack < self.epsilon) & finite, mse - doubt, np.inf)
            high = np.where((cov + slack < self.epsilon) & finite, mse + doubt, np.inf)
        return low, high


class _Search:
    """The set held, bounds of its MSE, and the sets offered one after another."""

    def __init__(self, parts: Factors, rule: _Rule) -> None:
        self.parts, self.rule = parts, rule
        self.held: tuple[int, ...] = ()
        self.low = self.high = parts.plain_variance() / rule.divisor

    def up_to_two(self, max_size: int) -> FloatArray:
        """Offer all sets of one and two states; return the covariance of every single state."""
        size = self.parts.shape[0]
        singles = np.arange(size)[:, None]
        if self.parts.exponents is not None:
            alone = self.parts.moments(singles)
            if max_size >= 1:
                self._offer(singles, *self.rule.bounds(alone))
            if max_size >= 2:
                self._offer_in_chunks(2)
            return alone.covariance
        table = self.parts.pairs()
        low, high = self.rule.bounds(table)
        if max_size >= 1:
            self._offer(singles, low.diagonal(), high.diagonal())
        if max_size >= 2 and size >= 2:
            sets, index = _pairs(size)
            self._offer(sets, low.take(index), high.take(index))
        return table.covariance.diagonal()

    def larger(self, max_size: int) -> None:
        """Offer all sets of three states and more."""
        for size in range(3, min(max_size, self.parts.shape[0]) + 1):
            self._offer_in_chunks(size)

    def grow(self, max_size: int) -> None:
        """Add the best state to the set held, for as long as the rule takes it."""
        while len(self.held) < max_size:
            rest = [s for s in range(self.parts.shape[0]) if s not in self.held]
            if not rest:
                return
            sets = np.array([sorted((*self.held, s)) for s in rest])
            mse = np.concatenate(
                [self.rule.bounds(self.parts.moments(part))[0] for part in self._chunks(sets)]
            )
            best = int(mse.argmin())
            self._settle()
            if not mse[best] < self.low * (1 + self.rule.epsilon_s):
                return
            self._take(sets[best], mse[best], mse[best])

    def _offer_in_chunks(self, size: int) -> None:
        every = combinations(range(self.parts.shape[0]), size)
        for sets in _arrays(every, self._chunk(size)):
            self._offer(sets, *self.rule.bounds(self.parts.moments(sets)))

    def _offer(self, sets: IntArray, low: FloatArray, high: FloatArray) -> None:
        """Go through sets of one size, in order, and take what the rule takes.

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

    def _exact(self, one_set: IntArray) -> float:
        return float(self.rule.bounds(self.parts.moments(one_set))[0][0])

    def _chunk(self, size: int) -> int:
        return max(1, CHUNK_CELLS // (len(self.parts.returns) * size))

    def _chunks(self, sets: IntArray) -> Iterator[IntArray]:
        step = self._chunk(sets.shape[1])
        return (sets[lo : lo + step] for lo in range(0, len(sets), step))


@lru_cache(maxsize=4)
def _pairs(size: int) -> tuple[IntArray, IntArray]:
    """All pairs of columns in lexicographic order, (C, 2), and their places in a flat (size, size) table."""
    rows, columns = np.triu_indices(size, 1)
    return np.stack([rows, columns], axis=1), rows * size + columns


def _arrays(sets: Iterator[tuple[int, ...]], chunk: int) -> Iterator[IntArray]:
    while part := list(islice(sets, chunk)):
        yield np.array(part)
