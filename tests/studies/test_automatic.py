"""The study of the automatic drop: its arithmetic exactly, and one small seeded part of it."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies import automatic as automatic_drop
from deadweight_studies.automatic import STUDY, fresh_cells, table, tuned_cells
from deadweight_studies.problems import study_problems
from deadweight_studies.study import MSERatio, first_runs, geometric_mean, make_runs, mse_ratio


def test_there_are_enough_problems_and_enough_of_them_are_fresh():
    problems = study_problems()
    assert len(problems) >= 12
    assert sum(problem.fresh for problem in problems) >= 6
    assert sum(problem.shown is not None for problem in problems) >= 2


def test_ratio_of_mean_squares():
    found = mse_ratio(np.array([1.0, -1.0, 2.0]), np.array([2.0, 2.0, -2.0]))
    assert found.value == pytest.approx(0.5)
    assert mse_ratio(np.array([3.0, 1.0]), np.array([3.0, 1.0])).std_error == 0.0


def test_geometric_mean_weighs_halving_and_doubling_alike():
    ratios = [MSERatio(0.5, 0.0), MSERatio(2.0, 0.0)]
    assert geometric_mean(ratios).value == pytest.approx(1.0)


def test_policies_of_hidden_problems_depend_on_what_is_shown_only():
    for problem in study_problems():
        if problem.shown is not None:
            expanded = problem.pi_e.probs[problem.shown]
            np.testing.assert_allclose(expanded, problem.problem.pi_e.probs, atol=1e-12)


def test_the_automatic_drop_helps_on_the_belt_and_runs_resume(tmp_path):
    belt = next(problem for problem in study_problems() if problem.name == "conveyor belt")
    first = automatic_drop.run(belt.name, 0)
    assert first == automatic_drop.run(belt.name, 0)
    store = STUDY.stores(tmp_path)[belt.name]
    assert list(make_runs({belt.name: store}, automatic_drop.run, 6)) == [belt.name]
    made = first_runs(STUDY.stores(tmp_path)[belt.name], 6)
    assert made[0] == first
    assert made == first_runs(store, 6)
    errors = {key: np.array([one["errors"][key] for one in made]) for key in first["errors"]}
    # 0.036 +- 0.008 over 100 logs (docs/automatic.md): a third is far outside what six logs can do.
    assert mse_ratio(errors["C-WSPDIS automatic"], errors["WPDIS"]).value < 1 / 3


def made(error: float, verdict: str) -> dict:
    """A run in which every variant is off by as much, and plain ones by twice as much."""
    names = {name for pair in automatic_drop.COMPARISONS for name in pair} | set(automatic_drop.PLAIN)
    errors = {name: error if " " in name or name == "BLEND" else 2 * error for name in names}
    ends = {name: [error - 0.5, error + 0.5] for name in automatic_drop.ROWS}
    return {"errors": errors, "ends": ends, "verdict": verdict}


def test_a_line_by_hand():
    line = automatic_drop.line("short river", [made(0.1, "right"), made(-0.7, "cannot tell")])
    assert line.fresh
    assert [ratio.value for ratio in line.ratios] == pytest.approx([0.25] * len(line.ratios))
    assert line.coverage == {"C-WSPDIS": 0.5, "WDRSIS": 0.5, "BLEND": 0.5}
    assert line.width["BLEND"] == pytest.approx(1.0 / (2 * 1.95996 * np.sqrt((0.01 + 0.49) / 2)), rel=1e-4)
    assert (line.error, line.right, line.wrong) == (pytest.approx(1.0), 0.5, 0.0)
    old = automatic_drop.line("river", [made(0.1, "right"), made(0.2, "right")])
    text = table([old, line])
    assert text.index("| river | 2 |") < text.index("| fresh cells |") < text.index("| short river | 2 |")


def test_fresh_cells_are_others_and_every_kind_is_among_them():
    tuned, fresh = tuned_cells(), fresh_cells()
    assert not set(tuned) & set(fresh)
    for kind in ("previous action", "hidden", "cartpole", "noise labels"):
        assert any(name.startswith(kind) for name in tuned)
        assert any(name.startswith(kind) for name in fresh)


def test_noise_labels_are_by_chance_and_leave_the_rest():
    task = fresh_cells()["noise labels: short river"]
    log, again = task.sample(3), task.sample(3)
    np.testing.assert_array_equal(log.states, again.states)
    assert log.n_states == 10
    assert np.unique(task.pi_e.probs, axis=0).shape[0] == 1
    assert task.values == (task.problem.true_value, task.problem.behaviour_value)
