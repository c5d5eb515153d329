r"""The guaranteed interval: a bound by betting, valid for every number of episodes and every weight.

X = B (G - Gmin) is never negative and has mean V - Gmin. Whoever bets against "the mean is m" with the
fraction u of his wealth has, after all episodes,

.. math:: E(m) = \frac1K \sum_u \prod_i \left( 1 - u + u \frac{X_i}{m} \right)

times what he began with. If m is the mean, E is a non-negative martingale that starts at 1 and exceeds
1/alpha with probability at most alpha (Ville, 1939): every m with E(m) >= 1/alpha can be ruled out, and as E
falls in m, they are those below one number. The upper bound is Gmax minus the lower bound of B (Gmax - G).
Only the range of the returns enters; the weights may have any tail. Waudby-Smith & Ramdas (2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.intervals import WholeEpisodes, check_returns, per_episode, whole_episodes
from deadweight.answers.plans import Plan, returns
from deadweight.errors import DataError, EstimationError, OptionError
from deadweight.estimators.estimator import estimator_of
from deadweight.log.interface import in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.question.asked import Options
from deadweight.question.drops import Drop, drop_of
from deadweight.question.question import Question, ask
from deadweight.results.estimate import Interval
from deadweight.tools.arithmetic import freeze_fields
from deadweight.typing import FloatArray

FRACTIONS = np.array([0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8])
LOG_STAY, LOG_BET = np.log1p(-FRACTIONS), np.log(FRACTIONS)
TOLERANCE = 1e-11
MOST_STEPS = 200
CHUNK = 1 << 13

# From (n,) log X and alpha to a lower bound of the mean of X >= 0.
Lower = Callable[[FloatArray, float], float]


def guaranteed(
    answers: Answers, plan: Plan, level: float, choose: Callable[[Question], Drop] | None
) -> Interval:
    """The betting interval of whole-episode weights with the drop of the estimate's name.

    It covers V(mu_D), the value of acting as pi_b in the dropped states: V(pi_e) when nothing is dropped.
    Where a rule chose the drop from the log, D is chosen anew from the episodes with even numbers, and the
    others make the bound; `split` of the interval says so.
    """
    return bounded(answers, plan, level, choose, "guaranteed", lambda used: lower_bound)


def bounded(
    answers: Answers,
    plan: Plan,
    level: float,
    choose: Callable[[Question], Drop] | None,
    kind: str,
    lower: Callable[[Plan], Lower],
) -> Interval:
    """Gmin plus a lower bound of the mean of B (G - Gmin), and Gmax minus one of B (Gmax - G).

    Args:
      lower: the bound, given the plan that is bounded (after a split, that of the other half).
    """
    question = plan.question
    lowest, highest = return_range(question)
    check_returns(per_episode(question, partial(returns, question.gamma)), lowest, highest)
    used, split = held_out(plan, choose)
    episodes = whole_episodes(used)
    bottom, top = two_sided(episodes, lowest, highest, (1.0 - level) / 2, lower(used))
    covers = used.estimand if used.weighting.drop is None else "V(mu_D)"
    return Interval(
        *(bottom, top, (top - bottom) / 2, 0.0, kind, covers, answers.fit(plan).value),
        episodes=used.question.n,
        split=split,
        dropped=used.drop.labels,
    )


def two_sided(
    episodes: WholeEpisodes,
    lowest: float,
    highest: float,
    alpha: float,
    lower: Lower,
) -> tuple[float, float]:
    """Both ends, each with error probability alpha, within the range."""
    bottom = min(lowest + lower(episodes.above(lowest), alpha), highest)
    top = max(highest - lower(episodes.below(highest), alpha), lowest)
    # Ends that cross rule out every value, which has probability 2 alpha at most: then the gap is reported.
    return min(bottom, top), max(bottom, top)


def return_range(question: Question) -> tuple[float, float]:
    """The range that the user gave; `check_interval` has seen to it that there is one."""
    given = question.options.return_range
    assert given is not None
    return given


def held_out(plan: Plan, choose: Callable[[Question], Drop] | None) -> tuple[Plan, bool]:
    """The plan, or where a rule chooses the drop: chosen from one half of the episodes, used on the other."""
    if choose is None:
        return plan, False
    question = plan.question
    if len(question.parts) > 1 or question.n < 2:
        raise EstimationError(
            f"A bound with a drop chosen from the log needs a log in one piece with two episodes or more; "
            f"found {question.n} in {len(question.parts)} pieces.",
            fix="Pass the dropped states themselves, or drop=None.",
        )
    log, even = question.parts[0], np.arange(question.n) % 2 == 0
    drop = choose(question.about(log.select(even)))
    if drop.steps is not None:
        raise EstimationError(
            "A rule must choose states, not steps, to be used on other episodes.",
            fix='For example drop="q-gap:1.0", or name the states: drop=["ward"].',
        )
    return Plan(question.about(log.select(~even)), plan.estimator, drop), True


def lower_bound(log_x: FloatArray, alpha: float) -> float:
    """The largest m with E(m) >= 1 / alpha: the mean of X lies above it with probability 1 - alpha.

    Args:
      log_x: (n,) logarithms of the observations, -inf for zeros.
      alpha: error probability.

    >>> round(lower_bound(np.zeros(50), 0.05), 6)
    0.888659
    """
    log_m = -math.inf if log_x.max() == -math.inf else _log_mean(log_x)
    return math.exp(climb(log_x, log_m, -math.log(alpha)))


def climb(log_x: FloatArray, log_m: float, target: float) -> float:
    """log m where log E(m) = target, by Newton's method.

    log E is convex and falls in log m. From a start with too little wealth the first step leads to one with
    enough; from there the iterates climb, none of them past the root: the answer errs on the safe side only.
    """
    if log_m == -math.inf:
        return log_m
    for _ in range(MOST_STEPS):
        wealth, slope = log_wealth(log_x, log_m)
        step = (target - wealth) / slope
        log_m += step
        if abs(step) <= TOLERANCE:
            break
    return log_m


def log_wealth(log_x: FloatArray, log_m: float) -> tuple[float, float]:
    """log E(m) and its derivative in log m."""
    logs, slopes = np.zeros(len(FRACTIONS)), np.zeros(len(FRACTIONS))
    for lo in range(0, len(log_x), CHUNK):
        won = LOG_BET + (log_x[lo : lo + CHUNK, None] - log_m)  # (chunk, K)
        factors = np.logaddexp(LOG_STAY, won)
        logs += factors.sum(axis=0)
        slopes -= np.exp(won - factors).sum(axis=0)
    total = log_sum(logs)
    return total - math.log(len(logs)), float(np.exp(logs - total) @ slopes)


def log_sum(logs: FloatArray) -> float:
    """log of the sum of exponentials."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _log_mean(log_x: FloatArray) -> float:
    return log_sum(log_x) - math.log(len(log_x))


# --- Empirical Bernstein bounds, for comparison with what people know
#
# .. math:: \mu \ge \bar X - \sqrt{\frac{2 \hat\sigma^2 \ln(2/\alpha)}{n}} - \frac{7 R \ln(2/\alpha)}{3 (n -
# 1)}
#
# for X in [0, R]. The largest possible weight is the largest ratio to the power of the horizon, so that R,
# and with it the interval, is huge for all but short episodes; cut to the range of the returns it is still
# valid. Maurer & Pontil (2009), Theorem 4.


def bernstein(
    answers: Answers, plan: Plan, level: float, choose: Callable[[Question], Drop] | None
) -> Interval:
    """The empirical Bernstein interval of whole-episode weights with the drop of the estimate's name.

    What it covers, and how it splits the log where a rule chose the drop, is as for "guaranteed". It takes
    the longest logged episode for the longest possible.
    """
    lowest, highest = return_range(plan.question)

    def lower(used: Plan) -> Lower:
        log_largest = largest_log_weight(used) + math.log(highest - lowest)
        return lambda log_x, alpha: bernstein_lower(log_x, alpha, log_largest)

    return bounded(answers, plan, level, choose, "bernstein", lower)


def bernstein_lower(log_x: FloatArray, alpha: float, log_largest: float) -> float:
    """A lower bound of the mean of X in [0, exp(log_largest)]; 0 at least."""
    n = len(log_x)
    if n < 2 or log_largest > 700:
        return 0.0
    x, odds = np.exp(log_x), math.log(2 / alpha)
    spread = math.sqrt(2 * float(x.var(ddof=1)) * odds / n)
    return max(0.0, float(x.mean()) - spread - 7 * math.exp(log_largest) * odds / (3 * (n - 1)))


def largest_log_weight(plan: Plan) -> float:
    """log of the largest weight that an episode can have: the largest kept ratio at every step."""
    pair = plan.question.pair
    if plan.estimator.is_naive:
        return 0.0
    if pair.pi_e is None or pair.pi_b is None:
        raise EstimationError(
            "A Bernstein interval needs both policies for all actions, to know the largest possible weight.",
            fix='Pass pi_e and pi_b as tables, or use interval="guaranteed", which needs no such bound.',
        )
    kept = ~plan.drop.mask(pair.n_states)[:, None] & (pair.pi_b > 0)
    ratio = float((pair.pi_e[kept] / pair.pi_b[kept]).max(initial=1.0))
    return plan.question.horizon * math.log(ratio)


# --- A confidence sequence: the betting interval after each episode, valid at all of them at once
#
# The wealth of `betting` is a martingale in the number of episodes, so that one may look after every episode
# and stop when the answer is clear. What was ruled out once stays ruled out: the intervals are nested.

# Wealth may pass the threshold by rounding alone; the bound moves when it passes by more.
ROUNDING = 1e-10


class ConfidenceSequence:
    """An interval for the value of a policy that is updated episode by episode.

    Args:
      return_range: lowest and highest return that an episode can have.
      level: confidence level, of all intervals at once.

    Example:
      >>> sequence = ConfidenceSequence(return_range=(0.0, 1.0))
      >>> for _ in range(100):
      ...     lower, upper = sequence.update(weight=1.0, episode_return=1.0)
      >>> round(lower, 3), upper
      (0.933, 1.0)
    """

    def __init__(self, return_range: tuple[float, float], level: float = 0.95) -> None:
        # The checks are those of the options of an estimate.
        checked = Options(return_range=return_range).return_range
        if checked is None or not 0 < level < 1:
            raise OptionError(
                f"A confidence sequence needs a return_range and a level; found level {level!r}.",
                fix="For example ConfidenceSequence((0, 1), level=0.95).",
            )
        self.lowest, self.highest = checked
        target = -math.log((1.0 - level) / 2)
        self._below, self._above = _Side(target), _Side(target)

    @property
    def n_episodes(self) -> int:
        """Episodes seen so far."""
        return self._below.n

    @property
    def interval(self) -> tuple[float, float]:
        """(lower, upper) after the episodes seen so far."""
        lower = min(self.lowest + self._below.bound, self.highest)
        upper = max(self.highest - self._above.bound, self.lowest)
        return min(lower, upper), max(lower, upper)

    def update(self, weight: float, episode_return: float) -> tuple[float, float]:
        """The interval with one more episode: its weight B and its return G."""
        if not weight >= 0:
            raise DataError(
                f"The weight of an episode must be at least 0; found {weight!r}.",
                fix="A weight is a product of ratios pi_e / pi_b, such as 0.8.",
            )
        return self._update_log(math.log(weight) if weight > 0 else -math.inf, episode_return)

    def _update_log(self, log_weight: float, episode_return: float) -> tuple[float, float]:
        check_returns(np.array([episode_return]), self.lowest, self.highest, first=self.n_episodes)
        for side, excess in (
            (self._below, episode_return - self.lowest),
            (self._above, self.highest - episode_return),
        ):
            side.add(log_weight + math.log(excess) if excess > 0 else -math.inf)
        return self.interval


class _Side:
    """A lower bound of the mean of X >= 0 that never falls."""

    def __init__(self, target: float) -> None:
        self.n = 0
        self._target = target
        self._log_x = np.empty(64)
        self._log_m = -math.inf
        self._logs: FloatArray = np.zeros(len(LOG_BET))  # log of each product at m

    @property
    def bound(self) -> float:
        return math.exp(self._log_m)

    def add(self, log_x: float) -> None:
        if self.n == len(self._log_x):
            self._log_x = np.concatenate([self._log_x, np.empty(self.n)])
        self._log_x[self.n] = log_x
        self.n += 1
        if self._log_m == -math.inf:
            if log_x > -math.inf:  # any m below the first positive X can be ruled out if it is small enough
                self._move(log_x - math.log(self.n))
            return
        self._logs += np.logaddexp(LOG_STAY, LOG_BET + (log_x - self._log_m))
        if log_sum(self._logs) - math.log(len(self._logs)) > self._target + ROUNDING:
            self._move(self._log_m)

    def _move(self, start: float) -> None:
        """Climb to the new bound, and take all products there."""
        seen = self._log_x[: self.n]
        self._log_m = climb(seen, start, self._target)
        self._logs = np.logaddexp(LOG_STAY, LOG_BET + (seen[:, None] - self._log_m)).sum(axis=0)


@dataclass(frozen=True, eq=False)
class IntervalPath:
    """Intervals after 1, 2, ..., n episodes, all valid together.

    Attributes:
      lower, upper: (n,) nested.
      covers: "V(pi_e)" or, with a drop, "V(mu_D)".
    """

    lower: FloatArray
    upper: FloatArray
    covers: str

    def __post_init__(self) -> None:
        freeze_fields(self)


def confidence_sequence(
    log: Trajectories,
    pi_e: Any = None,
    pi_b: Any = None,
    *,
    return_range: tuple[float, float],
    drop: Any = None,
    gamma: float = 1.0,
    level: float = 0.95,
) -> IntervalPath:
    """The confidence sequence of a log, episodes in their order.

    Args:
      log: episodes of the behaviour policy, in the order in which they arrived.
      pi_e, pi_b: evaluation and behaviour policy, as in `estimate`.
      return_range: lowest and highest return that an episode can have.
      drop: states (or steps) chosen before the first episode was seen; rules by name are refused.
      gamma: discount.
      level: confidence level, of all intervals at once.

    Example:
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)]] * 50)
      >>> found = confidence_sequence(log, [[0.5, 0.5]], [[0.5, 0.5]], return_range=(0.0, 1.0))
      >>> bool((found.lower[1:] >= found.lower[:-1]).all()), found.covers
      (True, 'V(pi_e)')
    """
    if isinstance(drop, str):
        raise OptionError(
            f"A confidence sequence needs a drop chosen before its first episode; found the rule {drop!r}.",
            fix="Choose the states from other episodes and pass them as a StateSet.",
        )
    question = ask(in_memory(log), pi_e, pi_b, gamma)
    plan = Plan(question, estimator_of("SIS"), drop_of(question, drop))
    episodes = whole_episodes(plan)
    sequence = ConfidenceSequence(return_range, level)
    ends = [
        sequence._update_log(log_weight, episode_return)
        for log_weight, episode_return in zip(
            episodes.log_weights.tolist(), episodes.returns.tolist(), strict=True
        )
    ]
    lower, upper = np.array(ends).T
    return IntervalPath(lower, upper, plan.estimand)
