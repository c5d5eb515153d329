"""`deadweight demo`: the story, its numbers, and that its verdicts agree with the truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deadweight.cli import run
from deadweight.cli.demo import WARD_NAMES, is_right
from deadweight.domains import CALM, EARLY, OLD, RULES, WAIT, ward


def test_the_truth_about_the_rules():
    """By a system of equations written down by hand: the chance to go home from each state."""
    for rule in (OLD, *RULES):
        feverish, worsening = rule.treats[2], rule.treats[3]
        p = {"fs": 0.30 + 0.25 * feverish, "ff": 0.35 - 0.05 * feverish, "fw": 0.35 - 0.20 * feverish}
        p |= {"wr": 0.30 + 0.30 * worsening, "ww": 0.35 - 0.10 * worsening}
        # Unknown: stable, frail, feverish, worsening.
        system = np.array(
            [
                [1 - 0.78, 0, -0.10, 0],
                [-0.15, 1 - 0.80, 0, -0.05],
                [-p["fs"], 0, 1 - p["ff"], -p["fw"]],
                [0, -p["wr"], 0, 1 - p["ww"]],
            ]
        )
        home = np.linalg.solve(system, [0.12, 0, 0, 0])
        assert ward().truth(rule) == pytest.approx(home @ [0.2, 0.2, 0.5, 0.1], rel=1e-12)
    assert ward().truth(WAIT) < ward().truth(OLD) < ward().truth(CALM) < ward().truth(EARLY)


def test_a_verdict_is_right_if_it_agrees_with_the_truth():
    assert is_right(ward(), EARLY, "better")
    assert not is_right(ward(), EARLY, "worse")
    assert is_right(ward(), WAIT, "worse")
    assert not is_right(ward(), WAIT, "better")
    assert is_right(ward(), CALM, "cannot tell")


def test_the_demo_is_right_and_marks_the_truth(tmp_path: Path, capsys):
    report = tmp_path / "report.html"
    assert run(["demo", "--logs", "2", "--report", str(report), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    answers = {name: one["verdict"]["answer"] for name, one in shown["policies"].items()}
    assert answers == {"treat early": "better", "wait and see": "worse", "calm days": "cannot tell"}
    assert all(one["right"] for one in shown["policies"].values())
    assert set(shown["intervals"]) == set(WARD_NAMES)
    assert all(one["of"] == 6 for one in shown["intervals"].values())
    page = report.read_text(encoding="utf-8")
    assert "the truth (simulated)" in page
    assert "share of patients who go home well" in page


def test_the_story_names_what_is_dropped(tmp_path: Path, capsys):
    assert run(["demo", "--logs", "1", "--report", str(tmp_path / "report.html")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "when a patient is feverish, frail or stable" in shown
    assert "Verdicts that are wrong: 0 of 3." in shown


def test_the_lift_stays(tmp_path: Path, capsys):
    arguments = ["demo", "--domain", "lift", "--size", "7", "--episodes", "200", "--logs", "2"]
    assert run([*arguments, "--report", str(tmp_path / "report.html"), "--json"]) == 0
    assert {"truth", "rmse", "estimates"} <= set(json.loads(capsys.readouterr().out))
    assert run(["demo", "--domain", "lft"]) == 2
    assert "Did you mean 'lift'?" in capsys.readouterr().err
