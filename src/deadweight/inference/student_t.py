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

from deadweight.answers import Answers, Plan
from deadweight.results import Estimate, Interval

# Degrees of freedom below this are rounding: one episode has all the weight.
ONE_EPISODE = 1e-9


def student_t(estimate: Estimate, plan: Plan, level: float) -> Interval:
    """Value plus and minus t times the standard error: nothing is said about the bias of a drop."""
    error = t_error(estimate, estimate.std_error, level)
    estimate.details["interval"] = {"kind": "student-t", "covers": plan.estimand}
    return Interval(estimate.value - error, estimate.value + error, error, 0.0)


def auto(estimate: Estimate, answers: Answers, plan: Plan, level: float) -> Interval:
    """The corrected estimate plus and minus a sampling error and what its bias may be."""
    bias = estimate.bias
    centre, std_error = estimate.value, estimate.std_error
    if bias is not None and not plan.corrects_itself:
        centre -= bias
        std_error = answers.std_error(plan.corrected)
    error = t_error(estimate, std_error, level)
    disagreement = answers.disagreement(plan)
    allowance = plan.question.options.bias_trust * (abs(bias or 0.0) + (disagreement or 0.0))
    # Without pi_e of all actions the bias of a drop is unknown: the interval is then that of mu_D.
    target = plan.estimand if bias is None or plan.name == "BEHAVIOUR" else "V(pi_e)"
    estimate.details["interval"] = {
        "kind": "auto",
        "covers": target,
        "centre": centre,
        "std_error": std_error,
        "disagreement": disagreement,
    }
    return Interval(centre - error - allowance, centre + error + allowance, error, allowance)


def t_error(estimate: Estimate, std_error: float, level: float) -> float:
    """t times the standard error; infinite where there is no standard error or no degree of freedom.

    A single episode that carries all the weight has standard error zero, and says nothing about the next one.
    """
    degrees = (estimate.n_episodes if estimate.ess is None else estimate.ess) - 1
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
