"""What this means: the paragraph says what the numbers say, and nothing that is not so."""

from __future__ import annotations

import math

import pytest
from evaluations import lift

from deadweight.report.markup import significant
from deadweight.report.page import meaning
from deadweight.results import Verdict


def told(answer: str, interval: tuple[float, float], sound: bool = True, next_step: str | None = None) -> str:
    verdict = Verdict(answer, (), sum(interval) / 2, interval, sound, next_step)
    return " ".join(meaning(lift().with_changes(verdict=verdict), significant, "euros a day"))


@pytest.mark.parametrize(
    ("answer", "interval", "words"),
    [
        ("better", (1.0, 2.0), "all of that range is a gain"),
        ("worse", (-2.0, -1.0), "all of that range is a loss"),
        ("cannot tell", (-1.0, 2.0), "room for a gain and for a loss"),
        ("cannot tell", (1.0, 2.0), "cannot be trusted here"),
    ],
)
def test_the_answer_is_said_in_words_that_are_true(
    answer: str, interval: tuple[float, float], words: str
) -> None:
    said = told(answer, interval, sound=words != "cannot be trusted here", next_step="Log more.")
    assert words in said
    assert "1,000 episodes" in said
    assert "euros a day" in said
    assert ("Log more." in said) == (answer == "cannot tell")


def test_without_an_interval_no_range_is_claimed() -> None:
    assert "between" not in told("cannot tell", (-math.inf, math.inf))
