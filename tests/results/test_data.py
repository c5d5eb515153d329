"""Results are data: small, without the log, and of use in a process that never saw it."""

from __future__ import annotations

import pickle  # noqa: TID251 - results must survive it; nothing is kept in it
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from results.graph import held

import deadweight as dw
from deadweight.errors import DeadweightError, NotAsked
from deadweight.question.question import Question
from deadweight.sums.reduction import Stored

SMALL = 200_000
STATES, ACTIONS, STEPS = 300, 3, 50
ELSEWHERE = """
import pickle, sys
found = pickle.load(open(sys.argv[1], "rb"))
for name, one in found.items():
    print(name, one, one.to_dict() if hasattr(one, "to_dict") else "")
found["evaluation"].report(sys.argv[2])
"""


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Each kind of result for a log of a million steps."""
    rng = np.random.default_rng(1)
    n = 1_000_000
    log = dw.Trajectories(
        rng.integers(STATES, size=n),
        rng.integers(ACTIONS, size=n),
        rng.normal(size=n),
        np.arange(0, n + 1, STEPS),
    )
    pi_e, pi_b = rng.dirichlet(np.full(ACTIONS, 50.0), size=STATES), np.full((STATES, ACTIONS), 1 / ACTIONS)
    evaluation = dw.evaluate(log, pi_e, pi_b, ["BEHAVIOUR", "DM", "WPDIS", "C-WSPDIS"])
    return {
        "evaluation": evaluation,
        "verdict": evaluation.verdict,
        "estimate": dw.estimate("WSIS", log, pi_e, pi_b, drop=list(range(100))),
        "path": dw.epsilon_path("WSPDIS", log, pi_e, pi_b),
    }


def test_every_result_is_small(results: dict[str, Any]) -> None:
    sizes = {name: len(pickle.dumps(one)) for name, one in results.items()}
    assert all(size < SMALL for size in sizes.values()), sizes


def test_no_result_holds_the_log(results: dict[str, Any]) -> None:
    for name, one in results.items():
        for thing in held(one):
            assert not isinstance(thing, dw.Trajectories | Question | Stored), (name, type(thing))
            assert not callable(thing) or isinstance(thing, type), (name, thing)


def test_a_result_is_used_where_the_log_never_was(results: dict[str, Any], tmp_path: Path) -> None:
    with open(tmp_path / "results.pickle", "wb") as file:
        pickle.dump(results, file)
    page = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "results.pickle"), str(page)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(results["evaluation"]) in done.stdout
    assert repr(results["estimate"].to_dict()) in done.stdout
    results["evaluation"].report(tmp_path / "here.html")
    assert page.read_text(encoding="utf-8") == (tmp_path / "here.html").read_text(encoding="utf-8")


LOG = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0), (0, 0, 0.5)], [(0, 1, 2.0)]])
PI_E, PI_B = [[0.25, 0.75]], [[0.5, 0.5]]


def test_what_was_not_asked_for_says_how_to_ask() -> None:
    found = dw.estimate("WSPDIS", LOG, PI_E, PI_B, drop=[0], interval=None)
    for name in ("std_error", "bias", "ess_steps", "influence"):
        assert not hasattr(found, name)
        with pytest.raises(NotAsked, match=rf"no {name}.*\n.*also=\['{name}'\]"):
            getattr(found, name)
        asked = dw.estimate("WSPDIS", LOG, PI_E, PI_B, drop=[0], interval=None, also=[name])
        assert hasattr(asked, name)
    assert issubclass(NotAsked, DeadweightError)
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert not hasattr(again, "std_error")
    assert again.to_dict() == found.to_dict()
    assert found.to_dict()["std_error"] is None
    assert "WSPDIS" in repr(again)


def test_an_interval_asks_for_its_parts() -> None:
    found = dw.estimate("WSPDIS", LOG, PI_E, PI_B, drop=[0])
    assert np.isfinite(found.std_error)
    assert found.bias is not None
    assert len(found.ess_steps) == 2
    assert not hasattr(found, "influence")


def test_influence_is_that_of_the_standard_error() -> None:
    found = dw.estimate("WPDIS", LOG, PI_E, PI_B, also=["influence"])
    assert found.influence.sum() == pytest.approx(0.0, abs=1e-12)
    assert found.influence.std(ddof=1) / np.sqrt(3) == pytest.approx(found.std_error)


def test_a_part_that_does_not_exist() -> None:
    for also in (["std_eror"], "std_eror"):
        with pytest.raises(DeadweightError, match="Did you mean 'std_error'"):
            dw.estimate("WPDIS", LOG, PI_E, PI_B, also=also)


def test_a_report_without_its_background_says_how_to_ask(tmp_path: Path) -> None:
    found = dw.evaluate(LOG, PI_E, PI_B, ["WIS"], background=False)
    with pytest.raises(NotAsked, match=r"background=True"):
        found.report(tmp_path / "out.html")
    assert not (tmp_path / "out.html").exists()
    assert found.with_changes(n_episodes=7).n_episodes == 7


def test_the_paired_error_is_that_of_the_difference() -> None:
    rng = np.random.default_rng(2)
    actions = rng.integers(2, size=200)
    log = dw.Trajectories(np.zeros(200, int), actions, actions + rng.normal(size=200), np.arange(201))
    table = dw.evaluate(log, PI_E, PI_B, ["BEHAVIOUR", "WIS", "IS", "WDR"], also=["influence"])
    for name in ("WIS", "IS"):
        apart = table[name].influence - table["BEHAVIOUR"].influence
        expected = apart.std(ddof=1) / np.sqrt(200)
        assert table[name].paired_std_error == pytest.approx(expected, rel=1e-12)
    # A model that was fitted to these episodes is part of the noise.
    assert table["WDR"].paired_std_error is None
    assert dw.evaluate(log, PI_E, PI_B, ["WIS"], baseline=0.0)["WIS"].paired_std_error is None
