"""The verb `cut_bounds`: the worst and the best case of whatever happened after the log was cut.

A stay that still goes on, a customer who is still there: the log shows only their beginning. Weights for the
chance of being cut need assumptions that nobody can check; the two cases need none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from deadweight.errors import DataError, OptionError
from deadweight.estimators.estimator import Estimator
from deadweight.log.interface import Source, in_memory
from deadweight.question.question import Policy, opened
from deadweight.results.comparison import CutBounds
from deadweight.verbs.estimate import evaluate

EXAMPLE = "For example remaining=(0, 1) (--cut-range 0,1) where a stay can still end well or not."


def cut_bounds(
    log: Source,
    pi_e: Policy = None,
    pi_b: Policy = None,
    estimators: Sequence[str | Estimator] | None = None,
    *,
    remaining: tuple[float, float],
    **settings: Any,
) -> CutBounds:
    """The evaluation in the worst and the best case of what was cut off.

    Args:
      log, pi_e, pi_b, estimators: as for `evaluate`; the log is read whole.
      remaining: the least and the most that a cut episode could still have earned after its last logged step,
        discounted to that step.
      **settings: those of `evaluate`.

    For averages with weights that are not negative (BEHAVIOUR, IS, WIS, PDIS, WPDIS) no other course of
    events gives less or more. For estimates with a model the two are the cases in which all cut episodes
    fared alike.

    Example:
      >>> from deadweight import Trajectories
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]], terminated=[False, True])
      >>> cut_bounds(log, [[0.25, 0.75]], [[0.5, 0.5]], ["WIS"], remaining=(0, 4)).value
      (2.5, 3.5)
    """
    least, most = _checked(remaining)
    with opened(log, stream=False) as source:
        whole = in_memory(source)[0]
        n_cut = int(np.count_nonzero(~whole.terminated))
        if n_cut == 0:
            raise DataError(
                "No episode of this log is cut: there is nothing to bound.",
                fix="Say which are: a column truncated (or terminated), or time_limit= where a limit cuts.",
            )
        settings = {"background": False, **settings}
        low, high = (
            evaluate(whole.with_remainder(amount), pi_e, pi_b, estimators, **settings)
            for amount in (least, most)
        )
    return CutBounds(low, high, (least, most), n_cut)


def _checked(remaining: Any) -> tuple[float, float]:
    try:
        least, most = (float(end) for end in remaining)
    except (TypeError, ValueError):
        raise OptionError(
            "remaining is the least and the most that a cut episode could still have earned; found "
            f"{remaining!r}.",
            fix=EXAMPLE,
        ) from None
    if not (math.isfinite(least) and math.isfinite(most) and least <= most):
        raise OptionError(f"remaining must be two finite numbers in order; found {remaining!r}.", fix=EXAMPLE)
    return least, most
