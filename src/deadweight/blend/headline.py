"""The headline in words: what a blend is made of, what contradicts it, and what would settle a question.

Numbers are those of `deadweight.blend.mixing`; nothing is computed from the log here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deadweight.basics.arithmetic import two_digits
from deadweight.blend.candidates import CROSS_FITTED, ROUNDING, SECOND_OPINION, WITHOUT_MODEL
from deadweight.results.blend import Blend

# Shares below this are not worth a word.
SMALL_SHARE = 0.01
# Nor is a contradiction that is no more than this share of the half-width.
WORTH_A_WORD = 0.1
# More episodes than this many times the log is no advice.
MOST_TIMES = 1000
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


@dataclass(frozen=True)
class Judgement:
    """What a blend says about a baseline.

    Attributes:
      answer: "better", "worse" or "cannot tell".
      difference: of the blend and the baseline.
      interval: of the difference.
      reasons: sentences.
      next_step: one sentence on what would settle it.
    """

    answer: str
    difference: float
    interval: tuple[float, float]
    reasons: tuple[str, ...]
    next_step: str


def judge(blend: Blend, baseline: float, n: int, known: bool, level: float = 0.95) -> Judgement:
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
    towards_zero = below if difference > 0 else above
    return Judgement(
        answer, difference, ends, tuple(reasons), next_step(answer, difference, towards_zero, blend, n)
    )


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
    """Which estimate differs from the blend, and by how much beyond noise."""
    if 0 < blend.missing >= blend.contradiction:
        return (
            "Episodes that the new policy would often have are missing in the log: the weights of those that "
            f"it has add up to too little, and the interval allows {blend.contradiction:.4g} for that."
        )
    if _is_sparse(blend):
        return (
            "The log is sparse: estimates that have seen their own episodes may share a bias of about "
            f"{blend.contradiction:.4g}, and the interval allows for it."
        )
    if blend.against is None:
        return (
            f"{SECOND_OPINION} ({WORDS[SECOND_OPINION]}) says something else, and the interval allows "
            f"{blend.contradiction:.4g} for that."
        )
    return difference_of(blend)


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
    if needed is None:
        if 0 < blend.missing >= blend.contradiction:
            return "Log more episodes, best with an old policy that acts more like the new one."
        if _is_sparse(blend):
            return "Log more episodes: the model has not seen enough to say how many."
        return (
            f"More episodes alone would not settle it: {blend.against or SECOND_OPINION} contradicts the "
            "other estimates. See first whether the states show everything that rewards and transitions "
            "depend on, and whether the logged probabilities are right."
        )
    return more_episodes(needed, n)


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


def _is_sparse(blend: Blend) -> bool:
    """Whether a bias that estimates share is the largest contradiction, and not noise between them."""
    other_model = max((part.beyond for part in blend.parts if part.name == SECOND_OPINION), default=0.0)
    bias = blend.shared_bias >= blend.contradiction
    return bias or (blend.against is None and other_model < blend.contradiction)


def _range(ends: tuple[float, float]) -> str:
    if not all(map(math.isfinite, ends)):
        return "which could be anything"
    return f"between {ends[0]:+.4g} and {ends[1]:+.4g}"


def rests_on_weights(blend: Blend) -> bool:
    """Whether nothing in it depends on the model."""
    return set(blend.shares) <= set(WITHOUT_MODEL)
