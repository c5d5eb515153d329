"""The tail shape against generalised Pareto quantiles, where it is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from deadweight.diagnostics import pareto_k
from deadweight.diagnostics.tails import shape, tail_size


@pytest.mark.parametrize("k", [-0.3, 0.1, 0.5, 0.9, 1.5])
def test_shape_of_exact_quantiles(k: float) -> None:
    levels = (np.arange(4000) + 0.5) / 4000
    assert shape(stats.genpareto(k).ppf(levels)) == pytest.approx(k, abs=0.02)


@pytest.mark.parametrize("k", [0.3, 0.7, 1.2])
def test_tail_of_pareto_weights(k: float) -> None:
    """The tail of a Pareto distribution of index 1/k has shape k, whatever the cut; a prior pulls to 1/2."""
    levels = (np.arange(20_000) + 0.5) / 20_000
    log_weights = -k * np.log1p(-levels)
    size = tail_size(20_000)
    expected = (size * k + 10 * 0.5) / (size + 10)
    assert pareto_k(log_weights) == pytest.approx(expected, abs=0.04)
    assert pareto_k(log_weights + 300.0) == pytest.approx(pareto_k(log_weights))


def test_no_tail_no_shape() -> None:
    assert math.isnan(pareto_k(np.zeros(100)))
    assert math.isnan(pareto_k(np.log(np.arange(1.0, 11.0))))
    assert math.isnan(pareto_k(np.full(100, -math.inf)))


def test_size_of_the_tail() -> None:
    assert [tail_size(n) for n in (100, 225, 10_000)] == [20, 45, 300]
