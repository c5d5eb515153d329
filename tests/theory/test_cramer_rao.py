"""Cramer-Rao bounds: below every unbiased product estimator, and reached where nothing is left to gain."""

from __future__ import annotations

import numpy as np
import pytest
from theory.small_mdps import random_mdp, random_policy, trajectories

from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.mdp.tabular import TabularMDP
from deadweight.theory import cramer_rao, moments


@pytest.mark.parametrize("seed", range(50))
def test_no_unbiased_estimator_is_below(seed):
    mdp = random_mdp(seed, S=4, A=3)
    pi_e, pi_b = random_policy(seed, 4, 3), random_policy(seed + 99, 4, 3)
    horizon, gamma = 1 + seed % 6, 1.0 if seed % 2 else 0.9
    bound = cramer_rao(mdp, pi_e, pi_b, horizon, gamma)
    pooled = cramer_rao(mdp, pi_e, pi_b, horizon, gamma, homogeneous=True)
    assert pooled <= bound * (1 + 1e-12)
    for estimator in ("IS", "PDIS"):
        assert bound <= moments(mdp, pi_e, pi_b, estimator, horizon=horizon, gamma=gamma).variance * (
            1 + 1e-12
        )


def test_one_action_leaves_only_the_variance_of_the_return():
    mdp, only = random_mdp(0, S=3, A=1), np.ones((3, 1))
    for horizon in (1, 5):
        exact = moments(mdp, only, only, "IS", horizon=horizon, gamma=0.9).variance
        assert cramer_rao(mdp, only, only, horizon, 0.9) == pytest.approx(exact, rel=1e-10)
    assert cramer_rao(mdp, only, only) == pytest.approx(moments(mdp, only, only, "IS").variance, rel=1e-9)


def test_one_step_makes_both_bounds_equal():
    mdp, pi_e, pi_b = random_mdp(1), random_policy(1), random_policy(2)
    pooled = cramer_rao(mdp, pi_e, pi_b, 1, homogeneous=True)
    assert cramer_rao(mdp, pi_e, pi_b, 1) == pytest.approx(pooled, rel=1e-12)


def test_definition_by_enumeration():
    mdp, pi_e, pi_b, H, gamma = random_mdp(2), random_policy(2), random_policy(3), 3, 0.9
    S, A = pi_e.shape
    P = mdp.P.toarray().reshape(S, A, S + 1)
    R = np.zeros(P.shape)
    R[P > 0] = mdp.transition_rewards
    d = {}
    for name, pi in (("e", pi_e), ("b", pi_b)):
        d[name] = np.zeros((H, S, A))
        for probability, steps in trajectories(mdp, pi, H):
            for t, (s, a, _) in enumerate(steps):
                d[name][t, s, a] += probability
    v = np.zeros((H + 1, S + 1))
    for t in reversed(range(H)):
        v[t, :-1] = (pi_e[:, :, None] * P * (R + gamma * v[t + 1])).sum(axis=(1, 2))

    def spread(outcome: np.ndarray) -> np.ndarray:
        return (P * outcome**2).sum(axis=2) - (P * outcome).sum(axis=2) ** 2

    start = mdp.d0 @ v[0, :-1] ** 2 - (mdp.d0 @ v[0, :-1]) ** 2
    varying = start + sum(
        (gamma ** (2 * t) * d["e"][t] ** 2 / d["b"][t] * spread(R + gamma * v[t + 1])).sum() for t in range(H)
    )
    outcome = sum(gamma**t * d["e"][t][:, :, None] * (R + gamma * v[t + 1]) for t in range(H))
    pooled = start + (spread(outcome) / d["b"].sum(axis=0)).sum()
    assert cramer_rao(mdp, pi_e, pi_b, H, gamma) == pytest.approx(varying, rel=1e-10)
    assert cramer_rao(mdp, pi_e, pi_b, H, gamma, homogeneous=True) == pytest.approx(pooled, rel=1e-10)


@pytest.mark.parametrize("homogeneous", [False, True])
def test_until_termination_is_the_limit_of_finite_horizons(homogeneous):
    mdp = random_mdp(1, ends=0.5)
    pi_e, pi_b = 0.5 * (random_policy(1) + 0.5), 0.5 * (random_policy(2) + 0.5)
    limit = cramer_rao(mdp, pi_e, pi_b, 300, homogeneous=homogeneous)
    assert cramer_rao(mdp, pi_e, pi_b, homogeneous=homogeneous) == pytest.approx(limit, rel=1e-10)


def test_a_deterministic_domain_has_nothing_to_estimate():
    p = deterministic_lift(9)
    assert cramer_rao(p.mdp, p.pi_e, p.pi_b) == 0.0
    assert cramer_rao(p.mdp, p.pi_e, p.pi_b, homogeneous=True) == 0.0


def test_what_the_behaviour_policy_never_shows_cannot_be_estimated():
    mdp = random_mdp(0)
    never = np.array([[1.0, 0.0]] * 3)
    assert cramer_rao(mdp, random_policy(0), never, 3) == np.inf
    assert cramer_rao(mdp, random_policy(0), never, 3, homogeneous=True) == np.inf
    sure = TabularMDP(np.tile(np.eye(4)[3], (3, 2, 1)), np.ones((3, 2)), [1.0, 0.0, 0.0])
    assert cramer_rao(sure, random_policy(0), never, 1) == 0.0  # no spread, no data needed


def test_pi_e_outliving_pi_b_makes_the_time_varying_bound_infinite():
    p = stochastic_lift(7)
    assert cramer_rao(p.mdp, p.pi_e, p.pi_b) == np.inf
    assert 0 < cramer_rao(p.mdp, p.pi_e, p.pi_b, homogeneous=True) < 50
