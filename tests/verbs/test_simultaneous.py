"""Bounds that hold all together: the draws, and what makes a difference wide."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from deadweight.verbs.contenders import Contender, Contest, Draws


def test_the_simulated_quantile_is_that_of_independent_and_of_equal_numbers():
    draws = Draws(0.95, 200_000, 0)
    assert draws.quantile(np.eye(1), True) == pytest.approx(1.960, abs=0.02)
    assert draws.quantile(np.eye(1), False) == pytest.approx(1.645, abs=0.02)
    # The largest of ten independent ones: (2 Phi(c) - 1)^10 = .95.
    assert draws.quantile(np.eye(10), True) == pytest.approx(2.800, abs=0.02)
    assert draws.quantile(np.ones((10, 10)), True) == pytest.approx(1.960, abs=0.02)
    # Never less than for one alone, nor more than for as many independent ones, however few the draws.
    assert draws.quantile(np.zeros((3, 3)), True) == pytest.approx(1.960, abs=1e-3)
    few = [Draws(0.95, 100, seed).quantile(np.eye(3), True) for seed in range(20)]
    assert max(few) == pytest.approx(stats.norm.ppf(0.5 + 0.95 ** (1 / 3) / 2))
    assert min(few) >= stats.norm.ppf(0.975)


def test_it_is_the_multiplier_bootstrap():
    """Drawn from the covariance, or with a normal multiplier for every episode: the same law."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 300)) + rng.normal(size=300)
    rows -= rows.mean(axis=1, keepdims=True)
    covariance = rows @ rows.T / 300**2
    multiplied = np.abs(rng.normal(size=(40_000, 300)) @ rows.T / 300) / np.sqrt(np.diag(covariance))
    assert Draws(0.95, 40_000, 1).quantile(covariance, True) == pytest.approx(
        np.quantile(multiplied.max(axis=1), 0.95), abs=0.03
    )


def contender(value, influence, **more):
    return Contender(value, influence - influence.mean(), **more)


def test_what_two_policies_share_cancels():
    rng = np.random.default_rng(0)
    shared, unseen = rng.normal(size=400), rng.normal(size=20)
    one = contender(2.0, shared, unseen=unseen, shared_bias=0.5, ess=50.0)
    twin = contender(1.0, shared, unseen=unseen, shared_bias=0.5, ess=50.0)
    contest = Contest([one, twin], contender(0.0, np.zeros(400)), Draws(0.95, 1000, 0))
    assert contest.half_width(0, 1, 2.0) == pytest.approx(0.0, abs=1e-9)
    error = np.sqrt(shared.var(ddof=1) / 400 + 2 * np.square(unseen).sum())
    assert contest.half_width(0, 2, 2.0) == pytest.approx(1.15 * 2.0 * error + 0.5, rel=1e-4)


def test_noise_and_bias_push_out_by_the_root_of_their_squares():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=400)
    one = contender(2.0, noise, shared_bias=0.5, ess=50.0)
    other = contender(1.0, np.zeros(400), ess=50.0)
    weak = contender(9.0, noise, allowance=np.inf, ess=3.0)
    contest = Contest([one, other, weak], contender(0.0, np.zeros(400)), Draws(0.95, 1000, 0))
    error = np.sqrt(noise.var(ddof=1) / 400)
    assert contest.pushes_out(0, 1, 2.0) == pytest.approx(np.hypot(1.15 * 2.0 * error, 0.5), rel=1e-6)
    assert contest.pushes_out(2, 1, 2.0) == np.inf
    assert contest.pushes_out(0, 1, 2.0) <= contest.half_width(0, 1, 2.0)
