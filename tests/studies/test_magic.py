"""MAGIC: its ends are the model and WDR, its weights solve the programme, and it is what its formula says."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies import headline as module
from deadweight_studies.headline import magic
from deadweight_studies.problems import StudyProblem, random_problem

import deadweight as dw
from deadweight.question.question import ask
from deadweight.sums.blocks import Block


@pytest.fixture
def cell() -> StudyProblem:
    return StudyProblem("random", random_problem(5, 2, 6, seed=3), 80)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_model_and_wdr_are_the_ends(cell, monkeypatch, gamma) -> None:
    log = cell.sample(1)
    for end, name in ((0, "DM"), (-1, "WDR")):
        monkeypatch.setattr(module, "_least", lambda matrix, end=end: np.eye(len(matrix))[end])
        found = magic(ask(log, cell.pi_e, cell.pi_b, gamma), np.random.default_rng(0))
        assert found == pytest.approx(
            dw.estimate(name, log, cell.pi_e, cell.pi_b, gamma=gamma).value, rel=1e-9
        )


def test_the_programme_is_solved() -> None:
    # Uncorrelated: shares in inverse proportion to variances.
    np.testing.assert_allclose(module._least(np.diag([1.0, 3.0])), [0.75, 0.25], atol=1e-6)
    # A bias of 3 beside variances of 1: of x^2 (1 + 9) + (1 - x)^2 the least is at 1 / 11.
    matrix = np.eye(2) + np.outer([3.0, 0.0], [3.0, 0.0])
    np.testing.assert_allclose(module._least(matrix), [1 / 11, 10 / 11], atol=1e-6)
    # Correlated so much that less than nothing would be best: on the edge.
    np.testing.assert_allclose(module._least(np.array([[1.0, 1.5], [1.5, 3.0]])), [1.0, 0.0], atol=1e-6)
    np.testing.assert_array_equal(module._least(np.zeros((3, 3))), [0.0, 0.0, 1.0])


def test_a_tiny_log_by_hand(monkeypatch) -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 0.0)], [(0, 1, 0.0), (0, 0, 1.0)]])
    question = ask(log, [[0.75, 0.25]], [[0.5, 0.5]])
    block = Block(log, np.arange(2), contiguous=False)
    q, v = question.values.q.on(block), question.values.v.on(block)
    # Ratios are 1.5 and .5: after the first step the shares are three quarters and one, after both a half.
    first = 0.75 * (1.0 - q[0, 0]) + 0.25 * (0.0 - q[1, 0]) + v[:, 0].mean()
    second = 0.5 * (0.0 - q[0, 1]) + 0.5 * (1.0 - q[1, 1])
    between = 0.75 * v[0, 1] + 0.25 * v[1, 1]
    for place, expected in enumerate((v[:, 0].mean(), first + between, first + between + second)):
        monkeypatch.setattr(module, "_least", lambda matrix, place=place: np.eye(3)[place])
        assert magic(question, np.random.default_rng(0)) == pytest.approx(expected)


def test_it_leans_on_the_model_where_that_is_right(cell) -> None:
    errors = []
    for seed in range(30):
        log = cell.sample(seed)
        found = magic(ask(log, cell.pi_e, cell.pi_b), np.random.default_rng(seed))
        table = dw.evaluate(log, cell.pi_e, cell.pi_b, ["DM", "WPDIS"], interval=None)
        errors.append([found - cell.values[0], *(table[name].value - cell.values[0] for name in table)])
    mine, model, weights = np.square(errors).mean(axis=0)
    assert mine < weights
    assert mine < 3 * model
