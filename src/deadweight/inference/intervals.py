"""The kinds of interval, checked where they are asked for and made where they are needed.

"auto" and "student-t" rest on influence functions, "bootstrap" and "bca" on resampled episodes; "guaranteed"
and "bernstein" hold for every sample size and need to know which returns are possible. Whatever the kind,
`covers` says what the interval covers, and `estimate.ess` belongs beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from deadweight.answers.plans import Answers, Plan
from deadweight.errors import OptionError, did_you_mean
from deadweight.inference.bernstein import bernstein
from deadweight.inference.betting import guaranteed
from deadweight.inference.bootstrap import bca, percentile
from deadweight.inference.student_t import auto, student_t
from deadweight.question.core import Question
from deadweight.question.drops import Drop
from deadweight.question.options import Options
from deadweight.results import Interval

Choose = Callable[[Question], Drop]
MAKERS: dict[str, Callable[[Answers, Plan, float], Interval]] = {
    "auto": auto,
    "student-t": student_t,
    "bootstrap": percentile,
    "bca": bca,
}
# Bounds that hold for every sample size, and need the range of the returns.
BOUNDS: dict[str, Callable[[Answers, Plan, float, Choose | None], Interval]] = {
    "guaranteed": guaranteed,
    "bernstein": bernstein,
}
KINDS = ("auto", "guaranteed", "student-t", "bootstrap", "bca", "bernstein")
# Kinds that rest on a standard error, and can be paired with that of another estimate.
PAIRED = ("auto", "student-t")


def check_interval(kind: str | None, level: float, options: Options) -> None:
    """Refuse an interval that cannot be made, before any work is done."""
    if kind is None:
        return
    if kind not in KINDS:
        raise OptionError(
            f"interval must be one of {', '.join(KINDS)} or None; found {kind!r}."
            f"{did_you_mean(str(kind), KINDS)}"
        )
    if not 0 < level < 1:
        raise OptionError(f"level must lie between 0 and 1; found {level!r}.", fix="0.95 is customary.")
    if kind in BOUNDS and options.return_range is None:
        raise OptionError(
            f'interval="{kind}" needs the lowest and the highest return that an episode can have.',
            fix="Pass return_range=(lowest, highest), from what is known of the task and not from the log.",
        )


def make_interval(
    kind: str, level: float, answers: Answers, plan: Plan, choose: Choose | None = None
) -> Interval:
    """The interval of an estimate.

    Args:
      kind: one of `KINDS`; see `check_interval`.
      level: confidence level.
      answers: the sums behind the estimate.
      plan: the estimator and its drop.
      choose: the rule that chose the drop from the log, where one did. A bound that holds in finite samples
        then lets it choose again from one half of the episodes, and bounds with the other half.
    """
    if kind in BOUNDS:
        return BOUNDS[kind](answers, plan, level, choose)
    return MAKERS[kind](answers, plan, level)
