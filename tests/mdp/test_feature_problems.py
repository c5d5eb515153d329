"""Domains with features: the rules of each world, what a log of it holds, and the value of pi_e."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import OptionError
from deadweight.mdp.feature_worlds import CartPole, ContinuousLift, Navigation, SepsisLike
from deadweight.mdp.problem import FeatureProblem, drawn, returns, rollout

PROBLEMS = {
    name: getattr(dw.domains, name) for name in ("continuous_lift", "navigation", "cart_pole", "sepsis_like")
}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]()


def always(action, n_actions):
    return lambda x: np.tile(np.eye(n_actions)[action], (len(x), 1))


def test_a_log_holds_what_happened(problem):
    log = problem.sample(episodes=200, seed=3)
    assert log.feature_names == problem.feature_names
    assert set(log.action_labels) <= set(problem.world.action_names)
    assert log.horizon <= problem.horizon == log.time_limit
    cut = ~log.terminated
    assert (log.lengths[cut] == problem.horizon).all()
    assert np.isfinite(log.last_features[cut]).all()
    assert np.isnan(log.last_features[~cut]).all()
    pi_b = problem.pi_b.on(log)
    column = {label: j for j, label in enumerate(pi_b.action_labels)}
    taken = [column[log.action_labels[a]] for a in log.actions]
    np.testing.assert_array_equal(log.propensities, pi_b.probs[np.arange(log.n_steps), taken])


def test_the_seed_repeats_a_log(problem):
    first, again, other = (problem.sample(50, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.features, again.features)
    assert not np.array_equal(first.features[:5], other.features[:5])


def test_values_agree_with_logs_and_weights(problem):
    """pi_b's value by the mean of a log, pi_e's by importance sampling: four standard errors each."""
    log = problem.sample(episodes=4000, seed=5)
    sums = np.add.reduceat(log.rewards, log.offsets[:-1])
    assert abs(sums.mean() - problem.behaviour_value) < 4 * sums.std() / np.sqrt(4000)
    est = dw.estimate("PDIS", log, problem.pi_e, problem.pi_b, interval=None, also=["std_error"])
    assert abs(est.value - problem.true_value) < 4 * np.hypot(est.std_error, problem.true_value_error)


def test_cart_pole_is_that_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1").unwrapped
    rng, world = np.random.default_rng(0), CartPole()
    for _ in range(200):
        x = rng.uniform(-1, 1, 4) * [2.4, 3.0, 0.2, 3.0]
        action = int(rng.integers(2))
        env.reset(seed=0)
        env.state = tuple(x)
        _, reward, ended, _, _ = env.step(action)
        after, paid, over = world.step(x[None], np.array([action]), rng)
        np.testing.assert_allclose(after[0], np.array(env.state), rtol=1e-12)
        assert (paid[0], bool(over[0])) == (reward, ended)


def test_the_lift_without_noise_by_hand():
    world = ContinuousLift(6.0, 0.0)
    x = np.array([[0.5], [0.5], [1.5], [-1.5], [5.5]])
    after, rewards, ended = world.step(x, np.array([0, 1, 0, 1, 0]), np.random.default_rng(0))
    assert after[:, 0].tolist() == [-0.5, 1.5, 2.5, -2.5, 6.5]
    assert rewards.tolist() == [-1, -1, -1, -1, 6]
    assert ended.tolist() == [False, False, False, False, True]
    # Straight to the right from p: ceil(6 - p) moves, the last of which pays 6.
    got = returns(world, always(1, 2), 1000, 50, np.random.default_rng(1))
    starts = world.start(1000, np.random.default_rng(1))[:, 0]
    np.testing.assert_array_equal(got, 6.0 - (np.ceil(6.0 - starts) - 1.0))


def test_on_the_belt_the_action_is_without_effect():
    world, x = Navigation(0.4), np.array([[5.0, 5.0], [5.0, 1.0]])
    after = [world.step(x, np.array([a, a]), np.random.default_rng(7))[0] for a in range(4)]
    assert all(np.array_equal(one[0], after[0][0]) for one in after)
    assert len({tuple(one[1]) for one in after}) == 4


def test_treatment_matters_where_it_is_needed_only():
    world = SepsisLike()
    healthy = np.array([[1.2, 75.0, 90.0, 95.0, 1.0, 50.0]])
    ill = np.array([[5.0, 55.0, 90.0, 95.0, 1.0, 50.0]])
    for x, differs in ((healthy, False), (ill, True)):
        after = [world.step(x, np.array([a]), np.random.default_rng(2))[0] for a in range(3)]
        assert np.array_equal(after[0], after[1]) != differs
        assert np.array_equal(after[0], after[2]) != differs


def test_hidden_features_act_and_are_not_logged():
    seen = dw.domains.sepsis_like()
    hidden = FeatureProblem(
        "hidden", seen.world, lambda x: np.full((len(x), 3), 1 / 3), seen.behaviour, 20, 4
    )
    log = hidden.sample(100, seed=0)
    assert log.feature_names == ("lactate", "map")
    assert hidden.pi_b is None
    np.testing.assert_array_equal(log.propensities, seen.sample(100, seed=0).propensities)


def test_actions_of_probability_zero_are_never_drawn():
    rng = np.random.default_rng(0)
    table = np.tile([0.0, 0.3, 0.0, 0.7, 0.0], (20_000, 1))
    counts = np.bincount(drawn(table, rng), minlength=5)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    assert abs(counts[1] / 20_000 - 0.3) < 4 * np.sqrt(0.21 / 20_000)


def test_episodes_stop_at_the_horizon_or_when_all_have_ended():
    world = ContinuousLift(6.0, 0.0)
    steps = list(rollout(world, always(1, 2), 10, 3, np.random.default_rng(0)))
    assert [step.t for step in steps] == [0, 1, 2]
    assert list(rollout(world, always(1, 2), 10, 50, np.random.default_rng(0)))[-1].t <= 6


def test_refusals():
    with pytest.raises(OptionError, match="at least 3"):
        dw.domains.continuous_lift(bound=2)
    with pytest.raises(OptionError, match="standard deviation"):
        dw.domains.continuous_lift(noise=-1)
    with pytest.raises(OptionError, match="at least 1"):
        dw.domains.navigation().sample(0)
