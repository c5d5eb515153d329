"""The simulator: exact on deterministic MDPs, and the right frequencies on random ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from deadweight.errors import MDPError, OptionError, PolicyError
from deadweight.mdp.problem import RowSampler, simulate
from deadweight.mdp.tabular import TabularMDP, policy_value


def ladder(horizon: int | None = None) -> TabularMDP:
    """0 -> 1 -> 2 -> end, paying 1, 2, 4."""
    return TabularMDP(np.eye(4)[[1, 2, 3]][:, None, :], [[1.0], [2.0], [4.0]], [1.0, 0, 0], horizon)


def random_mdp(seed: int) -> tuple[TabularMDP, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(5, 0.6), size=(4, 3))
    P[P < 0.02] = 0.0
    P /= P.sum(axis=2, keepdims=True)
    return TabularMDP(P, rng.normal(size=P.shape), rng.dirichlet(np.ones(4))), rng.dirichlet(np.ones(3), 4)


def test_a_deterministic_mdp_is_followed_to_the_end():
    log = simulate(ladder(), np.ones((3, 1)), episodes=2, seed=0)
    assert log.states.tolist() == [0, 1, 2] * 2
    assert log.rewards.tolist() == [1, 2, 4] * 2
    assert log.offsets.tolist() == [0, 3, 6]
    assert log.terminated.all()
    assert log.propensities.tolist() == [1.0] * 6


def test_a_cut_episode_keeps_its_successor():
    log = simulate(ladder(), np.ones((3, 1)), episodes=2, seed=0, horizon=2)
    assert not log.terminated.any()
    assert log.next_states.tolist() == [1, 2, 1, 2]
    # Ending on the very last step is termination, and the MDP's own horizon is the default.
    assert simulate(ladder(horizon=3), np.ones((3, 1)), episodes=1, seed=0).terminated.all()
    assert simulate(ladder(horizon=1), np.ones((3, 1)), episodes=1, seed=0).next_states.tolist() == [1]


def test_the_seed_decides():
    mdp, pi = random_mdp(0)
    one, same, other = (simulate(mdp, pi, 50, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.states, same.states)
    np.testing.assert_array_equal(one.rewards, same.rewards)
    assert one.n_steps != other.n_steps or (one.states != other.states).any()


def test_rewards_and_propensities_belong_to_their_transition():
    mdp, pi = random_mdp(1)
    log = simulate(mdp, pi, 300, seed=1, horizon=4)
    following = np.where(log.next_states < 0, 4, log.next_states)
    assert log.terminated.any()
    assert not log.terminated.all()
    row = log.states * 3 + log.actions
    R = np.zeros((12, 5))
    R[np.repeat(np.arange(12), np.diff(mdp.P.indptr)), mdp.P.indices] = mdp.transition_rewards
    np.testing.assert_array_equal(log.rewards, R[row, following])
    np.testing.assert_array_equal(log.propensities, pi[log.states, log.actions])


@pytest.mark.parametrize("seed", range(3))
def test_frequencies_match_p_pi_and_d0(seed):
    mdp, pi = random_mdp(seed)
    log = simulate(mdp, pi, 20_000, seed=seed)
    following = np.where(log.next_states < 0, 4, log.next_states)
    moves = np.bincount((log.states * 3 + log.actions) * 5 + following, minlength=60).reshape(12, 5)
    acts = np.bincount(log.states * 3 + log.actions, minlength=12).reshape(4, 3)
    starts = np.bincount(log.start_states, minlength=4)[None]
    for counts, probs in ((moves, mdp.P.toarray()), (acts, pi), (starts, mdp.d0[None])):
        expected = counts.sum(axis=1, keepdims=True) * probs
        assert (counts[probs == 0] == 0).all()
        possible = probs > 0
        statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
        assert statistic < chi2.ppf(1 - 1e-4, possible.sum() - probs.shape[0])


def test_mean_return_is_the_policy_value():
    mdp, pi = random_mdp(5)
    log = simulate(mdp, pi, 20_000, seed=0, horizon=6)
    returns = np.add.reduceat(log.rewards, log.offsets[:-1])
    error = returns.std() / np.sqrt(returns.size)
    assert abs(returns.mean() - policy_value(mdp, pi, 6)) < 4 * error


def test_the_sampler_never_leaves_its_row_nor_draws_probability_zero():
    class Edge:
        """A generator at the edges of [0, 1)."""

        def random(self, size: int) -> np.ndarray:
            return np.resize([0.0, np.nextafter(1.0, 0.0), 0.5, np.nextafter(0.5, 0.0)], size)

    probs = np.tile([0.0, 0.5, 0.0, 0.5, 0.0], 5000)
    sampler = RowSampler(probs, np.arange(0, probs.size + 1, 5))
    rows = np.repeat(np.array([0, 1, 4096, 4999]), 4)
    # In a high row the largest uniform below one half and one half itself round to the same number.
    within = sampler.draw(rows, Edge()) - 5 * rows
    assert within[:4].tolist() == [1, 3, 3, 1]
    assert set(within.tolist()) == {1, 3}


def test_bad_requests_are_refused():
    mdp, pi = random_mdp(0)
    with pytest.raises(OptionError, match="episodes"):
        simulate(mdp, pi, 0, seed=0)
    with pytest.raises(PolicyError, match="shape"):
        simulate(mdp, pi[:2], 5, seed=0)
    for_ever = TabularMDP(np.ones((1, 1, 1)), [[1.0]], [1.0])
    with pytest.raises(MDPError, match="never terminates"):
        simulate(for_ever, [[1.0]], 5, seed=0)
