"""The verdict: is the evaluation policy better than what was done, and how sure is that?

Estimate and baseline come from the same episodes, so that much of their noise is shared. Where both have
influence functions the verdict rests on the interval of their *difference*, with the covariance in it, and
at least as wide as that of the estimate alone; elsewhere the two intervals must not overlap. When in doubt
the answer is "cannot tell". Whatever flag stands on the estimate is one of the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from deadweight.answers.candidates import CROSS_FITTED, WITHOUT_MODEL, WORDS
from deadweight.answers.intervals import t_error
from deadweight.results.estimate import (
    FIRST,
    GRAVE,
    LEADING,
    WITHHOLDING,
    Blend,
    Estimate,
    advice,
    doubts_of,
    remark,
)
from deadweight.results.evaluation import Verdict, headline_of
from deadweight.tools import thresholds
from deadweight.tools.arithmetic import two_digits

OF_BLEND = "contradicted"
"""The flag that a blend's own reasons explain, with numbers."""
FEW_WITHOUT_MODEL = (
    "Only weights can be relied on here, and fewer than ten episodes effectively carry them: nothing can be "
    "concluded."
)
MORE_ALIKE = "Log more episodes, best with an old policy that acts more like the new one."
ALONE = (
    "Look at BLEND, which does not depend on these weights alone; or log more episodes, best with an old "
    "policy that acts more like the new one."
)
PROBABILITIES = (
    "See whether the old policy's probabilities are those that the actions were drawn with; if they are, log "
    "more episodes."
)
NO_DIFFERENCE = "The log shows no difference at all: see whether what the policies differ in occurs in it."
OTHERS_FIRST = (
    "More episodes alone would not settle it: what dropping states may cost, or the distance between "
    "weights and model, is larger than the difference. Look at other estimates, BLEND first."
)
# What the interval of a blend may allow for, beside estimates that contradict.
MISSING, SPARSE = "missing weight", "sparse log"
STANDS = (
    "The answer stands with all of this allowed for; it would be surer if it were known why estimates differ."
)

Rule = Callable[[Estimate, Estimate | float], Verdict]


def verdict(estimate: Estimate, baseline: Estimate | float) -> Verdict:
    """Compare an estimate that has an interval with the behaviour policy, or with a number.

    Args:
      estimate: of the evaluation policy, with an interval.
      baseline: the estimate "BEHAVIOUR" of the same log with the same kind of interval, or a known value.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> from deadweight.verbs.estimate import evaluate
      >>> lift = deterministic_lift(7)
      >>> table = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "C-WSPDIS"], drop=[1, 3])
      >>> verdict(table["C-WSPDIS"], table["BEHAVIOUR"]).answer
      'better'
    """
    return _doubted_by_flags(estimate, _by_numbers(estimate, baseline))


def _by_numbers(estimate: Estimate, baseline: Estimate | float) -> Verdict:
    """The verdict as far as value, interval and weights tell."""
    interval = estimate.interval
    if interval is None:
        why = "No interval was asked for."
        return _untold(why, 'Ask for an interval, such as interval="auto".')
    if "undetermined" in estimate.flags:
        untold = _untold(remark("undetermined", estimate.about), advice("undetermined"))
        return replace(untold, sound=False)
    if estimate.blend is not None:
        return _of_blend(estimate, estimate.blend, baseline)
    centre = estimate.centre
    if not math.isfinite(centre):
        why = f"{estimate.name} has no finite value: its weights leave the range of floating-point numbers."
        return _untold(why, "Use a self-normalised estimator, whose weights cannot leave that range.")
    value = baseline.value if isinstance(baseline, Estimate) else float(baseline)
    lower, upper, how = _difference(estimate, baseline, interval, centre - value)
    name = "the old policy" if isinstance(baseline, Estimate) else "the baseline"
    slack = thresholds.ROUNDING * max(abs(centre), abs(value))
    seen = centre - value if abs(centre - value) > slack else 0.0  # no digits of rounding in a sentence
    numbers = (
        f"{estimate.name} puts the new policy at {centre:.4g} against {value:.4g} for {name}: a difference "
        f"of {seen:+.4g}, {_range(lower, upper)} with {estimate.level:.0%} confidence ({how})."
    )
    weak, mend = _weakness(estimate)
    if weak:
        ends = lower, upper
        return Verdict("cannot tell", (numbers, weak), centre - value, ends, sound=False, next_step=mend)
    answer = "better" if lower > slack else "worse" if upper < -slack else "cannot tell"
    reasons = [numbers]
    if answer == "cannot tell":
        rounded = "" if lower <= 0.0 <= upper else ", up to rounding"
        reasons.append(f"The range includes zero{rounded}.")
    blocked = NO_DIFFERENCE if seen == 0.0 else OTHERS_FIRST
    half, fixed = (upper - lower) / 2, estimate.bias_allowance or 0.0
    step = _next_step(answer, seen, half, fixed, estimate.n_episodes, blocked)
    return Verdict(answer, tuple(reasons), centre - value, (lower, upper), next_step=step)


def _untold(why: str, step: str) -> Verdict:
    """The verdict where there is nothing to go by."""
    return Verdict("cannot tell", (why,), math.nan, (-math.inf, math.inf), next_step=step)


def _next_step(answer: str, difference: float, half: float, fixed: float, n: int, blocked: str) -> str:
    """A sentence on what would settle the question.

    The part of the half-width that is `fixed` does not shrink with more episodes; where it is larger than the
    difference no number of them will do, and `blocked` says what else.
    """
    if answer != "cannot tell":
        return f"No more episodes are needed: {n:,} are enough for this answer."
    if not math.isfinite(half):
        return "Log more episodes: too few carry any information to say how many are needed."
    room = abs(difference) - fixed
    if room <= 0:
        return blocked
    needed = math.ceil(n * ((half - fixed) / room) ** 2)
    if needed > thresholds.MOST_TIMES * n:
        return (
            "What the log shows of a difference is far smaller than what it leaves open: no log of its kind "
            "and of reasonable size would settle it."
        )
    return (
        f"About {two_digits(int(needed)):,} episodes of the same kind would settle it, if the difference is "
        "what it seems."
    )


def _of_blend(estimate: Estimate, blend: Blend, baseline: Estimate | float) -> Verdict:
    """A blend has weighed all contradictions already, and knows its distance to the mean return."""
    known = not isinstance(baseline, Estimate)
    value = baseline.value if isinstance(baseline, Estimate) else float(baseline)
    judged = judge(blend, value, estimate.n_episodes, known, estimate.level)
    if "low-ess-undropped" not in estimate.flags or not set(blend.shares) <= set(WITHOUT_MODEL):
        return judged
    weak = (*judged.reasons[:2], FEW_WITHOUT_MODEL)
    return replace(judged, answer="cannot tell", reasons=weak, sound=False, next_step=MORE_ALIKE)


def judge(blend: Blend, baseline: float, n: int, known: bool, level: float = 0.95) -> Verdict:
    """Compare a blend with the mean return of its own log, or with a known value.

    Args:
      blend: the mix.
      baseline: what to compare with.
      n: episodes of the log.
      known: the baseline is a number, and not the mean return of these episodes.
      level: of confidence, for the words.
    """
    below, above = blend.half_widths if known else blend.baseline_half_widths
    difference = blend.value - baseline
    ends = difference - below, difference + above
    slack = thresholds.ROUNDING * max(abs(blend.value), abs(baseline))
    answer = "better" if ends[0] > slack else "worse" if ends[1] < -slack else "cannot tell"
    name = "the baseline" if known else "the old policy"
    numbers = (
        f"BLEND puts the new policy at {blend.value:.4g} against {baseline:.4g} for {name}: a difference of "
        f"{difference:+.4g}, {_range(*ends)} with {level:.0%} confidence."
    )
    reasons = [numbers, _composition(blend), *_unseen_error(blend)]
    if blend.contradiction > thresholds.WORTH_A_WORD * blend.half_width:
        reasons.append(_objection(blend))
    if blend.against is not None and _difference_of(blend) not in reasons:
        reasons.append(_difference_of(blend))
    if answer == "cannot tell":
        reasons.append("The range includes zero.")
    half = below if difference > 0 else above
    step = _next_step(answer, difference, half, blend.contradiction, n, _blocked(difference, blend))
    return Verdict(answer, tuple(reasons), difference, ends, next_step=step)


def _composition(blend: Blend) -> str:
    """The shares of the blend in words, the largest first."""
    parts = sorted(((share, name) for name, share in blend.shares.items()), reverse=True)
    named = [
        f"{share:.0%} {name} ({WORDS[name]})" for share, name in parts if share >= thresholds.SMALL_SHARE
    ]
    return f"It is made of {', '.join(named)}."


def _unseen_error(blend: Blend) -> list[str]:
    """The share that rests on the model alone, and the error of it that the log could not show."""
    share = blend.shares.get("DM", 0.0)
    if share < thresholds.SMALL_SHARE:
        return []
    if not math.isfinite(blend.undetectable):
        return ["It rests on the fitted model alone, and nothing in the log can show whether that is wrong."]
    return [
        f"It rests on the fitted model for {share:.0%}, and the log could not show an error of that model "
        f"below {blend.undetectable:.2g}."
    ]


def _objection(blend: Blend) -> str:
    """A sentence on what the interval allows for most, and how much that is."""
    allowed = f"and the interval allows {blend.contradiction:.4g} for that."
    cause = _cause(blend)
    if cause == MISSING:
        return (
            "Episodes that the new policy would often have are missing in the log: the weights of those that "
            f"it has add up to too little, {allowed}"
        )
    if cause == SPARSE:
        return (
            "The log is sparse: estimates that have seen their own episodes may share a bias of about "
            f"{blend.contradiction:.4g}, and the interval allows for it."
        )
    if cause == blend.against:
        return _difference_of(blend)
    if cause == "LIN":
        return f"{cause} ({WORDS[cause]}) is not sure by itself whether the new policy is better, {allowed}"
    return f"{cause} ({WORDS[cause]}) says something else, {allowed}"


def _cause(blend: Blend) -> str:
    """The largest allowance of the interval: for `MISSING` weight, a `SPARSE` log, or an estimate by name."""
    if 0 < blend.missing >= blend.contradiction:
        return MISSING
    if blend.shared_bias >= blend.contradiction:
        return SPARSE
    farthest = max(blend.parts, key=lambda part: part.beyond).name
    return SPARSE if farthest == CROSS_FITTED != blend.against else farthest


def _difference_of(blend: Blend) -> str:
    """A sentence on the estimate that differs most from the blend."""
    assert blend.against is not None
    beyond = next((part.beyond for part in blend.parts if part.name == blend.against), blend.contradiction)
    return (
        f"{blend.against} ({WORDS[blend.against]}) differs from it by more than noise explains, "
        f"and the interval allows {beyond:.4g} for that."
    )


def _blocked(difference: float, blend: Blend) -> str:
    """The next step where no number of episodes would do."""
    cause = _cause(blend)
    if difference == 0.0 == blend.contradiction:
        return NO_DIFFERENCE
    if cause == MISSING:
        return MORE_ALIKE
    if cause == SPARSE:
        return "Log more episodes: the model has not seen enough to say how many."
    if cause == "LIN" != blend.against:
        return "Log more episodes: what weights say of the direction is no more than noise so far."
    return (
        f"More episodes alone would not settle it: {cause} contradicts the other estimates. See first "
        "whether the states show everything that rewards and transitions depend on, and whether the logged "
        "probabilities are right."
    )


def _doubted_by_flags(estimate: Estimate, judged: Verdict) -> Verdict:
    """The verdict with what the flags of its estimate say: grave ones first, the others after the numbers.

    A verdict that is not sound keeps its last reason, which says why.
    """
    flags = estimate.flags
    said = {flag: remark(flag, estimate.about) for flag in flags}
    withheld = [flag for flag in WITHHOLDING if flag in flags]
    done = (*withheld, OF_BLEND) if estimate.blend is not None else withheld
    new = [flag for flag in flags if flag not in done and said[flag] not in judged.reasons]
    grave = [said[flag] for flag in new if flag in LEADING]
    rest = [said[flag] for flag in new if flag not in LEADING]
    place = len(judged.reasons) - (not judged.sound)
    reasons = (*grave, *judged.reasons[:place], *rest, *judged.reasons[place:])
    closing = tuple(flag for flag in GRAVE if flag in flags)
    if withheld:
        reasons, step = (*reasons, *(said[flag] for flag in reversed(withheld))), advice(withheld[0])
        return Verdict("cannot tell", reasons, judged.difference, judged.interval, False, step, closing)
    return replace(judged, reasons=reasons, doubts=closing, next_step=_step_in_doubt(judged, flags))


def _step_in_doubt(judged: Verdict, flags: Iterable[str]) -> str | None:
    """The next step: an answer that is in doubt does not say that the log is long enough.

    Where there is none, a grave doubt comes before the advice to log more.
    """
    doubts = doubts_of(flags)
    if judged.answer == "cannot tell":
        grave = next((flag for flag in doubts if flag in GRAVE), None)
        return judged.next_step if grave is None or not judged.sound else advice(grave)
    if not doubts:
        return judged.next_step
    return STANDS if doubts == [OF_BLEND] else f"Before you act on this: {FIRST[doubts[0]]}"


def table_verdict(
    estimates: Mapping[str, Estimate],
    baseline: Estimate | float,
    rules: Mapping[str, Rule | None] | None = None,
) -> Verdict:
    """The verdict of a table's headline; `rules` has those of estimators with a rule of their own.

    It stands only as long as no other estimate of the table, with enough effective episodes of its own, rules
    out the headline's value and would not give the same answer.
    """
    headline = headline_of(estimates)
    rule = (rules or {}).get(headline.name)
    if rule is not None:
        return _doubted_by_flags(headline, rule(headline, baseline))
    judged = _doubted(estimates, headline, verdict(headline, baseline))
    if judged.answer == "cannot tell" or headline.blend is not None:
        return judged
    against = [
        name
        for name, row in estimates.items()
        if contradicts(row, headline) and verdict(row, baseline).answer != judged.answer
    ]
    if not against:
        return judged
    reason = (
        f"{' and '.join(against)} rule out what {headline.name} says: their intervals do not meet. "
        "One of them must be wrong, and the log does not tell which."
    )
    step = "See which of them is wrong first: the logged probabilities, or what the states leave out."
    reasons = (*judged.reasons, reason)
    return replace(judged, answer="cannot tell", reasons=reasons, sound=False, next_step=step)


def _doubted(estimates: Mapping[str, Estimate], headline: Estimate, judged: Verdict) -> Verdict:
    """The verdict with what the check of the model says first, where that is bad news."""
    flagged = [row for row in estimates.values() if "model-misfit" in row.flags]
    if not flagged or flagged[0].model_check is None:
        return judged
    reason = flagged[0].model_check.reason
    if headline in flagged and headline.blend is None:  # a blend has left the model out already
        reason += f" {headline.name} is based on that model, and nothing can be concluded from it."
        step = "See first how episodes end (terminated, time_limit), and what the states leave out."
        return replace(judged, answer="cannot tell", reasons=(reason, *judged.reasons), next_step=step)
    reason += f" The verdict is based on {headline.name}, which does without the model."
    doubted = _step_in_doubt(judged, [*headline.flags, "model-misfit"])
    return replace(judged, reasons=(reason, *judged.reasons), next_step=doubted)


def contradicts(row: Estimate, headline: Estimate) -> bool:
    """Whether another estimate of the same policy, itself fit to be believed, lies apart from the headline.

    Only estimates by products of ratios count: the naive average is no estimate of the policy, and those that
    rest on a model alone are as wrong as it is.
    """
    if row is headline or row.interval is None or headline.interval is None:
        return False
    if not row.about.product or _weakness(row)[0]:
        return False
    return row.interval[0] > headline.interval[1] or row.interval[1] < headline.interval[0]


def _range(lower: float, upper: float) -> str:
    """The two ends in words."""
    if math.isfinite(lower) and math.isfinite(upper):
        return f"between {lower:+.4g} and {upper:+.4g}"
    return "which could be anything" if lower == -upper else f"from {lower:+.4g} to {upper:+.4g}"


def _weakness(estimate: Estimate) -> tuple[str, str]:
    """The reason why weights cannot carry a verdict, and the next step; empty where they can."""
    flags = estimate.flags
    mend = ALONE if "all-dropped" in flags else PROBABILITIES
    if estimate.ess is not None and estimate.ess < thresholds.FEW_EPISODES:
        few = f"Only {estimate.ess:.1f} of {estimate.n_episodes:,} episodes effectively carry the weights."
        return few, ALONE
    if "low-ess-undropped" in flags:
        return remark("low-ess-undropped", estimate.about), ALONE
    if "all-dropped" in flags and (estimate.bounds is None or estimate.bounds.disagreement is None):
        return "Nearly every step is dropped, and there is no other estimate to check the model by.", mend
    z = estimate.mean_weight_z
    if z is not None and not abs(z) <= thresholds.FAR_FROM_ONE:
        return f"Weights must average 1, and these are {z:+.1f} standard errors away from it.", mend
    return "", ""


def _difference(
    estimate: Estimate, baseline: Estimate | float, interval: tuple[float, float], difference: float
) -> tuple[float, float, str]:
    """The interval of estimate minus baseline, and how it was found."""
    if not isinstance(baseline, Estimate):
        return interval[0] - baseline, interval[1] - baseline, "interval of the estimate"
    # In the same table both come from the same episodes.
    paired = estimate.paired_std_error if baseline.about.naive else None
    if paired is not None:
        effective = estimate.n_episodes if estimate.ess is None else estimate.ess
        error = t_error(paired, effective, estimate.level)
        half = error + (estimate.bias_allowance or 0.0)
        # Pairing takes the propensities as known. Were they estimated from this log, weights near 1 would
        # make it far too sure of itself: never narrower than the interval of the estimate alone.
        lower = min(difference - half, interval[0] - baseline.value)
        upper = max(difference + half, interval[1] - baseline.value)
        return lower, upper, "paired by episode"
    if baseline.interval is None:
        return -math.inf, math.inf, "the baseline has no interval"
    return interval[0] - baseline.interval[1], interval[1] - baseline.interval[0], "two separate intervals"
