"""Expectations over all trajectories of small MDPs: what is unbiased, and for what. No sampling anywhere.

Every trajectory goes in with its exact probability under pi_b, as a log of its own. Estimators that use a
model solve it over the log's longest episode, so a trajectory stands there beside a companion of full length;
the estimate is a mean over the two, and the companion's own term is taken off again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from strategies import Step, random_policy

import deadweight as dw

HORIZON, ACTIONS = 3, 2
PLAIN, STATE_BASED = ("IS", "PDIS"), ("SIS", "SPDIS")
WITH_MODEL = ("DR", "DRSIS", "C-SIS", "C-SPDIS")
# Number of states, discount, drop.
SETTINGS = [(2, 0.8, (0,)), (2, 0.8, (0, 1)), (3, 1.0, (1,))]


@cache
def problem(n_states: int) -> tuple[dw.TabularMDP, np.ndarray, np.ndarray]:
    """An MDP that may end after every step, an evaluation policy with a zero, a behaviour policy.

    Each (s, a) leads to two states at most, which keeps the number of trajectories in the hundreds.
    """
    rng = np.random.default_rng(n_states)
    P = np.zeros((n_states, ACTIONS, n_states + 1))
    for s in range(n_states):
        for a in range(ACTIONS):
            successors = [*rng.choice(n_states, size=2, replace=False), n_states]
            P[s, a, successors] = rng.dirichlet(np.ones(3))
    pi_e = random_policy(rng, n_states, ACTIONS)
    pi_e[0] = [0.0, 1.0]
    pi_b = random_policy(rng, n_states, ACTIONS) * 0.6 + 0.2
    R = rng.normal(size=(n_states, ACTIONS))
    return dw.TabularMDP(P, R, rng.dirichlet(np.ones(n_states)), horizon=HORIZON), pi_e, pi_b


def wrong_model(n_states: int) -> dw.TabularMDP:
    rng = np.random.default_rng(99)
    P = rng.dirichlet(np.ones(n_states + 1), size=(n_states, ACTIONS))
    R = 10 * rng.normal(size=(n_states, ACTIONS))
    return dw.TabularMDP(P, R, np.full(n_states, 1 / n_states), horizon=HORIZON)


def trajectories(n_states: int) -> Iterator[tuple[float, list[Step], bool]]:
    """(probability under pi_b, steps, whether it terminated) of every trajectory."""
    mdp, _, pi_b = problem(n_states)
    P = mdp.P.toarray().reshape(n_states, ACTIONS, n_states + 1)

    def onwards(s: int, chance: float, steps: list[Step]) -> Iterator[tuple[float, list[Step], bool]]:
        if s == n_states or len(steps) == HORIZON:
            yield chance, steps, s == n_states
            return
        for a in range(ACTIONS):
            for after in np.flatnonzero(P[s, a]):
                step = (s, a, float(mdp.r[s, a]))
                yield from onwards(int(after), chance * pi_b[s, a] * P[s, a, after], [*steps, step])

    for s in range(n_states):
        yield from onwards(s, float(mdp.d0[s]), [])


def values_of(
    names: tuple[str, ...], n_states: int, episodes: list[list[Step]], ended: list[bool], **settings: Any
) -> np.ndarray:
    _, pi_e, pi_b = problem(n_states)
    log = dw.Trajectories.from_episodes(episodes, terminated=ended)
    table = dw.evaluate(log, pi_e, pi_b, names, interval=None, **settings)
    return np.array([table[name].value for name in names])


@cache
def expectations(
    names: tuple[str, ...], n_states: int, gamma: float, drop: tuple[int, ...], true_model: bool = True
) -> dict[str, float]:
    """Mean of each single-episode estimate over all trajectories."""
    model = problem(n_states)[0] if true_model else wrong_model(n_states)
    settings: dict[str, Any] = {"gamma": gamma, "drop": list(drop), "model": model}
    companion: list[Step] = [(0, 1, 0.5)] * HORIZON
    alone = values_of(names, n_states, [companion], [True], **settings)
    means = sum(
        chance * (2 * values_of(names, n_states, [steps, companion], [ended, True], **settings) - alone)
        for chance, steps, ended in trajectories(n_states)
    )
    return dict(zip(names, means, strict=True))


ALL = (*PLAIN, *STATE_BASED, *WITH_MODEL)


@pytest.mark.parametrize("n_states", [2, 3])
def test_probabilities_sum_to_one(n_states: int) -> None:
    mdp, _, pi_b = problem(n_states)
    everything = list(trajectories(n_states))
    assert sum(chance for chance, _, _ in everything) == pytest.approx(1, rel=1e-12)
    mean = sum(
        chance * sum(0.8**t * r for t, (_, _, r) in enumerate(steps)) for chance, steps, _ in everything
    )
    assert mean == pytest.approx(dw.policy_value(mdp, pi_b, gamma=0.8), rel=1e-12)


@pytest.mark.parametrize(("n_states", "gamma", "drop"), SETTINGS)
@pytest.mark.parametrize("name", [*PLAIN, "DR"])
def test_plain_forms_are_unbiased(name: str, n_states: int, gamma: float, drop: tuple[int, ...]) -> None:
    mdp, pi_e, _ = problem(n_states)
    truth = dw.policy_value(mdp, pi_e, gamma=gamma)
    assert expectations(ALL, n_states, gamma, drop)[name] == pytest.approx(truth, rel=1e-10)


def test_a_single_episode_is_enough() -> None:
    """IS and PDIS need no companion."""
    mdp, pi_e, _ = problem(2)
    means = sum(chance * values_of(PLAIN, 2, [steps], [ended]) for chance, steps, ended in trajectories(2))
    assert means == pytest.approx(dw.policy_value(mdp, pi_e), rel=1e-10)


def test_doubly_robust_is_unbiased_with_a_wrong_model() -> None:
    mdp, pi_e, _ = problem(2)
    found = expectations(("DR", "C-SIS"), 2, 0.8, (0, 1), true_model=False)
    truth = dw.policy_value(mdp, pi_e, gamma=0.8)
    assert found["DR"] == pytest.approx(truth, rel=1e-10)
    # What is not doubly robust is biased by such a model: the test can tell.
    assert abs(found["C-SIS"] - truth) > 0.01


@pytest.mark.parametrize(("n_states", "gamma", "drop"), SETTINGS)
@pytest.mark.parametrize("name", STATE_BASED)
def test_state_based_forms_estimate_the_mixed_policy(
    name: str, n_states: int, gamma: float, drop: tuple[int, ...]
) -> None:
    """Their mean is V(mu_D), with mu_D = pi_b on the dropped states and pi_e elsewhere."""
    mdp, pi_e, pi_b = problem(n_states)
    mixed = pi_e.copy()
    mixed[list(drop)] = pi_b[list(drop)]
    truth = dw.policy_value(mdp, mixed, gamma=gamma)
    assert abs(truth - dw.policy_value(mdp, pi_e, gamma=gamma)) > 1e-3
    assert expectations(ALL, n_states, gamma, drop)[name] == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize(("n_states", "gamma", "drop"), SETTINGS)
@pytest.mark.parametrize("name", ["C-SIS", "C-SPDIS", "DRSIS"])
def test_corrected_forms_with_the_true_model_are_unbiased(
    name: str, n_states: int, gamma: float, drop: tuple[int, ...]
) -> None:
    """The performance-difference lemma, summed up: what the drop loses is exactly what is added back."""
    mdp, pi_e, _ = problem(n_states)
    truth = dw.policy_value(mdp, pi_e, gamma=gamma)
    assert expectations(ALL, n_states, gamma, drop)[name] == pytest.approx(truth, rel=1e-10)
