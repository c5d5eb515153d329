r"""Intervals from a standard error: Student's t, and "auto" with an allowance for bias.

.. math:: \hat G + m \pm \left( t_{\mathrm{ESS} - 1} \, \mathrm{se} + |m| + |\Delta| \right)

Degrees of freedom come from the Kish effective sample size: when five episodes carry all the weight, the
standard error itself is known as badly as from five episodes, and the interval must say so. "auto" centres
on the corrected estimate, with *its* standard error, and allows once more for the correction itself: m comes
from a fitted model, which may be wrong by as much as it says. Delta is the distance to the estimate that
leans the other way: on the model where this one leans on the weights alone, on the weights where this one
leans on the model. A log that lacks the few episodes with the largest weights, or a model that has learned
its episodes by heart, has a small standard error and is wrong all the same; but not both in the same way.
"""

from __future__ import annotations

import math

from deadweight.answers.answering import Answers
from deadweight.answers.plans import Plan
from deadweight.results import Interval

# Degrees of freedom below this are rounding: one episode has all the weight.
ONE_EPISODE = 1e-9


def student_t(answers: Answers, plan: Plan, level: float) -> Interval:
    """Value plus and minus t times the standard error: nothing is said about the bias of a drop."""
    value, std_error = answers.fit(plan).value, answers.std_error(plan)
    error = t_error(std_error, answers.effective(plan), level)
    return Interval(
        value - error, value + error, error, 0.0, "student-t", plan.estimand, value, std_error=std_error
    )


def auto(answers: Answers, plan: Plan, level: float) -> Interval:
    """The corrected estimate plus and minus a sampling error and what its bias may be."""
    bias = answers.bias(plan)
    centre, std_error = answers.fit(plan).value, answers.std_error(plan)
    if bias is not None and not plan.corrects_itself:
        centre -= bias
        std_error = answers.std_error(plan.corrected)
    error = t_error(std_error, answers.effective(plan), level)
    disagreement = answers.disagreement(plan)
    allowance = plan.question.options.bias_trust * (abs(bias or 0.0) + (disagreement or 0.0))
    # Without pi_e of all actions the bias of a drop is unknown: the interval is then that of mu_D.
    target = plan.estimand if bias is None or plan.estimator.is_naive else "V(pi_e)"
    lower, upper = centre - error - allowance, centre + error + allowance
    return Interval(
        *(lower, upper, error, allowance, "auto", target, centre),
        std_error=std_error,
        disagreement=disagreement,
    )


def t_error(std_error: float, effective: float, level: float) -> float:
    """t times the standard error; infinite where there is no standard error or no degree of freedom.

    `effective` is the number of episodes that carry the estimate: the Kish size where there are weights.
    A single episode that carries all the weight has standard error zero, and says nothing about the next one.
    """
    degrees = effective - 1
    if degrees <= ONE_EPISODE or not math.isfinite(std_error):
        return math.inf
    return t_quantile(level, degrees) * std_error if std_error else 0.0


def t_quantile(level: float, degrees: float) -> float:
    """Two-sided quantile of Student's t; infinite without degrees of freedom.

    >>> round(t_quantile(0.95, 10), 3)
    2.228
    """
    if not degrees > 0:
        return math.inf
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))
