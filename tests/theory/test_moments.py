"""Exact moments: closed forms, sums over all trajectories, and one simulated check."""

from __future__ import annotations

import numpy as np
import pytest
from theory.small_mdps import random_mdp, random_policy, trajectories

from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.errors import DropError, MDPError, OptionError, PolicyError, UnknownEstimator
from deadweight.mdp.problem import simulate
from deadweight.mdp.tabular import TabularMDP, policy_value
from deadweight.negligible.state_tests import lift
from deadweight.theory import episodes_needed, moments


@pytest.mark.parametrize("size", range(7, 18, 2))
def test_closed_forms_of_the_deterministic_lift(size):
    p, b = deterministic_lift(size), size // 2
    expected = {
        "IS": 2**b - 1,
        "SIS": 3,
        "SPDIS": 2 * b**2 + 1,
        "PDIS": sum(2.0 ** -(j + 1) * (2 ** (j + 1) - 2) ** 2 for j in range(1, b))
        + 2.0**-b * (b * 2**b - 2**b + 2) ** 2
        - 1,
    }
    for estimator, variance in expected.items():
        found = moments(p.mdp, p.pi_e, p.pi_b, estimator, lift(p.mdp))
        assert found.variance == pytest.approx(variance, rel=1e-10)
        assert found.mean == pytest.approx(1.0, rel=1e-10)
        assert found.bias == pytest.approx(0.0, abs=1e-10)


def enumerated(mdp, pi_e, pi_b, estimator, dropped, horizon, gamma):
    first = second = 0.0
    for probability, steps in trajectories(mdp, pi_b, horizon):
        weight, ret, terms = 1.0, 0.0, 0.0
        for t, (s, a, r) in enumerate(steps):
            weight *= 1.0 if s in dropped and estimator.startswith("S") else pi_e[s, a] / pi_b[s, a]
            ret += gamma**t * r
            terms += gamma**t * weight * r
        x = terms if estimator.endswith("PDIS") else weight * ret
        first += probability * x
        second += probability * x**2
    return first, second - first**2


@pytest.mark.parametrize("estimator", ["IS", "SIS", "PDIS", "SPDIS"])
@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_moments_are_sums_over_all_trajectories(estimator, gamma, seed):
    mdp = random_mdp(seed, transition_rewards=seed != 2)
    pi_e, pi_b = random_policy(seed), random_policy(seed + 50)
    found = moments(mdp, pi_e, pi_b, estimator, [1], horizon=4, gamma=gamma)
    mean, variance = enumerated(mdp, pi_e, pi_b, estimator, {1}, 4, gamma)
    assert found.mean == pytest.approx(mean, rel=1e-10, abs=1e-12)
    assert found.variance == pytest.approx(variance, rel=1e-10)
    mixed = pi_e.copy()
    if estimator.startswith("S"):
        mixed[1] = pi_b[1]
    bias = policy_value(mdp, mixed, 4, gamma) - policy_value(mdp, pi_e, 4, gamma)
    assert found.bias == pytest.approx(bias, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("estimator", ["IS", "PDIS"])
def test_an_action_never_logged_costs_bias(estimator):
    mdp, pi_e = random_mdp(3), random_policy(3)
    pi_b = np.array([[0.5, 0.5], [1.0, 0.0], [0.3, 0.7]])
    found = moments(mdp, pi_e, pi_b, estimator, horizon=3)
    first = second = 0.0
    for probability, steps in trajectories(mdp, pi_b, 3):
        rho = np.cumprod([pi_e[s, a] / pi_b[s, a] for s, a, _ in steps])
        rewards = np.array([r for _, _, r in steps])
        x = (rho * rewards).sum() if estimator == "PDIS" else rho[-1] * rewards.sum()
        first, second = first + probability * x, second + probability * x**2
    assert found.mean == pytest.approx(first, rel=1e-10)
    assert found.variance == pytest.approx(second - first**2, rel=1e-10)
    assert abs(found.bias) > 1e-3


@pytest.mark.parametrize("estimator", ["SIS", "SPDIS"])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_until_termination_is_the_limit_of_finite_horizons(estimator, gamma):
    mdp = random_mdp(1, ends=0.6)
    pi_e, pi_b = 0.5 * (random_policy(1) + 0.5), 0.5 * (random_policy(2) + 0.5)
    found = moments(mdp, pi_e, pi_b, estimator, [0], gamma=gamma)
    limit = moments(mdp, pi_e, pi_b, estimator, [0], horizon=2000, gamma=gamma)
    assert found.mean == pytest.approx(limit.mean, rel=1e-10)
    assert found.variance == pytest.approx(limit.variance, rel=1e-10)
    assert found.bias == pytest.approx(limit.bias, rel=1e-9, abs=1e-12)


def test_equal_policies_give_the_variance_of_the_return():
    mdp, pi = random_mdp(4), random_policy(4)
    plain = moments(mdp, pi, pi, "IS", horizon=5)
    for estimator in ("SIS", "PDIS", "SPDIS"):
        same = moments(mdp, pi, pi, estimator, [0, 2], horizon=5)
        assert same.variance == pytest.approx(plain.variance, rel=1e-10)
        assert same.bias == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("estimator", ["SIS", "SPDIS"])
def test_simulated_mean_and_variance(estimator):
    mdp, n = random_mdp(6), 40_000
    pi_e, pi_b = random_policy(6), random_policy(7)
    exact = moments(mdp, pi_e, pi_b, estimator, [2], horizon=4)
    log = simulate(mdp, pi_b, n, seed=0, horizon=4)
    k = np.where(log.states == 2, 1.0, pi_e[log.states, log.actions] / log.propensities)
    x = np.empty(n)
    for i, (lo, hi) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        w = np.cumprod(k[lo:hi])
        x[i] = w @ log.rewards[lo:hi] if estimator == "SPDIS" else w[-1] * log.rewards[lo:hi].sum()
    squares = (x - exact.mean) ** 2
    assert abs(x.mean() - exact.mean) < 4 * x.std() / np.sqrt(n)
    assert abs(squares.mean() - exact.variance) < 4 * squares.std() / np.sqrt(n)


def test_all_ways_to_name_a_drop_agree():
    mdp, pi_e, pi_b = random_mdp(0), random_policy(0), random_policy(1)
    everywhere = TabularMDP(mdp.P, mdp.r, mdp.d0)
    by_index = moments(everywhere, pi_e, pi_b, "SIS", [0, 2], horizon=3)
    by_mask = moments(everywhere, pi_e, pi_b, "SIS", np.array([True, False, True]), horizon=3)
    by_set = moments(everywhere, pi_e, pi_b, "SIS", ~lift(everywhere) & ~lift(everywhere), horizon=3)
    assert by_index == by_mask
    assert by_set == moments(everywhere, pi_e, pi_b, "SIS", [0, 1, 2], horizon=3)
    assert moments(mdp, pi_e, pi_b, "SIS", None, horizon=3) == moments(mdp, pi_e, pi_b, "IS", [1], horizon=3)


def test_mse_and_episodes_needed():
    p = deterministic_lift(11)
    args = (p.mdp, p.pi_e, p.pi_b)
    assert moments(*args, "IS").mse(1000) == pytest.approx(0.031, rel=1e-10)
    assert episodes_needed(*args, 0.1, "IS") == 3100
    assert episodes_needed(*args, 0.1, drop=lift(p.mdp)) == 300
    assert episodes_needed(*args, 100.0, "IS") == 1
    with pytest.raises(OptionError, match="std_error"):
        episodes_needed(*args, 0.0)


def test_an_infinite_second_moment_is_refused():
    p = stochastic_lift(7)
    with pytest.raises(MDPError, match="second moment"):
        moments(p.mdp, p.pi_e, p.pi_b, "IS")
    assert moments(p.mdp, p.pi_e, p.pi_b, "IS", horizon=10).variance > 0
    # Right at the edge: E[rho^2] = 1.25 against an 80 % chance to go on.
    P = np.array([[[0.8], [0.8]]])
    edge = TabularMDP(P, [[1.0, 1.0]], [1.0])
    with pytest.raises(MDPError, match="second moment"):
        moments(edge, [[0.75, 0.25]], [[0.5, 0.5]], "IS")
    assert moments(edge, [[0.74, 0.26]], [[0.5, 0.5]], "IS").variance > 0


def test_bad_input_is_refused():
    mdp, pi = random_mdp(0), random_policy(0)
    with pytest.raises(UnknownEstimator, match="Did you mean 'PDIS'"):
        moments(mdp, pi, pi, "WPDIS")
    with pytest.raises(DropError, match="states 0 to 2"):
        moments(mdp, pi, pi, "SIS", [3])
    with pytest.raises(PolicyError, match="shape"):
        moments(mdp, pi[:2], pi)
    for_ever = TabularMDP(np.ones((1, 1, 1)), [[1.0]], [1.0])
    with pytest.raises(MDPError, match="never terminates"):
        moments(for_ever, [[1.0]], [[1.0]], "IS")
