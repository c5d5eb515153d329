"""The kinds of interval, checked where they are asked for and made where they are needed.

"auto" and "student-t" rest on influence functions, "bootstrap" and "bca" on resampled episodes; "guaranteed"
and "bernstein" hold for every sample size and need to know which returns are possible. Whatever the kind,
`covers` says what the interval covers, and `estimate.ess` belongs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.betting import bernstein, guaranteed
from deadweight.answers.bootstrap import bca, percentile
from deadweight.answers.plans import Plan
from deadweight.answers.student_t import auto, student_t
from deadweight.errors import OptionError, did_you_mean
from deadweight.question.asked import Options
from deadweight.question.drops import Drop
from deadweight.question.question import Question
from deadweight.results.estimate import Interval
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import Extent

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
# Intervals more than this many times as wide as the logged returns lie apart say nothing.
WIDEST = 1000.0
# Kinds that rest on a standard error, and can be paired with that of another estimate.
PAIRED = ("auto", "student-t")


def check_interval(kind: str | None, level: float, options: Options) -> None:
    """Refuse an interval that cannot be made, before any work is done."""
    if kind is None:
        return
    if kind not in KINDS:
        raise OptionError(
            f"interval must be one of {', '.join(KINDS)} or None; found {kind!r}."
            f"{did_you_mean(str(kind), KINDS)}",
            fix='For example interval="auto" (--interval auto).',
        )
    if not (isinstance(level, int | float | np.number) and 0 < level < 1):
        raise OptionError(f"level must lie between 0 and 1; found {level!r}.", fix="0.95 is customary.")
    if kind in BOUNDS and options.return_range is None:
        raise OptionError(
            f'interval="{kind}" needs the lowest and the highest return that an episode can have.',
            fix="Pass return_range=(lowest, highest), from what is known of the task and not from the log, "
            "such as (0, 1) (--return-range 0,1).",
        )
    if kind in BOUNDS and options.cut_weights is not None:
        raise OptionError(
            f'interval="{kind}" holds for any log, and the chance of being cut is only estimated: the two do '
            "not go together.",
            fix='Leave cut_weights out, or use interval="auto".',
        )


def clipped(bounds: Interval, possible: tuple[float, float] | None) -> Interval:
    """The interval within the returns that are possible, where they are known; its parts stay as they were.

    One that lies outside altogether is wrong, and says nothing: everything that is possible remains, not the
    one end that it is nearer to.

    >>> made = Interval(-0.5, 0.7, 0.6, 0.0, "auto", "V(pi_e)", 0.1)
    >>> clipped(made, (0.0, 1.0)).lower, clipped(made, None).lower
    (0.0, -0.5)
    >>> clipped(made, (1.0, 2.0)).lower, clipped(made, (1.0, 2.0)).upper
    (1.0, 2.0)
    """
    if possible is None:
        return bounds
    lowest, highest = possible
    if bounds.lower > highest or bounds.upper < lowest:
        return replace(bounds, lower=lowest, upper=highest)
    lower, upper = (min(max(end, lowest), highest) for end in (bounds.lower, bounds.upper))
    return replace(bounds, lower=lower, upper=upper)


class ReturnExtent:
    """The smallest and the largest return of a log."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma

    @property
    def key(self) -> Hashable:
        """One for each discount."""
        return ("return-extent", self.gamma)

    def summarise(self, block: Block) -> Extent:
        """Of a block."""
        return Extent.of(block.returns(self.gamma))


def settled_interval(bounds: Interval, answers: Answers) -> Interval:
    """An interval within the returns that are possible; or, where nobody has said these, `determined`."""
    possible = answers.question.options.return_range
    if possible is not None:
        return clipped(bounds, possible)
    extent = ReturnExtent(answers.question.gamma)
    answers.sum([extent])
    returns = answers.found(extent)
    return determined(bounds, returns.highest - returns.lowest)


def determined(bounds: Interval, spread: float) -> Interval:
    """The interval, without ends where it is more than `WIDEST` times as wide as returns lie apart.

    Returns that are all equal set no limit; an interval with one infinite end has none at all.

    >>> made = Interval(-4e60, 4e60, 4e60, 0.0, "auto", "V(pi_e)", 0.1)
    >>> determined(made, 2.0).lower, determined(made, 0.0).lower
    (-inf, -4e+60)
    """
    width = bounds.upper - bounds.lower
    if math.isfinite(width) and (spread == 0.0 or width <= WIDEST * spread):
        return bounds
    allowance = bounds.bias_allowance if bounds.bias_allowance <= WIDEST * spread else math.inf
    return replace(bounds, lower=-math.inf, upper=math.inf, sampling_error=math.inf, bias_allowance=allowance)


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
