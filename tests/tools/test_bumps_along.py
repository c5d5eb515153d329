"""Bumps along single features: where they stand, and what they are for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from deadweight_studies.features import WithNoise

import deadweight as dw
from deadweight.question.question import ask
from deadweight.tools.bumps import Bumps

RNG = np.random.default_rng(2)
X = np.column_stack([RNG.normal(size=200), RNG.exponential(size=200), RNG.integers(0, 2, 200)])


def test_columns_by_a_plain_loop():
    basis = Bumps.fitted(X, 20, along=True)
    assert basis.size == 1 + 3 + 10 + 2 * 5, "a column of 0 and 1 has no room for bumps"
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = []
    for j in (0, 1):
        places = np.quantile(z[:, j], [0.1, 0.3, 0.5, 0.7, 0.9])
        width = np.median(np.diff(places))
        expected += [np.exp(-((z[:, j] - place) ** 2) / (2 * width**2)) for place in places]
    np.testing.assert_allclose(basis.of(X)[:, 14:], np.array(expected).T, rtol=1e-12)
    np.testing.assert_array_equal(basis.of(X)[:, :14], Bumps.fitted(X, 10).of(X))


def test_where_nothing_can_stand_along_a_feature_all_stand_between():
    flags = RNG.integers(0, 2, (300, 8))
    assert len(Bumps.fitted(flags, 60, along=True).centres) == 60
    assert Bumps.fitted(flags, 60, along=True).middles.size == 0
    mixed = np.column_stack([np.eye(20)[RNG.integers(0, 20, 300)], RNG.normal(size=300)])
    basis = Bumps.fitted(mixed, 60, along=True)
    assert set(basis.feature.tolist()) == {20}
    assert len(basis.middles) == 6
    assert len(basis.centres) == 30


def logged(features):
    rows = len(features)
    return dw.Trajectories(None, np.arange(rows) % 2, np.ones(rows), np.arange(rows + 1), features=features)


@pytest.mark.parametrize(
    ("features", "between", "along"),
    [(1, 100, 0), (2, 50, 6), (8, 50, 6), (10, 50, 5), (16, 50, 3), (17, 100, 0)],
)
def test_how_many_stand_along_each_feature(features, between, along):
    log = logged(RNG.normal(size=(150, features)))
    uniform = dw.RowPolicy(np.full((150, 2), 0.5))
    basis = ask(log, uniform, uniform).row_values.basis
    assert len(basis.centres) == between
    assert np.bincount(basis.feature, minlength=features).tolist() == [along] * features


def test_features_that_mean_nothing_do_not_hide_the_one_that_does():
    """Bumps between seven features alone are off by 1.9 (root mean square of 20 logs); these by 0.2."""
    lift = dw.domains.continuous_lift()
    noisy = replace(lift, world=WithNoise(lift.world, 6))
    logs = [noisy.sample(300, seed=seed) for seed in range(4)]
    found = [dw.estimate("DM", log, noisy.pi_e, noisy.pi_b, interval=None).value for log in logs]
    assert np.abs(np.array(found) - lift.true_value).max() < 0.8  # four times the error
