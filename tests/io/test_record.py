"""Logs recorded from Gymnasium environments."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
import gymnasium

import deadweight as dw
from deadweight.domains import stochastic_lift
from deadweight.errors import DeadweightError, MissingExtra, PolicyError
from deadweight.io.environments import record
from deadweight.log.policies import FeaturePolicy, TabularPolicy


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


def test_a_table_acts_by_its_own_names_of_actions():
    """Read by position, a table with its columns in another order acted as its mirror image."""
    only_right = TabularPolicy(np.tile([1.0, 0.0], (16, 1)), actions=[2, 1])
    log = record("FrozenLake-v1", only_right, 5, seed=0)
    assert set(log.actions) == {2}
    assert (log.propensities == 1).all()
    first, second = np.random.default_rng(0).dirichlet([1] * 4, 16), [3, 0, 2, 1]
    shuffled = TabularPolicy(first[:, second], actions=second)
    one, other = (record("FrozenLake-v1", policy, 20, seed=3) for policy in (first, shuffled))
    assert np.array_equal(one.actions, other.actions)
    with pytest.raises(PolicyError, match="numbers from 0 to 3; the policy names 'left'"):
        record("FrozenLake-v1", TabularPolicy(np.ones((16, 1)), actions=["left"]), 1)


def follow(x):
    """The side to which the pole falls, nine times in ten."""
    right = np.where(x[:, 2] > 0, 0.9, 0.1)
    return np.column_stack([1 - right, right])


def test_boxes_are_features_and_policies_act_on_matrices():
    log = record("CartPole-v1", follow, 8, seed=2)
    assert log.features.shape == (log.n_steps, 4)
    assert not log.has_states
    expected = follow(log.features)[np.arange(log.n_steps), log.actions]
    np.testing.assert_array_equal(log.propensities, expected)
    same = record("CartPole-v1", FeaturePolicy(lambda x: follow(x)[:, ::-1], actions=[1, 0]), 8, seed=2)
    np.testing.assert_array_equal(log.features, same.features)


def test_actions_instead_of_probabilities_and_what_follows_a_cut():
    log = record("CartPole-v1", lambda x: (x[:, 2] > 0).astype(int), 5, seed=0, max_steps=10)
    assert (log.propensities == 1).all()
    np.testing.assert_array_equal(log.actions, log.features[:, 2] > 0)
    assert log.time_limit == 10
    cut = ~log.terminated
    assert cut.any()
    assert np.isfinite(log.last_features[cut]).all()


def test_a_classifier_acts_by_its_own_order_of_classes():
    class Backwards:
        classes_ = np.array([1, 0])

        def predict_proba(self, x):
            return follow(x)[:, ::-1]

    first, second = (record("CartPole-v1", policy, 5, seed=1) for policy in (follow, Backwards()))
    np.testing.assert_array_equal(first.actions, second.actions)
    np.testing.assert_array_equal(first.propensities, second.propensities)


def test_a_model_that_does_not_name_its_actions_is_refused() -> None:
    class Bare:
        def predict_proba(self, x):
            return follow(x)

    with pytest.raises(
        PolicyError, match=r"no classes_: Bare does not say.*\n.*FeaturePolicy\(model.predict"
    ):
        record("CartPole-v1", Bare(), 1, seed=0)
    named = dw.FeaturePolicy(Bare().predict_proba, actions=[0, 1])
    assert record("CartPole-v1", named, 1, seed=0).n_episodes == 1


def test_messages(monkeypatch):
    with pytest.raises(DeadweightError, match="Observations are features"):
        record("CartPole-v1", [[0.5, 0.5]], 1)
    with pytest.raises(DeadweightError, match=r"found Tuple\("):
        record("Blackjack-v1", [[0.5, 0.5]], 1)
    with pytest.raises(DeadweightError, match=r"discrete actions; found Box"):
        record("Pendulum-v1", lambda x: x, 1)
    with pytest.raises(DeadweightError, match=r"\(1, 4\) it returned shape \(4,\)"):
        record("CartPole-v1", lambda x: x[0], 1)
    with pytest.raises(DeadweightError, match="numbers from 0 to 1"):
        record("CartPole-v1", lambda x: np.full(len(x), 2), 1)
    with pytest.raises(DeadweightError, match="none is state"):
        record("FrozenLake-v1", np.full((1, 4), 0.25), 5, seed=0)
    with pytest.raises(DeadweightError, match="4 probabilities"):
        record("FrozenLake-v1", np.full((16, 2), 0.5), 1)
    with pytest.raises(DeadweightError, match="at least 1"):
        record("FrozenLake-v1", np.full((16, 4), 0.25), 0)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match="gymnasium"):
        record("FrozenLake-v1", np.full((16, 4), 0.25), 1)


def test_a_function_of_one_observation_is_told_how_to_be_passed() -> None:
    def upright(x: Any) -> list[float]:
        return [0.3, 0.7] if x[2] > 0 else [0.7, 0.3]

    with pytest.raises(PolicyError, match=r"IndexError.*\n.*lambda X:"):
        record("CartPole-v1", upright, episodes=2, seed=0)
    log = record("CartPole-v1", lambda X: [upright(x) for x in X], episodes=20, seed=0)
    assert set(log.propensities) == {0.3, 0.7}
    with pytest.raises(PolicyError, match=r"lambda X: \[f\(x\) for x in X\]"):
        dw.policy(upright, log)
