"""Infinite variance of the weights, on chains whose second moments are known."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.diagnostics.infinite_variance import has_infinite_variance
from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.question.core import ask


def waiting(stays: int, ends: int, cut: bool = False) -> dw.Trajectories:
    """One state; each action stays in `stays` of its steps for every `ends` in which it ends."""
    episodes = []
    for action in (0, 1):
        episodes += [[(0, action, 1.0)] * (stays // ends + 1)] * ends
    return dw.Trajectories.from_episodes(episodes, terminated=[not cut] * len(episodes))


@pytest.mark.parametrize(("above", "infinite"), [(-0.01, False), (0.01, True)])
def test_one_state(above: float, infinite: bool) -> None:
    """Every action stays in two of three steps: finite while 2 (p^2 + q^2) 2/3 < 1, so up to a root."""
    p = 0.5 + np.sqrt(0.125) + above
    assert (2 * (p**2 + (1 - p) ** 2) * 2 / 3 >= 1) == infinite
    log = waiting(20, 10)
    question = ask(log, [[p, 1 - p]], [[0.5, 0.5]])
    assert has_infinite_variance(question) == infinite
    assert not has_infinite_variance(question, np.array([True]))


def test_episodes_that_are_cut_have_bounded_weights() -> None:
    assert not has_infinite_variance(ask(waiting(20, 10, cut=True), [[1.0, 0.0]], [[0.5, 0.5]]))
    assert has_infinite_variance(ask(waiting(20, 10), [[1.0, 0.0]], [[0.5, 0.5]]))


def test_lifts() -> None:
    """Uncut stochastic lifts have infinite variance, with their lift states dropped as well or not at all."""
    for size in (7, 11):
        problem = stochastic_lift(size)
        assert has_infinite_variance(ask(problem.sample(300, seed=size), problem.pi_e, problem.pi_b))
    sure = deterministic_lift(9)
    question = ask(sure.sample(300, seed=1), sure.pi_e, sure.pi_b)
    assert not has_infinite_variance(question, np.ones(question.pair.n_states, dtype=bool))
