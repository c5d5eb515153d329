"""Results in a notebook: tables that cannot break out, figures of what the numbers say."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest
from evaluations import ODD, hostile, lift

import deadweight as dw
from deadweight.diagnostics import state_report
from deadweight.errors import MissingExtra

PROBLEM = dw.domains.stochastic_lift(7)
LOG = PROBLEM.sample(200, seed=0)


class Tags(HTMLParser):
    """Collects the tags of a document, and checks that they close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("made", [lift, hostile, *ODD.values()])
def test_the_table_of_an_evaluation(made) -> None:
    found = made()
    text = found._repr_html_()
    tags = Tags(text)
    assert tags.open == []
    assert tags.seen <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td", "p"}
    assert len(text) < 20_000
    assert f"Verdict: {found.verdict.answer}" in text
    assert not re.search(r"color:\s*#|background:\s*#", text)  # the notebook's own colours, light or dark


def test_estimates_and_paths_have_tables_too() -> None:
    estimate = dw.estimate("WIS", LOG, PROBLEM.pi_e, PROBLEM.pi_b)
    path = dw.epsilon_path("WSPDIS", LOG, PROBLEM.pi_e, PROBLEM.pi_b)
    for found, words in (
        (estimate, "whole-episode weights, self-normalised"),
        (path, "Epsilon path of WSPDIS"),
    ):
        text = found._repr_html_()
        assert Tags(text).open == []
        assert words in text
    nasty = estimate.with_changes(about=dw.Estimator("<b>x</b>", terms=lambda *given: []).about)
    assert "<b>" not in nasty._repr_html_()


def test_the_figures_show_the_numbers() -> None:
    found = dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b)
    (axes,) = found.plot().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(found)
    points = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert points == [found[name].value for name in found]
    ends = {tuple(line.get_xdata()) for line in axes.lines}
    assert found["WIS"].interval in ends
    assert _legend(axes) == ["behind the verdict", "baseline"]
    assert dw.estimate("WIS", LOG, PROBLEM.pi_e, PROBLEM.pi_b).plot().axes
    path = dw.epsilon_path("WSPDIS", LOG, PROBLEM.pi_e, PROBLEM.pi_b)
    assert len(path.plot().axes) == 2
    assert list(path.to_frame()["n_dropped"]) == path.n_dropped.tolist()


def test_names_of_states_do_not_lie_on_each_other() -> None:
    lift = dw.domains.stochastic_lift(17)
    figure = state_report(lift.sample(1000, seed=0), lift.pi_e, lift.pi_b).plot()
    (axes,) = figure.axes
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) > 2
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert _legend(axes) == ["kept"]


def _legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"deadweight\[figures\]"):
        ODD["equal policies"]().plot()
