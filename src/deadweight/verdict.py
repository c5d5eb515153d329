"""The verdict: is the evaluation policy better than what was done, and how sure is that?

Estimate and baseline come from the same episodes, so that much of their noise is shared. Where both have
influence functions the verdict rests on the interval of their *difference*, with the covariance in it, and
at least as wide as that of the estimate alone; elsewhere the two intervals must not overlap. When in doubt
the answer is "cannot tell".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from deadweight.answers.plans import FEW_EPISODES
from deadweight.blend.headline import judge
from deadweight.inference.student_t import t_error
from deadweight.results import Estimate, Verdict, headline_of
from deadweight.results.blend import Blend

# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9
FAR_FROM_ONE = 3.0

Rule = Callable[[Estimate, Estimate | float], Verdict]


def verdict(estimate: Estimate, baseline: Estimate | float) -> Verdict:
    """Compare an estimate that has an interval with the behaviour policy, or with a number.

    Args:
      estimate: of the evaluation policy, with an interval.
      baseline: the estimate "BEHAVIOUR" of the same log with the same kind of interval, or a known value.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> from deadweight.estimate import evaluate
      >>> lift = deterministic_lift(7)
      >>> found = evaluate(lift.sample(1000), lift.pi_e, lift.pi_b, ["BEHAVIOUR", "C-WSPDIS"], drop=[1, 3])
      >>> verdict(found["C-WSPDIS"], found["BEHAVIOUR"]).answer
      'better'
    """
    interval = estimate.interval
    if interval is None:
        return Verdict("cannot tell", ("No interval was asked for.",), math.nan, (-math.inf, math.inf))
    if estimate.blend is not None:
        return _of_blend(estimate, estimate.blend, baseline)
    centre = estimate.centre
    if not math.isfinite(centre):
        why = f"{estimate.name} has no finite value: its weights leave the range of floating-point numbers."
        return Verdict("cannot tell", (why,), math.nan, (-math.inf, math.inf))
    value = baseline.value if isinstance(baseline, Estimate) else float(baseline)
    lower, upper, how = _difference(estimate, baseline, interval, centre - value)
    name = "the behaviour policy" if isinstance(baseline, Estimate) else "the baseline"
    numbers = (
        f"{estimate.name} puts the new policy at {centre:.4g} against {value:.4g} for {name}: a difference "
        f"of {centre - value:+.4g}, {_range(lower, upper)} with {estimate.level:.0%} confidence ({how})."
    )
    slack = ROUNDING * max(abs(centre), abs(value))
    weak = _weakness(estimate)
    if weak:
        return Verdict("cannot tell", (numbers, weak), centre - value, (lower, upper), sound=False)
    answer = "better" if lower > slack else "worse" if upper < -slack else "cannot tell"
    reasons = [numbers]
    if answer == "cannot tell":
        rounded = "" if lower <= 0.0 <= upper else ", up to rounding"
        reasons.append(f"The range includes zero{rounded}.")
    if "no-support" in estimate.flags:
        reasons.append("Actions that were never logged are left out of this comparison.")
    return Verdict(answer, tuple(reasons), centre - value, (lower, upper))


def _of_blend(estimate: Estimate, blend: Blend, baseline: Estimate | float) -> Verdict:
    """A blend has weighed all contradictions already, and knows its distance to the mean return."""
    known = not isinstance(baseline, Estimate)
    value = baseline.value if isinstance(baseline, Estimate) else float(baseline)
    found = judge(blend, value, estimate.n_episodes, known, estimate.level)
    ends = (found.difference - found.half_width, found.difference + found.half_width)
    return Verdict(found.answer, found.reasons, found.difference, ends, next_step=found.next_step)


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
    own = (rules or {}).get(headline.name)
    if own is not None:
        return own(headline, baseline)
    found = _doubted(estimates, headline, verdict(headline, baseline))
    if found.answer == "cannot tell" or headline.blend is not None:
        return found
    against = [
        name
        for name, other in estimates.items()
        if contradicts(other, headline) and verdict(other, baseline).answer != found.answer
    ]
    if not against:
        return found
    reason = (
        f"{' and '.join(against)} rule out what {headline.name} says: their intervals do not meet. "
        "One of them must be wrong, and the log does not tell which."
    )
    return replace(found, answer="cannot tell", reasons=(*found.reasons, reason), sound=False)


def _doubted(estimates: Mapping[str, Estimate], headline: Estimate, found: Verdict) -> Verdict:
    """The verdict with what the check of the model says first, where that is bad news."""
    flagged = [one for one in estimates.values() if "model-misfit" in one.flags]
    if not flagged or flagged[0].model_check is None:
        return found
    reason = flagged[0].model_check.reason
    if headline in flagged and headline.blend is None:  # a blend has left the model out already
        reason += f" {headline.name} rests on that model, and nothing can be concluded from it."
        return replace(found, answer="cannot tell", reasons=(reason, *found.reasons))
    reason += f" The verdict rests on {headline.name}, which does without the model."
    return replace(found, reasons=(reason, *found.reasons))


def contradicts(other: Estimate, headline: Estimate) -> bool:
    """Whether another estimate of the same policy, itself fit to be believed, lies apart from the headline.

    Only estimates by products of ratios count: the naive average is no estimate of the policy, and those that
    rest on a model alone are as wrong as it is.
    """
    if other is headline or other.interval is None or headline.interval is None:
        return False
    if not other.about.product or _weakness(other):
        return False
    return other.interval[0] > headline.interval[1] or other.interval[1] < headline.interval[0]


def _range(lower: float, upper: float) -> str:
    """The two ends in words."""
    if math.isfinite(lower) and math.isfinite(upper):
        return f"between {lower:+.4g} and {upper:+.4g}"
    return "which could be anything" if lower == -upper else f"from {lower:+.4g} to {upper:+.4g}"


def _weakness(estimate: Estimate) -> str:
    """Why the weights cannot carry a verdict; empty where they can."""
    if estimate.ess is not None and estimate.ess < FEW_EPISODES:
        return f"Only {estimate.ess:.1f} of {estimate.n_episodes:,} episodes effectively carry the weights."
    z = estimate.mean_weight_z
    if z is not None and not abs(z) <= FAR_FROM_ONE:
        return (
            f"Weights must average 1, and these are {z:+.1f} standard errors away from it: the propensities "
            "are wrong, or the episodes that matter most are not in the log."
        )
    return ""


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
