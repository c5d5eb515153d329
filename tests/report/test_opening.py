"""Every page opens alike: an answer, what it means on which condition, and sentences that are true of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from evaluations import lift

import deadweight as dw
from deadweight.report.page import ONLY_IF, range_says

RIDES = dw.domains.stochastic_lift(7)
LOG = RIDES.sample(1000, seed=0)


def opened(page: Path) -> str:
    """The first section of a page as text."""
    first = page.read_text(encoding="utf-8").split('<section id="verdict"')[1].split("</section>")[0]
    return re.sub(r"<[^>]+>", " ", first)


def improvement(gate: bool = True) -> dw.Improvement:
    return dw.improve(LOG, RIDES.pi_b, gate=gate, evaluation=False)


def comparison(**policies: object) -> dw.Comparison:
    return dw.compare(LOG, policies or {"new": RIDES.pi_e, "as now": RIDES.pi_b}, RIDES.pi_b)


@pytest.mark.parametrize("made", [lift, improvement, comparison])
def test_a_page_opens_with_what_it_means_and_on_which_condition(made, tmp_path):
    said = opened(made().report(tmp_path / "page.html", reward="points a ride"))
    for words in ("1,000 episodes in which the old policy acted", "points a ride", ONLY_IF, "Why"):
        assert words in said, words


def test_a_comparison_without_a_winner_says_so(tmp_path):
    found = comparison(one=RIDES.pi_b, other=RIDES.pi_b)
    said = opened(found.report(tmp_path / "page.html"))
    assert "No recommendation" in said
    assert "is better." not in said


def test_an_improvement_says_how_sure_it_is(tmp_path):
    found = improvement()
    said = opened(found.report(tmp_path / "a.html"))
    assert f"In {len(found.changes)} of {found.n_states} states" in said
    assert "of the policy that is shipped" in said
    unproven = opened(improvement(gate=False).report(tmp_path / "b.html"))
    assert "look better than they are" in unproven
    assert "at least" not in unproven.split("Why")[0]
    assert "each end holds" not in unproven
    same = dw.improve(RIDES.sample(12, seed=0), RIDES.pi_b, evaluation=False)
    kept = opened(same.report(tmp_path / "c.html"))
    assert same.answer == "no change"
    assert "everything stays as it is" in kept


@pytest.mark.parametrize(
    ("answer", "interval", "words"),
    [
        ("better", (1.0, 2.0), "a gain, so it is better"),
        ("worse", (-2.0, -1.0), "a loss, so it is worse"),
        ("cannot tell", (-1.0, 2.0), "room for a gain and for a loss"),
        ("cannot tell", (-2.0, -1.0), "cannot be trusted here"),
    ],
)
def test_what_a_range_says(answer, interval, words):
    assert words in range_says(dw.Verdict(answer, (), sum(interval) / 2, interval), "it")
