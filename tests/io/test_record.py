"""Logs recorded from Gymnasium environments."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium")
import gymnasium

from deadweight.domains import stochastic_lift
from deadweight.errors import DeadweightError, MissingExtra
from deadweight.io import record
from deadweight.policy.policies import TabularPolicy


def test_the_mean_return_is_the_exact_value():
    problem = stochastic_lift(11)
    log = record(
        gymnasium.make("deadweight.envs:deadweight/StochasticLift-v0", size=11),
        problem.pi_b,
        episodes=150,
        seed=1,
    )
    returns = np.add.reduceat(log.rewards, log.offsets[:-1])
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    assert abs(returns.mean() - problem.behaviour_value) < 4 * error
    assert log.propensities is not None
    assert log.terminated.all()


def test_the_seed_repeats_it_and_max_steps_cuts_it():
    uniform = np.full((16, 4), 0.25)
    first, again = (record("FrozenLake-v1", uniform, 20, seed=3) for _ in range(2))
    assert np.array_equal(first.states, again.states)
    assert np.array_equal(first.actions, again.actions)
    cut = record("FrozenLake-v1", uniform, 20, seed=3, max_steps=2)
    assert cut.horizon <= 2
    last = cut.offsets[1:] - 1
    assert (~cut.terminated).any()
    assert (cut.next_states[last][~cut.terminated] >= 0).all(), "a cut episode keeps what came next"


def test_a_function_as_policy_and_a_policy_with_labels():
    log = record("FrozenLake-v1", lambda state: [1.0, 0, 0, 0] if state == 0 else [0.25] * 4, 5, seed=0)
    assert (log.propensities[log.states == 0] == 1).all()
    named = TabularPolicy(np.full((16, 4), 0.25), states=list(range(15, -1, -1)))
    assert record("FrozenLake-v1", named, 3, seed=0).n_episodes == 3


def test_messages(monkeypatch):
    with pytest.raises(DeadweightError, match="discrete observations"):
        record("CartPole-v1", [[0.5, 0.5]], 1)
    with pytest.raises(DeadweightError, match="none is state"):
        record("FrozenLake-v1", np.full((1, 4), 0.25), 5, seed=0)
    with pytest.raises(DeadweightError, match="4 probabilities"):
        record("FrozenLake-v1", np.full((16, 2), 0.5), 1)
    with pytest.raises(DeadweightError, match="at least 1"):
        record("FrozenLake-v1", np.full((16, 4), 0.25), 0)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match="gymnasium"):
        record("FrozenLake-v1", np.full((16, 4), 0.25), 1)
