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
from functools import partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.plans import Plan, returns
from deadweight.errors import EstimationError
from deadweight.inference.per_episode import WholeEpisodes, check_returns, per_episode, whole_episodes
from deadweight.question.core import Question
from deadweight.question.drops import Drop
from deadweight.results import Interval
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
