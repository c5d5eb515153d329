"""Bumps: what the columns are, what wild and constant features do to them, and where centres lie."""

from __future__ import annotations

import numpy as np

from deadweight.tools.bumps import Bumps, k_means, squared_distances


def test_columns_by_plain_loops():
    x = np.random.default_rng(1).normal(3.0, 2.0, (40, 2))
    basis = Bumps.fitted(x, size=5, seed=2)
    columns = basis.of(x)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    for i in range(len(x)):
        bumps = [np.exp(-sum((z[i] - c) ** 2) / (2 * basis.width**2)) for c in basis.centres]
        np.testing.assert_allclose(columns[i], [1.0, *z[i], *bumps], rtol=1e-12)


def test_a_wild_row_is_cut_at_six_standard_deviations():
    x = np.random.default_rng(0).normal(size=(1000, 1))
    basis = Bumps.fitted(x, size=0)
    assert basis.of(np.array([[1e12], [-np.inf]]))[:, 1].tolist() == [6.0, -6.0]


def test_constant_columns_are_zero_not_nan():
    x = np.column_stack([np.full(30, 1e6), np.arange(30.0)])
    columns = Bumps.fitted(x, size=3).of(x)
    assert (columns[:, 1] == 0).all()
    assert np.isfinite(columns).all()


def test_fewer_different_rows_than_centres():
    x = np.repeat([[0.0], [1.0], [2.0]], 10, axis=0)
    assert len(Bumps.fitted(x, size=100).centres) == 3


def test_k_means_improves_on_its_start_and_repeats_itself():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(place, 0.1, (200, 2)) for place in (-3.0, 0.0, 3.0)])
    centres = k_means(x, 3, np.random.default_rng(0))
    assert np.abs(np.sort(centres[:, 0]) - [-3, 0, 3]).max() < 0.05  # 0.1 / sqrt(200) is 0.007
    np.testing.assert_array_equal(centres, k_means(x, 3, np.random.default_rng(0)))


def test_distances_are_never_negative():
    x = np.full((5, 3), 1e8) + np.random.default_rng(0).normal(size=(5, 3))
    assert (squared_distances(x, x) >= 0).all()
