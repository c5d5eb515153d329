"""The study of the automatic drop: its arithmetic exactly, and one small seeded part of it."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.studies import automatic
from deadweight.studies.problems import study_problems
from deadweight.studies.runs import first_runs, make_runs


def test_there_are_enough_problems_and_enough_of_them_are_fresh():
    problems = study_problems()
    assert len(problems) >= 12
    assert sum(problem.fresh for problem in problems) >= 6
    assert sum(problem.shown is not None for problem in problems) >= 2


def test_ratio_of_mean_squares():
    found = automatic.mse_ratio(np.array([1.0, -1.0, 2.0]), np.array([2.0, 2.0, -2.0]))
    assert found.value == pytest.approx(0.5)
    assert automatic.mse_ratio(np.array([3.0, 1.0]), np.array([3.0, 1.0])).std_error == 0.0


def test_geometric_mean_weighs_halving_and_doubling_alike():
    ratios = [automatic.MSERatio(0.5, 0.0), automatic.MSERatio(2.0, 0.0)]
    assert automatic.geometric_mean(ratios).value == pytest.approx(1.0)


def test_policies_of_hidden_problems_depend_on_what_is_shown_only():
    for problem in study_problems():
        if problem.shown is not None:
            expanded = problem.pi_e.probs[problem.shown]
            np.testing.assert_allclose(expanded, problem.problem.pi_e.probs, atol=1e-12)


def test_the_automatic_drop_helps_on_the_belt_and_runs_resume(tmp_path):
    belt = next(problem for problem in study_problems() if problem.name == "conveyor belt")
    first = automatic.run(belt.name, 0)
    assert first == automatic.run(belt.name, 0)
    store = automatic.stores(tmp_path)[belt.name]
    assert list(make_runs({belt.name: store}, automatic.run, 6)) == [belt.name]
    made = first_runs(automatic.stores(tmp_path)[belt.name], 6)
    assert made[0] == first
    assert made == first_runs(store, 6)
    errors = {key: np.array([one["errors"][key] for one in made]) for key in first["errors"]}
    # 0.036 +- 0.008 over 100 logs (docs/automatic.md): a third is far outside what six logs can do.
    assert automatic.mse_ratio(errors["C-WSPDIS automatic"], errors["WPDIS"]).value < 1 / 3
