"""`deadweight benchmark` on tiny problems: what it prints. Its numbers are not tests."""

from __future__ import annotations

import json
import sys
import time
import types
from importlib import metadata, util
from threading import Thread

import numpy as np
import pytest
from deadweight_studies.benchmark.cases import CASES, SCOPE_RL, fastest, slope
from deadweight_studies.benchmark.timing import Ratio, ratio

from deadweight.cli import main

SCALE = "0.002"


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["deadweight", "benchmark", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return run


def test_head_and_table(run):
    code, out, err = run("--only", "incremental", "--scale", SCALE)
    assert code == 0
    head = out.splitlines()[0]
    for word in ("deadweight ", "Python ", f"numpy {np.__version__}", "scipy ", "machine ", "cores", "date "):
        assert word in head
    assert "INCRIS(10) against PDIS" in out
    assert "at most 60x" in out
    assert err.startswith("incremental ...")


def test_one_json_document(run):
    _, out, _ = run("--only", "one-liners,start-up", "--scale", SCALE, "--json")
    found = json.loads(out)
    assert {"deadweight", "Python", "numpy", "scipy", "machine", "date", "scale"} < set(found)
    assert [one["case"] for one in found["results"]] == ["one-liners"] * 3 + ["start-up"] * 2
    assert set(found["results"][0]) == {"case", "name", "measured", "aim"}


def test_an_unknown_case_is_refused_with_a_proposal(run):
    code, _, err = run("--only", "bootstrp")
    assert code == 2
    assert "bootstrap" in err


@pytest.mark.parametrize("case", ["bootstrap", "q-gaps", "growth", "features"])
def test_cases_run(case):
    for result in CASES[case](float(SCALE)):
        assert result.name
        assert result.measured
        assert result.aim


def test_growth_counts_the_work_of_all_threads():
    """A long log has threads of its own, and whoever waits for them spends next to nothing."""

    def spin():
        ends = time.thread_time() + 0.05
        while time.thread_time() < ends:
            pass

    def elsewhere():
        worker = Thread(target=spin)
        worker.start()
        worker.join()

    assert fastest([elsewhere], runs=1)[0] >= 0.05


def test_peers_that_are_not_installed_are_one_line(monkeypatch):
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    (only,) = CASES["peers"](float(SCALE))
    assert only.measured == "not installed"


def test_peers_are_timed_only_where_they_agree(monkeypatch):
    """A stand-in with SCOPE-RL's signature whose WPDIS is another number."""

    class StandIn:
        def estimate_policy_value(
            self, step_per_trajectory, action, reward, pscore, evaluation_policy_action_dist
        ):
            rho = evaluation_policy_action_dist[np.arange(len(action)), action] / pscore
            w, r = (x.reshape(-1, step_per_trajectory) for x in (rho, reward))
            return (w.prod(axis=1) * r.sum(axis=1)).mean()

    module = types.SimpleNamespace(**dict.fromkeys(SCOPE_RL.values(), StandIn))
    monkeypatch.setattr(util, "find_spec", lambda name: object())
    monkeypatch.setattr(metadata, "version", lambda name: "0.0")
    monkeypatch.setattr("deadweight_studies.benchmark.cases.import_module", lambda name: module)
    tables, columns, *others = CASES["peers"](float(SCALE))
    assert "from tables" in tables.name
    assert "from columns" in columns.name
    assert "x (" in tables.measured
    assert "x (" in columns.measured
    assert all("disagree" in other.measured for other in others)


def test_ratios_are_quartiles_and_turn_over():
    found = ratio(lambda: sum(range(20_000)), lambda: sum(range(2_000)), rounds=5)
    assert 1 < found.low <= found.median <= found.high
    assert Ratio(2, 4, 8).inverse == Ratio(0.125, 0.25, 0.5)
    assert Ratio(2, 4, 8).times(0.5) == Ratio(1, 2, 4)
    assert str(Ratio(9.876, 12.34, 1234.5)) == "12.3x (9.88 to 1,234)"


def test_slope_of_known_growth(monkeypatch: pytest.MonkeyPatch):
    clock = [0.0]  # that goes by the work and not by the machine

    def work(size: int):
        def run() -> None:
            clock[0] += 2.0 + 0.5 * size**1.5

        return run

    monkeypatch.setattr("deadweight_studies.benchmark.cases.time.process_time", lambda: clock[0])
    by_size = {size: work(size) for size in (50, 100, 200)}
    assert slope(by_size, fixed=2.0) == pytest.approx(1.5)
    assert slope(by_size) < 1.5 - 1e-4
