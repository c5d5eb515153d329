"""The headline in words: what a blend is made of, what contradicts it, and what would settle a question.

Numbers are those of `deadweight.blend.mixing`; nothing is computed from the log here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from deadweight.blend.mixing import CROSS_FITTED
from deadweight.results.blend import Blend

# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9
# Shares below this are not worth a word.
SMALL_SHARE = 0.01
# Nor is a contradiction that is no more than this share of the half-width.
WORTH_A_WORD = 0.1
# More episodes than this many times the log is no advice.
MOST_TIMES = 1000
WORDS = {
    "WDR": "doubly robust with all ratios",
    "WDRSIS": "doubly robust with negligible states dropped",
    "WIN3": "doubly robust with the latest three ratios",
    "WIN2": "doubly robust with the latest two ratios",
    "DM": "the fitted model alone",
    "WPDIS": "per-decision weights without a model",
    "WIS": "whole-episode weights without a model",
    CROSS_FITTED[0]: "doubly robust with models fitted on other episodes",
    CROSS_FITTED[1]: "the same with negligible states dropped",
}


@dataclass(frozen=True)
class Judgement:
    """What a blend says about a baseline.

    Attributes:
      answer: "better", "worse" or "cannot tell".
      difference: of the blend and the baseline.
      half_width: of the interval of the difference.
      reasons: sentences.
      next_step: one sentence on what would settle it.
    """

    answer: str
    difference: float
    half_width: float
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
    half = blend.half_width if known else blend.baseline_error
    difference = blend.value - baseline
    slack = ROUNDING * max(abs(blend.value), abs(baseline))
    answer = "cannot tell"
    if abs(difference) > half + slack:
        answer = "better" if difference > 0 else "worse"
    name = "the baseline" if known else "the behaviour policy"
    numbers = (
        f"BLEND puts the new policy at {blend.value:.4g} against {baseline:.4g} for {name}: a difference of "
        f"{difference:+.4g}, {_range(difference, half)} with {level:.0%} confidence."
    )
    reasons = [numbers, composition(blend)]
    if blend.contradiction > WORTH_A_WORD * blend.half_width:
        reasons.append(objection(blend))
    if answer == "cannot tell":
        reasons.append("No difference at all lies within that range.")
    return Judgement(answer, difference, half, tuple(reasons), next_step(answer, difference, half, blend, n))


def composition(blend: Blend) -> str:
    """What the blend is made of, the largest share first."""
    parts = sorted(((share, name) for name, share in blend.shares.items()), reverse=True)
    named = [f"{share:.0%} {name} ({WORDS[name]})" for share, name in parts if share >= SMALL_SHARE]
    return f"It is made of {', '.join(named)}."


def objection(blend: Blend) -> str:
    """Which estimate differs from the blend, and by how much beyond noise."""
    if blend.against is None or blend.shared_bias >= blend.contradiction:
        return (
            f"The log is sparse: leaving out parts of it shows a bias of about {blend.contradiction:.4g} "
            "that all estimates share, and the interval is wider by as much."
        )
    return (
        f"{blend.against} ({WORDS[blend.against]}) differs from it by {blend.contradiction:.4g} more than "
        "noise explains, and the interval is wider by as much."
    )


def next_step(answer: str, difference: float, half: float, blend: Blend, n: int) -> str:
    """What would settle the question: more episodes, or something to mend first."""
    if answer != "cannot tell":
        return f"Nothing is missing: {n:,} episodes are enough for this answer."
    if not math.isfinite(half):
        return "Log more episodes: too few carry any information to say how many are needed."
    sampling = half - blend.contradiction
    room = abs(difference) - blend.contradiction
    if room <= 0:
        if blend.against is None or blend.shared_bias >= blend.contradiction:
            return "Log more episodes: the model has not seen enough to say how many."
        return (
            f"More episodes alone would not settle it: {blend.against} contradicts the other estimates. See "
            "first whether the states show everything that rewards and transitions depend on, and whether "
            "the propensities are right."
        )
    needed = math.ceil(n * (sampling / room) ** 2)
    if needed > MOST_TIMES * n:
        return "The two policies are so close that no log of reasonable size would tell them apart."
    return (
        f"About {_rounded(needed):,} episodes of the same kind would settle it, if the difference is what it "
        "seems."
    )


def _rounded(number: int) -> int:
    """Up to two digits, for nobody knows more of it."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return -(-number // unit) * unit


def _range(difference: float, half: float) -> str:
    if not math.isfinite(half):
        return "which could be anything"
    return f"between {difference - half:+.4g} and {difference + half:+.4g}"
