"""The coverage study: its pieces exactly, one run, and that it can be resumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from deadweight_studies import coverage as interval_coverage
from deadweight_studies.coverage import STUDY, summarise, write_tables

import deadweight as dw

CELL = "hidden 8 x 3, n = 300"


def test_cells_are_enough_and_some_hide_what_matters() -> None:
    cells = interval_coverage.cells()
    assert len(cells) >= 8
    assert any(cell.shown is not None for cell in cells.values())
    assert all(cell.problem.horizon is not None for cell in cells.values())


def test_possible_returns_by_hand() -> None:
    mdp = dw.TabularMDP(
        P=[
            [[0.5], [1.0]],
        ],
        R=[[2.0, -1.0]],
        d0=[1.0],
    )
    assert interval_coverage.possible_returns(mdp, 3) == (-3.0, 6.0)


def test_returns_stay_within_what_is_possible() -> None:
    for cell in interval_coverage.cells().values():
        lowest, highest = interval_coverage.possible_returns(cell.problem.mdp, cell.problem.horizon)
        log = cell.problem.sample(50, seed=0)
        returns = np.add.reduceat(log.rewards, log.offsets[:-1])
        assert lowest - 1e-9 <= returns.min() <= returns.max() <= highest + 1e-9


def test_value_of_the_dropped_policy_in_the_states_that_are_shown() -> None:
    cell = interval_coverage.cells()[CELL]
    everything = list(range(8))
    assert interval_coverage._value_of_mu(cell, []) == pytest.approx(cell.problem.true_value)
    assert interval_coverage._value_of_mu(cell, everything) == pytest.approx(cell.problem.behaviour_value)


def test_a_verdict_is_right_if_it_says_which_policy_is_better() -> None:
    cell = interval_coverage.cells()["random 8 x 3, n = 800"]
    table = dw.evaluate(cell.sample(np.random.SeedSequence(1)), cell.pi_e, cell.pi_b, ["BEHAVIOUR", "WPDIS"])
    problem = cell.problem
    turned = replace(cell, problem=replace(problem, pi_e=problem.pi_b, pi_b=problem.pi_e))
    assert table.verdict.answer == "better"
    assert interval_coverage.judged(table, "WPDIS", cell) == "right"
    assert interval_coverage.judged(table, "WPDIS", turned) == "wrong"


def test_a_study_resumes_and_is_the_same(tmp_path) -> None:
    assert [name for name, _ in STUDY.make(tmp_path / "once", 2, only=[CELL])] == [CELL]
    list(STUDY.make(tmp_path / "twice", 1, only=[CELL]))
    file = next((tmp_path / "twice" / "runs").glob("*.jsonl"))
    file.write_text(file.read_text() + '{"name": "cut sho')
    told: list[str] = []
    list(STUDY.make(tmp_path / "twice", 2, only=[CELL], tell=told.append))
    assert len(told) == 1
    assert told[0].startswith(f"1 record in '{file}' was damaged or cut short")
    assert summarise(tmp_path / "twice") == summarise(tmp_path / "once")
    text = write_tables(tmp_path / "once")
    assert CELL in text
    assert (tmp_path / "once" / "coverage.csv").read_text().count("\n") == 16
