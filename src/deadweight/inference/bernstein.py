r"""Empirical Bernstein bounds, for comparison with what people know.

.. math:: \mu \ge \bar X - \sqrt{\frac{2 \hat\sigma^2 \ln(2/\alpha)}{n}} - \frac{7 R \ln(2/\alpha)}{3 (n - 1)}

for X in [0, R]. The largest possible weight is the largest ratio to the power of the horizon, so that R, and
with it the interval, is huge for all but short episodes; cut to the range of the returns it is still valid.
Maurer & Pontil (2009), Theorem 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.plans import Plan
from deadweight.errors import EstimationError
from deadweight.inference.betting import Lower, bounded, return_range
from deadweight.question.core import Question
from deadweight.question.drops import Drop
from deadweight.results import Interval
from deadweight.typing import FloatArray


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
