"""What a blend says in words, and what it advises."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import deadweight as dw
from deadweight.results.estimate import Blend, Part
from deadweight.verbs.verdict import judge

MADE = Blend(
    value=2.0,
    std_error=0.1,
    half_width=0.5,
    shares={"WDR": 0.25, "LIN": 0.005, "DM": 0.745},
    contradiction=0.0,
    shared_bias=0.0,
    against=None,
    baseline_error=0.75,
)


@pytest.mark.parametrize(
    ("baseline", "known", "answer"),
    [
        (1.2, False, "better"),
        (1.3, False, "cannot tell"),  # 0.7 is less than 0.75
        (1.3, True, "better"),  # and more than 0.5
        (2.8, False, "worse"),
        (2.0, False, "cannot tell"),
    ],
)
def test_answers(baseline: float, known: bool, answer: str) -> None:
    found = judge(MADE, baseline, 100, known)
    assert found.answer == answer
    assert found.difference == pytest.approx(2.0 - baseline)


def test_composition_names_what_counts() -> None:
    reasons = judge(MADE, 1.0, 100, known=True).reasons
    assert "74% DM" in reasons[1]
    assert "25% WDR (" in reasons[1]
    assert "LIN" not in reasons[1]


def test_more_episodes() -> None:
    """Half-width 0.75 against a difference of 0.25: three times as close, nine times the episodes."""
    found = judge(MADE, 1.75, 100, known=False)
    assert found.answer == "cannot tell"
    assert "About 900 episodes" in found.next_step
    assert "enough" in judge(MADE, 0.0, 100, known=False).next_step
    close = judge(MADE, 1.999, 100, known=False)
    assert "of reasonable size would settle it" in close.next_step


def test_a_contradiction_must_be_mended_first() -> None:
    parts = (Part("WIN2", 1.0, 0.1, 0.0, 0.4), Part("DM", 2.0, 0.1, 1.0, 0.1))
    torn = replace(MADE, contradiction=0.4, against="WIN2", half_width=0.9, baseline_error=1.15, parts=parts)
    found = judge(torn, 1.75, 100, known=False)
    assert "WIN2" in found.next_step
    assert "states show everything" in found.next_step
    assert any("WIN2" in reason and "0.4" in reason for reason in found.reasons)
    # A difference larger than the contradiction: (1.15 - 0.4) / (0.6 - 0.4) squared is 14.0625.
    assert "About 1,500 episodes" in judge(torn, 1.4, 100, known=False).next_step


def test_what_weights_are_not_sure_of_is_no_contradiction() -> None:
    """All of the distance to LIN counts, and it is no more than noise: more episodes, and nothing to mend."""
    parts = (Part("LIN", 1.5, 0.5, 0.1, 0.5), Part("DM", 2.0, 0.1, 0.9, 0.0))
    unsure = replace(MADE, contradiction=0.5, half_width=0.8, baseline_error=0.8, parts=parts)
    found = judge(unsure, 1.8, 100, known=False)
    said = next(reason for reason in found.reasons if reason.startswith("LIN"))
    assert said.endswith(
        "is not sure by itself whether the new policy is better, and the interval allows 0.5 for that."
    )
    assert found.next_step.startswith("Log more episodes: what weights say of the direction")
    contradicted = judge(replace(unsure, against="LIN"), 1.8, 100, known=False)
    assert any("differs from it by more than noise explains" in reason for reason in contradicted.reasons)


def test_without_an_interval_there_is_no_verdict() -> None:
    blind = replace(MADE, half_width=math.inf, baseline_error=math.inf)
    found = judge(blind, 0.0, 3, known=False)
    assert found.answer == "cannot tell"
    assert "could be anything" in found.reasons[0]


def test_a_misspelt_action_is_among_the_reasons() -> None:
    log = dw.Trajectories.from_episodes(
        [[("mild", "air", 1.0)], [("mild", "oxygen", 0.0)]] * 40 + [[("grave", "oxygen", 1.0)]] * 40
    )
    rule = {"mild": "air", "grave": "oxigen"}
    old = dw.estimate_behaviour(log)
    assert any("spelt as in the log" in one for one in dw.evaluate(log, rule, old).verdict.reasons)
    right = {**rule, "grave": "oxygen"}
    assert not any("spelt as in the log" in one for one in dw.evaluate(log, right, old).verdict.reasons)
