r"""Intervals: the kinds of them, checked where they are asked for, and those that rest on a standard error.

.. math:: \hat G + m \pm \left( t_{\mathrm{ESS} - 1} \, \mathrm{se} + |m| + |\Delta| \right)

Degrees of freedom come from the Kish effective sample size: when five episodes carry all the weight, the
standard error itself is known as badly as from five episodes, and the interval must say so. "auto" centres
on the corrected estimate, with *its* standard error, and allows once more for the correction itself: m comes
from a fitted model, which may be wrong by as much as it says. Delta is the distance to the estimate that
leans the other way: on the model where this one leans on the weights alone, on the weights where this one
leans on the model. A log that lacks the few episodes with the largest weights, or a model that has learned
its episodes by heart, has a small standard error and is wrong all the same; but not both in the same way.

"bootstrap" and "bca" resample episodes (`deadweight.answers.bootstrap`); "guaranteed" and "bernstein" hold
for every sample size and need to know which returns are possible (`deadweight.answers.betting`). Whatever the
kind, `covers` says what the interval covers, and `estimate.ess` belongs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.plans import Compute, Plan
from deadweight.errors import DataError, OptionError, did_you_mean
from deadweight.question.asked import Options
from deadweight.question.drops import Drop
from deadweight.question.question import Question
from deadweight.results.estimate import Interval
from deadweight.sums import reduction
from deadweight.sums.blocks import Block, discounted_sum
from deadweight.sums.summaries import Extent
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray, IntArray

Choose = Callable[[Question], Drop]
KINDS = ("auto", "guaranteed", "student-t", "bootstrap", "bca", "bernstein")
# Bounds that hold for every sample size, and need the range of the returns.
BOUNDS = ("guaranteed", "bernstein")
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
        from deadweight.answers import betting

        bound = betting.guaranteed if kind == "guaranteed" else betting.bernstein
        return bound(answers, plan, level, choose)
    if kind in PAIRED:
        return (auto if kind == "auto" else student_t)(answers, plan, level)
    from deadweight.answers import bootstrap

    return (bootstrap.percentile if kind == "bootstrap" else bootstrap.bca)(answers, plan, level)


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


# --- Per-episode quantities in the order of the log: whole weights and returns, and influence functions


def first_episodes(question: Question) -> IntArray:
    """(parts,) the number, in the whole log, of each part's first episode."""
    return np.cumsum([0, *question.sizes[:-1]])


def per_episode(question: Question, compute: Compute) -> FloatArray:
    """compute(block), (m,) or (k, m), of all episodes in the order of the log.

    On a stored log `compute` travels to other processes: a named function or an object, not a closure.
    """
    return reduction.per_episode(question.parts, compute, question.workers)


@dataclass(frozen=True, eq=False)
class WholeEpisodes:
    """log B_i (-inf where B_i = 0) and G_i of every episode, (n,) each."""

    log_weights: FloatArray
    returns: FloatArray

    def above(self, lowest: float) -> FloatArray:
        """(n,) log of B (G - lowest)."""
        with np.errstate(divide="ignore"):
            return self.log_weights + np.log(np.maximum(self.returns - lowest, 0.0))

    def below(self, highest: float) -> FloatArray:
        """(n,) log of B (highest - G)."""
        with np.errstate(divide="ignore"):
            return self.log_weights + np.log(np.maximum(highest - self.returns, 0.0))


def whole_episodes(plan: Plan) -> WholeEpisodes:
    """Whole-episode weights with the plan's drop, and returns; BEHAVIOUR weighs every episode by one."""
    weighting = None if plan.estimator.is_naive else plan.weighting
    compute = partial(_weights_and_returns, weighting, plan.question.gamma)
    return WholeEpisodes(*per_episode(plan.question, compute))


def _weights_and_returns(weighting: Weighting | None, gamma: float, block: Block) -> FloatArray:
    """(2, m) logarithms of the whole weights, and returns."""
    if weighting is None:
        return np.stack([np.zeros(block.n), block.returns(gamma)])
    return np.stack([weighting.on(block).running.last.logs()[:, 0], block.returns(gamma)])


def check_returns(returns: FloatArray, lowest: float, highest: float, first: int = 0) -> None:
    """Refuse a range that an observed return leaves; `first` is the number of the first episode."""
    slack = 1e-9 * max(abs(lowest), abs(highest), highest - lowest)
    outside = np.flatnonzero((returns < lowest - slack) | (returns > highest + slack))
    if outside.size:
        episode = int(outside[0])
        raise DataError(
            f"The return of episode {first + episode} is {returns[episode]:.6g}, outside "
            f"return_range=({lowest:g}, {highest:g})"
            + (f"; {outside.size - 1} more episodes are outside." if outside.size > 1 else "."),
            fix="Widen return_range to all returns that an episode can have, discounted as the estimate is.",
        )


def check_range(question: Question) -> None:
    """Refuse a range of possible returns that a logged one leaves; nothing where none was given."""
    possible = question.options.return_range
    if possible is not None:
        check_returns(per_episode(question, partial(logged_returns, question.gamma)), *possible)


def logged_returns(gamma: float, block: Block) -> FloatArray:
    """(m,) discounted returns as they were logged, whatever a row stands for."""
    if block.standing is None:
        return block.returns(gamma)
    return discounted_sum(block.rewards / block.standing[0], gamma)


def influences(answers: Answers, plan: Plan) -> FloatArray:
    """(n,) influence of each episode on the estimate, centred: the estimate is about truth + their mean."""
    return centred_influences(plan.question, answers.influence(plan))


def centred_influences(question: Question, influence: Compute) -> FloatArray:
    """(n,) values of an influence that is known up to a constant, so that their mean is zero."""
    values = per_episode(question, influence)
    with np.errstate(over="ignore", invalid="ignore"):
        centred: FloatArray = values - values.mean()
    return centred
