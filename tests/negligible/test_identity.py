"""V(mu_D) - V(pi_e) = -Cov(A, BG) = -sum E[gamma^t B 1{D} delta], over all trajectories of small MDPs."""

from __future__ import annotations

import numpy as np
import pytest
from theory.small_mdps import random_mdp, random_policy, trajectories

import deadweight as dw

HORIZON = 4


@pytest.mark.parametrize("drop", [(), (0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_the_bias_of_dropping(seed, gamma, drop):
    mdp, pi_e, pi_b = random_mdp(seed), random_policy(seed), random_policy(seed + 50)
    if seed == 1:
        pi_e[0] = [0.0, 1.0]
    mu = np.where(np.isin(np.arange(3), drop)[:, None], pi_b, pi_e)
    bias = dw.policy_value(mdp, mu, HORIZON, gamma) - dw.policy_value(mdp, pi_e, HORIZON, gamma)
    delta = ((pi_e - pi_b) * dw.q_values(mdp, pi_e, HORIZON, gamma)).sum(axis=2)

    mean_a = mean_bg = mean_abg = lost = 0.0
    for probability, steps in trajectories(mdp, pi_b, HORIZON):
        a = b = 1.0
        total = 0.0
        for t, (s, action, reward) in enumerate(steps):
            total += gamma**t * reward
            rho = pi_e[s, action] / pi_b[s, action]
            if s in drop:
                lost += probability * gamma**t * b * delta[t, s]
                a *= rho
            else:
                b *= rho
        mean_a += probability * a
        mean_bg += probability * b * total
        mean_abg += probability * a * b * total
    assert mean_abg - mean_a * mean_bg == pytest.approx(-bias, abs=1e-12)
    assert lost == pytest.approx(-bias, abs=1e-12)
    assert mean_a == pytest.approx(1.0)
    assert mean_bg == pytest.approx(dw.policy_value(mdp, mu, HORIZON, gamma), abs=1e-12)
