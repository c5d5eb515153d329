"""Intervals that say nothing: more than a thousand times as wide as the logged returns lie apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.intervals import WIDEST, determined
from deadweight.results import Interval

FAR = (-np.inf, np.inf)


def of_width(width: float) -> Interval:
    return Interval(2.0 - width / 2, 2.0 + width / 2, width / 2, 0.0, "auto", "V(pi_e)", 2.0)


def test_a_thousand_times_the_spread_is_the_widest() -> None:
    assert determined(of_width(WIDEST * 3.0), 3.0) == of_width(WIDEST * 3.0)
    beyond = determined(of_width(WIDEST * 3.0 + 1e-6), 3.0)
    assert (beyond.lower, beyond.upper, beyond.sampling_error) == (*FAR, np.inf)
    assert beyond.is_undetermined
    assert not determined(of_width(5.0), 0.0).is_undetermined  # returns that are all equal have no spread
    half = Interval(-np.inf, 1.0, np.inf, 0.0, "auto", "V(pi_e)", 0.0)
    assert determined(half, 0.0).is_undetermined


def wild() -> tuple[dw.Trajectories, list[list[float]], list[list[float]]]:
    """Thirty steps with ratios of nearly ten or a tenth: IS is off by many powers of ten."""
    rng = np.random.default_rng(3)
    episodes = [[(0, int(a), float(a)) for a in rng.random(30) < 0.6] for _ in range(50)]
    return dw.Trajectories.from_episodes(episodes), [[0.05, 0.95]], [[0.9, 0.1]]


def digits(text: str) -> bool:
    return any(f"e+{power:02d}" in text or f"e{power}" in text for power in range(8, 99))


@pytest.fixture(scope="module")
def table() -> dw.Evaluation:
    return dw.evaluate(*wild(), ["BEHAVIOUR", "IS", "WIS"])


def test_a_wild_estimate_has_no_interval_to_speak_of(table: dw.Evaluation) -> None:
    for est in (table["IS"], dw.estimate("IS", *wild())):
        assert est.interval == FAR
        assert "undetermined" in est.flags
        assert "undetermined" in repr(est)
        assert "undetermined" in est._repr_html_()
    row = next(row for row in table.rows() if row[0] == "IS")
    assert row[2] == "undetermined"
    assert table["IS"].to_dict()["interval"] == [None, None]
    assert table["BEHAVIOUR"].interval != FAR


def test_possible_returns_bound_it(table: dw.Evaluation) -> None:
    """Whoever knows the range of returns knows more than a thousand times their spread."""
    est = dw.estimate("IS", *wild(), return_range=(0.0, 1e9))
    assert est.interval[0] >= 0.0
    assert est.interval[1] <= 1e9
    assert "undetermined" not in est.flags


def test_it_is_saved_and_read_again(table: dw.Evaluation, tmp_path: Path) -> None:
    read = dw.load(table.save(tmp_path / "ev.json"))
    assert read["IS"].interval == FAR
    assert json.loads(json.dumps(table.to_dict()))["estimates"]["IS"]["interval"] == [None, None]


def test_the_verdict_says_so_without_digits(tmp_path: Path) -> None:
    found = dw.evaluate(*wild(), ["BEHAVIOUR", "IS"])
    assert found.verdict.answer == "cannot tell"
    assert not digits(" ".join(found.verdict.sentences))
    assert not any("No more episodes" in said for said in found.verdict.sentences)
    page = found.report(tmp_path / "page.html").read_text()
    assert "undetermined" in page


def test_one_episode_with_all_the_weight_prints_the_same_way() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 2.0)]])
    found = dw.estimate("WIS", log, [[0.0, 1.0]], [[0.5, 0.5]])
    assert found.interval == FAR
    assert "undetermined" in found.flags
    assert "undetermined" in repr(found)
