"""Standard errors of whole-episode estimates from one pass are those of their influences."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.sums.summaries import WholeSums


def _expected(weights: np.ndarray, returns: np.ndarray) -> np.ndarray:
    values = (weights * returns[:, None]).sum(axis=0) / weights.sum(axis=0)
    influence = weights * (returns[:, None] - values) / weights.mean(axis=0)
    return influence.std(axis=0, ddof=1) / np.sqrt(len(returns))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_errors_are_those_of_the_influences_for_any_cuts(offset: float) -> None:
    rng = np.random.default_rng(7)
    weights, returns = np.exp(2 * rng.normal(size=(500, 3))), offset + rng.normal(size=500)
    found = None
    for lo, hi in ((0, 1), (1, 40), (40, 41), (41, 300), (300, 500)):
        one = WholeSums.of(weights[lo:hi], returns[lo:hi])
        found = one if found is None else found.merge(one)
    assert found is not None
    np.testing.assert_allclose(found.std_error(500), _expected(weights, returns), rtol=1e-9)


def test_equal_returns_leave_exactly_no_error() -> None:
    rng = np.random.default_rng(8)
    weights = rng.random((100, 2)) * (rng.random((100, 1)) < 0.5)
    returns = np.where(weights[:, 0] > 0, 1.0, 5.0)
    both = WholeSums.of(weights[:50], returns[:50]).merge(WholeSums.of(weights[50:], returns[50:]))
    assert np.all(both.std_error(100) < 1e-12)


def test_no_weight_and_a_single_episode() -> None:
    none = WholeSums.of(np.zeros((3, 1)), np.ones(3))
    assert none.std_error(3)[0] == 0.0
    assert np.isnan(WholeSums.of(np.ones((1, 1)), np.ones(1)).std_error(1)[0])
