"""Our domains in Gymnasium, and Gymnasium's tables as exact MDPs."""

from __future__ import annotations

import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

from deadweight.domains import stochastic_lift
from deadweight.errors import MDPError
from deadweight.mdp.tabular import policy_value

gymnasium = pytest.importorskip("gymnasium")

from deadweight.envs import ENVIRONMENTS, mdp_from_gymnasium, register  # noqa: E402


@pytest.fixture(autouse=True)
def registered():
    register()
    register()  # twice changes nothing


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gymnasium_finds_nothing_to_complain_about(name):
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*render modes.*")  # there is nothing to render
        check_env(gymnasium.make(name).unwrapped, skip_render_check=True)


def test_gymnasium_finds_the_domains_by_itself():
    """In a process of its own: `import deadweight` imports no Gymnasium and leaves no hook behind."""
    code = (
        "import sys, deadweight\n"
        "assert 'gymnasium' not in sys.modules\n"
        "assert not any('deadweight' in type(finder).__module__ for finder in sys.meta_path)\n"
        "import gymnasium\n"
        "assert 'deadweight/StochasticLift-v0' not in gymnasium.registry\n"
        "env = gymnasium.make('deadweight.envs:deadweight/StochasticLift-v0', size=7)\n"
        "print(env.observation_space.n)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("5\n", 0), done.stderr


def test_options_reach_the_domain():
    env = gymnasium.make("deadweight/StochasticLift-v0", size=7, delta=0.1)
    assert env.observation_space.n == 5
    assert env.unwrapped.problem.true_value == stochastic_lift(7, delta=0.1).true_value
    assert gymnasium.make("deadweight/Taxi-v0", horizon=3).observation_space.n == 2000


def test_episodes_follow_the_mdp():
    env = gymnasium.make("deadweight/DeterministicLift-v0", size=7).unwrapped
    state, _ = env.reset(seed=0)
    assert state == 2
    steps = [env.step(1) for _ in range(3)]
    assert [(int(s), r, end) for s, r, end, _, _ in steps] == [(3, -1, False), (4, -1, False), (4, 3, True)]
    assert not any(cut for *_, cut, _ in steps)


def test_the_horizon_truncates():
    env = gymnasium.make("deadweight/Inventory-v0", horizon=4).unwrapped
    env.reset(seed=0)
    flags = [env.step(5)[2:4] for _ in range(4)]
    assert flags == [(False, False)] * 3 + [(False, True)]


def test_rollouts_have_the_exact_value():
    env = gymnasium.make("deadweight/StochasticLift-v0", size=7).unwrapped
    rng = np.random.default_rng(0)
    returns = []
    for episode in range(1500):
        env.reset(seed=episode)
        total, end = 0.0, False
        while not end:
            _, reward, end, _, _ = env.step(int(rng.integers(2)))
            total += reward
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - stochastic_lift(7).behaviour_value) < 4 * error


def best_values(mdp, steps: int) -> np.ndarray:
    v = np.zeros(mdp.n_states + 1)
    for _ in range(steps):
        v[:-1] = (mdp.r + (mdp.P @ v).reshape(mdp.r.shape)).max(axis=1)
    return v[:-1]


def test_frozen_lake():
    mdp = mdp_from_gymnasium("FrozenLake-v1")
    assert mdp.r.shape == (16, 4)
    assert mdp.horizon == 100
    # Action left in the corner stays by two of three slips, which the table lists twice.
    assert mdp.P.toarray()[0, 0] == pytest.approx(2 / 3)
    assert best_values(mdp, 5000)[0] == pytest.approx(14 / 17, abs=1e-9)


def test_cliff_walking():
    mdp = mdp_from_gymnasium(gymnasium.make("CliffWalking-v1"))
    assert mdp.horizon is None
    assert best_values(mdp, 100)[36] == -13  # up, eleven times right, down
    pi = np.full((48, 4), 0.25)
    assert policy_value(mdp, pi) == pytest.approx(policy_value(mdp, pi, horizon=200_000), rel=1e-6)


def test_taxi():
    latest = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
    mdp = mdp_from_gymnasium(latest, horizon=30)
    assert mdp.r.shape == (500, 6)
    assert mdp.horizon == 30
    assert mdp.d0.sum() == pytest.approx(1.0)
    assert (mdp.P.toarray()[:, -1] == 1.0).sum() == 4  # a delivery at each of the four stops ends the episode
    assert 7.5 < mdp.d0 @ best_values(mdp, 30) < 8.5


def test_repeated_entries_add_up_and_rewards_average():
    entries = [(0.25, 0, 4.0, False), (0.25, 0, 0.0, False), (0.5, 0, 1.0, True)]
    env = types.SimpleNamespace(
        P={0: {0: entries}},
        observation_space=types.SimpleNamespace(n=1),
        action_space=types.SimpleNamespace(n=1),
        spec=None,
    )
    env.unwrapped = env
    mdp = mdp_from_gymnasium(env, d0=[1.0])
    assert mdp.P.toarray().tolist() == [[0.5, 0.5]]
    assert mdp.transition_rewards.tolist() == [2.0, 1.0]
    assert mdp.horizon is None
    with pytest.raises(MDPError, match="where episodes start"):
        mdp_from_gymnasium(env)
    env.P = None
    with pytest.raises(MDPError, match="no transition table"):
        mdp_from_gymnasium(env)
