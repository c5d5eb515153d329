"""The anchored choice of a level: formula, gate, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies.problems import previous_action

import deadweight as dw
from deadweight.answers.trust import CrossChecks, cross_checks_of
from deadweight.estimators.estimator import estimator_of
from deadweight.negligible.levels import Columns
from deadweight.negligible.path import path_of, strays
from deadweight.question.question import ask


@pytest.mark.parametrize(("name", "share"), [("C-WSPDIS", 1 / 16), ("WSPDIS", 1.0), ("WDRSIS", 1 / 16)])
def test_the_choice_is_the_least_error_with_the_anchor(name: str, share: float) -> None:
    problem = previous_action("small", 5, 2, horizon=4, seed=3, episodes=80)
    moved = 0
    for seed in range(4):
        log = problem.sample(seed)
        question = ask(log, problem.pi_e, problem.pi_b)
        path, free = (path_of(question, estimator_of(name), 1, anchored) for anchored in (True, False))
        model = dw.fit_mdp(log, *question.pi_b.shape)  # given as if it were known, as along a path
        undropped = dw.estimate("WDR", log, problem.pi_e, problem.pi_b, model=model)
        assert undropped.ess is not None
        assert undropped.ess > 10
        se0 = undropped.std_error
        if name == "WDRSIS":
            assert path.estimate[0] == pytest.approx(undropped.value, rel=1e-10)
            stray = (path.estimate - undropped.value) ** 2 - np.abs(se0**2 - path.std_error**2)
        else:
            stray = (path.corrected - undropped.value) ** 2 - se0**2
        windowed = cross_checks_of(question).windowed
        for value in windowed:
            assert abs(value - undropped.value) <= 3 * se0  # else it would be no witness
            stray = np.maximum(stray, (path.corrected - value) ** 2)
        assert len(windowed) == 2
        error = (share * path.bias) ** 2 + path.std_error**2 + np.maximum(stray, 0.0)
        open_levels = np.flatnonzero(path.ess >= min(10, path.ess.max()))
        assert path.chosen == open_levels[error[open_levels].argmin()]
        assert np.array_equal(path.estimate, free.estimate)
        moved += path.chosen != free.chosen
    assert moved > 0  # the witnesses hold somewhere


def test_a_level_is_held_by_what_nothing_contradicts() -> None:
    columns = Columns(*(np.array(column) for column in ([1.0, 2.0], [0.5, 0.1], [0.0, 0.5], [20.0, 90.0])))
    corrected, robust = estimator_of("C-WSPDIS"), estimator_of("WDRSIS")
    anchor = CrossChecks(1.0, 0.2, 20.0)
    np.testing.assert_allclose(strays(corrected, columns, anchor), [0.0, 0.5**2 - 0.2**2])
    np.testing.assert_allclose(strays(robust, columns, anchor), [0.0, 1.0 - abs(0.5**2 - 0.1**2)])
    few = CrossChecks(1.0, 0.2, 9.0)
    np.testing.assert_allclose(strays(corrected, columns, few), [0.0, 0.0])
    windowed = CrossChecks(1.0, 0.2, 20.0, (1.1, 9.0))  # the second is contradicted
    np.testing.assert_allclose(strays(corrected, columns, windowed), [0.1**2, 0.5**2 - 0.2**2])
    one_sided = CrossChecks(1.0, 0.2, 9.0, (0.9,), one_sided=True)
    np.testing.assert_allclose(strays(corrected, columns, one_sided), [0.0, 0.6**2 - 0.1**2])
    assert np.isinf(strays(corrected, columns, CrossChecks(1.0, 0.2, 9.0, allows=False))[1])
    unproven = CrossChecks(1.0, 0.2, 20.0, proven=False)  # noise excuses nothing
    np.testing.assert_allclose(strays(corrected, columns, unproven), [0.0, 0.5**2])
    np.testing.assert_allclose(strays(robust, columns, unproven), [0.0, 1.0])


def test_rules_by_name() -> None:
    problem = previous_action("small", 5, 2, horizon=4, seed=3, episodes=80)
    log = problem.sample(0)
    for rule, anchored in (("auto:anchored", True), ("auto:free", False)):
        found = dw.estimate("WDRSIS", log, problem.pi_e, problem.pi_b, drop=rule, interval=None)
        question = ask(log, problem.pi_e, problem.pi_b)
        path = path_of(question, estimator_of("WDRSIS"), 5, anchored)
        assert found.dropped == path.sets[path.chosen].states
    with pytest.raises(dw.errors.DropError, match="auto:tied"):
        dw.estimate("WDRSIS", log, problem.pi_e, problem.pi_b, drop="auto:tied")


def test_without_enough_episodes_there_is_no_anchor() -> None:
    problem = previous_action("long", 5, 2, horizon=30, seed=3, episodes=40)
    question = ask(problem.sample(1), problem.pi_e, problem.pi_b)
    path, free = (path_of(question, estimator_of("WDRSIS"), 1, anchored) for anchored in (True, False))
    assert free.ess[0] < 10
    error = (path.bias / 16) ** 2 + path.std_error**2
    for value in cross_checks_of(question).windowed:  # nobody contradicts them
        error = np.maximum(error, (path.bias / 16) ** 2 + path.std_error**2 + (path.estimate - value) ** 2)
    open_levels = np.flatnonzero(path.ess >= 10)
    assert path.chosen == open_levels[error[open_levels].argmin()]
