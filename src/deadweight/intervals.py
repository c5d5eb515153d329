"""Confidence intervals around an estimate.

Degrees of freedom come from the Kish effective sample size: when five episodes carry all the weight, the
standard error itself is known as badly as from five episodes, and the interval must say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from deadweight.errors import OptionError, did_you_mean
from deadweight.results import Estimate, Interval

KINDS = ("auto", "student-t")


def interval_maker(
    kind: str | None, level: float, corrects_itself: bool
) -> Callable[[Estimate], Interval] | None:
    """A function from an estimate to its interval; None when none is wanted.

    Args:
      kind: "auto", "student-t" or None.
      level: confidence level.
      corrects_itself: the estimate holds the correction of its bias already.
    """
    if kind is None:
        return None
    if kind not in KINDS:
        raise OptionError(
            f"interval must be one of {', '.join(KINDS)} or None; found {kind!r}.{did_you_mean(str(kind), KINDS)}"
        )
    if not 0 < level < 1:
        raise OptionError(f"level must lie between 0 and 1; found {level!r}.", fix="0.95 is customary.")

    def make(estimate: Estimate) -> Interval:
        ess = estimate.n_episodes if estimate.ess is None else estimate.ess
        error = t_quantile(level, ess - 1) * estimate.std_error if estimate.std_error else 0.0
        centre, allowance = estimate.value, 0.0
        if kind == "auto":
            bias = estimate.bias or 0.0
            allowance = abs(bias)
            centre = estimate.value if corrects_itself else estimate.value - bias
        return Interval(centre - error - allowance, centre + error + allowance, error, allowance)

    return make


def t_quantile(level: float, degrees: float) -> float:
    """Two-sided quantile of Student's t; infinite without degrees of freedom.

    >>> round(t_quantile(0.95, 10), 3)
    2.228
    """
    if not degrees > 0:
        return math.inf
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + level / 2))
