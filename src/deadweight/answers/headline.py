"""BLEND as an estimate and in words: its interval and flags, what it says of a baseline, what is to be done.

Numbers are those of `deadweight.answers.blend`.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from deadweight.answers.answering import Answers, Misfit
from deadweight.answers.blend import CROSS_FITTED, ROUNDING, SECOND_OPINION, WITHOUT_MODEL, Evidence, Mixture
from deadweight.answers.candidates import checked
from deadweight.answers.plans import Plan, plan_of
from deadweight.answers.rounds import carry_out
from deadweight.answers.student_t import centred_influences
from deadweight.answers.trust import confounding_of
from deadweight.errors import EstimationError
from deadweight.estimators.estimator import MODEL
from deadweight.estimators.influence import Influence
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import Question
from deadweight.results.estimate import Blend, Estimate, Interval
from deadweight.results.evaluation import Verdict
from deadweight.results.saved import ABSENT
from deadweight.sums.blocks import Block
from deadweight.tools.arithmetic import two_digits
from deadweight.typing import FloatArray

# An allowance for episodes that are not in the log is worth a flag from this share of the half-width.
MUCH = 0.5
# Shares below this are not worth a word.
SMALL_SHARE = 0.01
# Nor is a contradiction that is no more than this share of the half-width.
WORTH_A_WORD = 0.1
# More episodes than this many times the log is no advice.
MOST_TIMES = 1000
# What an interval may allow for, beside estimates that contradict.
MISSING, SPARSE = "missing weight", "sparse log"
WORDS = {
    "WDR": "doubly robust with all ratios",
    "LIN": "doubly robust with all ratios, one at a time",
    "WIN3": "doubly robust with the latest three ratios",
    "WIN2": "doubly robust with the latest two ratios",
    "WIN1": "the given values, corrected by the latest ratio",
    "DM": "the fitted model alone",
    "WPDIS": "per-decision weights without a model",
    "WIS": "whole-episode weights without a model",
    CROSS_FITTED: "doubly robust with models fitted on other episodes",
    SECOND_OPINION: "the model that is used if none is chosen, alone",
    # In results that earlier versions have saved.
    "WDRSIS": "doubly robust with negligible states dropped",
    "WDRSIS cross-fitted": "doubly robust with negligible states dropped and models of other episodes",
}


def check_blend(question: Question, name: str) -> None:
    """Refuse a blend that cannot be made, before any work is done."""
    question.pi_e(name)
    if not question.can_solve_model:
        raise EstimationError(
            f"{name} needs the action values of all {question.horizon:,} steps, and there are too many "
            "states for that.",
            fix="Use WPDIS or WIS, which need no model.",
        )


def blend_estimate(
    answers: Answers,
    plan: Plan,
    gathered: Evidence,
    interval: str | None,
    level: float,
    influence: bool = False,
) -> Estimate:
    """The blend of a question.

    Args:
      answers: sums that are there already are not made again.
      plan: of the blend.
      gathered: the estimates to mix.
      interval: None for none; a blend has one kind only.
      level: confidence level.
      influence: whether that of each episode is wanted.
    """
    question, misfit, confounding = plan.question, _model_check(answers), confounding_of(answers)
    misfits, confounded = misfit is not None and misfit.found, confounding is not None and confounding.found
    lost = misfits or confounded or question.has_mixed_worlds  # one world is what a model is of
    evidence = checked(question, answers, gathered, lost)
    mixture = Mixture(evidence)
    blend = mixture.at(level)
    marks = {
        "model-misfit": misfits,
        "confounded-model": confounded,
        "missing-weight": blend.missing > MUCH * blend.half_width,
        "heavy-reward": max(blend.skewed) > WORTH_A_WORD * blend.half_width,
        "contradicted": blend.against is not None,
    }
    return Estimate(
        about=plan.estimator.about,
        value=blend.value,
        n_episodes=question.n,
        level=level,
        bounds=None if interval is None else _bounds(blend),
        ess=None,
        flags=tuple(flag for flag, found in marks.items() if found),
        model_check=misfit,
        blend=blend,
        std_error=blend.std_error,
        bias=0.0,
        ess_steps=None,
        influence=centred_influences(question, _influence(evidence, mixture.mix)) if influence else ABSENT,
    )


def _influence(evidence: Evidence, shares: FloatArray) -> Influence:
    """Of an episode on the mix, with its shares as they are."""
    parts = [pair for pair in zip(shares.tolist(), evidence.influences, strict=True) if pair[0]]
    return partial(_mixed_influence, parts)


def _mixed_influence(parts: list[tuple[float, Influence]], block: Block) -> FloatArray:
    return sum((share * influence(block) for share, influence in parts), start=np.zeros(block.n))


def _model_check(answers: Answers) -> Misfit | None:
    """The check of the model, made before or now."""
    model_alone = plan_of(answers.question, MODEL.variant(), NOTHING_DROPPED)
    known = answers.misfit(model_alone)
    if known is not None:
        return known
    checks = Answers(answers.question, [model_alone])
    carry_out(answers.question, checks.std_errors())
    return checks.misfit(model_alone)


def _bounds(blend: Blend) -> Interval:
    below, above = blend.half_widths
    return Interval(
        blend.value - below,
        blend.value + above,
        blend.half_width - (allowed := blend.contradiction if math.isfinite(blend.half_width) else 0.0),
        allowed,
        kind="blend",
        covers="V(pi_e)",
        centre=blend.value,
        std_error=blend.std_error,
        disagreement=blend.contradiction,
    )


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
    slack = ROUNDING * max(abs(blend.value), abs(baseline))
    answer = "better" if ends[0] > slack else "worse" if ends[1] < -slack else "cannot tell"
    name = "the baseline" if known else "the old policy"
    numbers = (
        f"BLEND puts the new policy at {blend.value:.4g} against {baseline:.4g} for {name}: a difference of "
        f"{difference:+.4g}, {_range(ends)} with {level:.0%} confidence."
    )
    reasons = [numbers, composition(blend), *_unseen_error(blend)]
    if blend.contradiction > WORTH_A_WORD * blend.half_width:
        reasons.append(objection(blend))
    if blend.against is not None and difference_of(blend) not in reasons:
        reasons.append(difference_of(blend))
    if answer == "cannot tell":
        reasons.append("The range includes zero.")
    step = next_step(answer, difference, below if difference > 0 else above, blend, n)
    return Verdict(answer, tuple(reasons), difference, ends, next_step=step)


def composition(blend: Blend) -> str:
    """What the blend is made of, the largest share first."""
    parts = sorted(((share, name) for name, share in blend.shares.items()), reverse=True)
    named = [f"{share:.0%} {name} ({WORDS[name]})" for share, name in parts if share >= SMALL_SHARE]
    return f"It is made of {', '.join(named)}."


def _unseen_error(blend: Blend) -> list[str]:
    """How much of it rests on the model alone, and how wrong that may be without anybody seeing it."""
    share = blend.shares.get("DM", 0.0)
    if share < SMALL_SHARE:
        return []
    if not math.isfinite(blend.undetectable):
        return ["It rests on the fitted model alone, and nothing in the log can show whether that is wrong."]
    return [
        f"It rests on the fitted model for {share:.0%}, and the log could not show an error of that model "
        f"below {blend.undetectable:.2g}."
    ]


def objection(blend: Blend) -> str:
    """What the interval allows for most, and how much that is."""
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
        return difference_of(blend)
    if cause == "LIN":
        return f"{cause} ({WORDS[cause]}) is not sure by itself whether the new policy is better, {allowed}"
    return f"{cause} ({WORDS[cause]}) says something else, {allowed}"


def _cause(blend: Blend) -> str:
    """What the interval allows for most: `MISSING` weight, a `SPARSE` log, or the name of an estimate."""
    if 0 < blend.missing >= blend.contradiction:
        return MISSING
    if blend.shared_bias >= blend.contradiction:
        return SPARSE
    farthest = max(blend.parts, key=lambda part: part.beyond).name
    return SPARSE if farthest == CROSS_FITTED != blend.against else farthest


def difference_of(blend: Blend) -> str:
    """How far the estimate that differs most lies from the blend."""
    assert blend.against is not None
    beyond = next((part.beyond for part in blend.parts if part.name == blend.against), blend.contradiction)
    return (
        f"{blend.against} ({WORDS[blend.against]}) differs from it by more than noise explains, "
        f"and the interval allows {beyond:.4g} for that."
    )


def next_step(answer: str, difference: float, half: float, blend: Blend, n: int) -> str:
    """What would settle the question: more episodes, or something to mend first."""
    if answer != "cannot tell":
        return f"No more episodes are needed: {n:,} are enough for this answer."
    if not math.isfinite(half):
        return "Log more episodes: too few carry any information to say how many are needed."
    needed = episodes_needed(difference, half, blend.contradiction, n)
    if needed is not None:
        return more_episodes(needed, n)
    if difference == 0.0 == blend.contradiction:
        return "The log shows no difference at all: see whether what the policies differ in occurs in it."
    cause = _cause(blend)
    if cause == MISSING:
        return "Log more episodes, best with an old policy that acts more like the new one."
    if cause == SPARSE:
        return "Log more episodes: the model has not seen enough to say how many."
    if cause == "LIN" != blend.against:
        return "Log more episodes: what weights say of the direction is no more than noise so far."
    return (
        f"More episodes alone would not settle it: {cause} contradicts the other estimates. See first "
        "whether the states show everything that rewards and transitions depend on, and whether the logged "
        "probabilities are right."
    )


def episodes_needed(difference: float, half: float, fixed: float, n: int) -> float | None:
    """How many episodes would make the interval of a difference leave zero, if the difference stays.

    The part of the half-width that is `fixed` does not shrink with more episodes; None where it is larger
    than the difference.
    """
    room = abs(difference) - fixed
    return math.ceil(n * ((half - fixed) / room) ** 2) if room > 0 else None


def more_episodes(needed: float, n: int) -> str:
    """The advice to log so many episodes."""
    if needed > MOST_TIMES * n:
        return (
            "What the log shows of a difference is far smaller than what it leaves open: no log of its kind "
            "and of reasonable size would settle it."
        )
    return (
        f"About {two_digits(int(needed)):,} episodes of the same kind would settle it, if the difference is "
        "what it seems."
    )


def _range(ends: tuple[float, float]) -> str:
    if not all(map(math.isfinite, ends)):
        return "which could be anything"
    return f"between {ends[0]:+.4g} and {ends[1]:+.4g}"


def rests_on_weights(blend: Blend) -> bool:
    """Whether nothing in it depends on the model."""
    return set(blend.shares) <= set(WITHOUT_MODEL)
