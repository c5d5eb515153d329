"""Empirical Bernstein bounds against the formula, with the largest possible weight worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import EstimationError


def test_formula_on_a_bandit() -> None:
    log = dw.Trajectories.from_episodes([[(0, i % 2, float(i % 2))] for i in range(4000)])
    pi_e, pi_b = [[0.25, 0.75]], [[0.5, 0.5]]
    found = dw.estimate("IS", log, pi_e, pi_b, interval="bernstein", return_range=(0.0, 2.0))
    weights, returns = np.tile([0.5, 1.5], 2000), np.tile([0.0, 1.0], 2000)
    odds, largest = math.log(4 / 0.05), 1.5 * 2.0

    def lower(x: np.ndarray) -> float:
        return x.mean() - math.sqrt(2 * x.var(ddof=1) * odds / 4000) - 7 * largest * odds / (3 * 3999)

    expected = (lower(weights * returns), 2.0 - lower(weights * (2.0 - returns)))
    assert found.interval == pytest.approx(expected)


def test_a_drop_shrinks_the_largest_weight() -> None:
    log = dw.Trajectories.from_episodes([[(0, i % 2, 1.0), (1, i % 2, 0.0)] for i in range(2000)])
    pi_e, pi_b = [[0.25, 0.75], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]
    widths = [
        np.diff(
            dw.estimate(
                "SIS", log, pi_e, pi_b, drop=drop, interval="bernstein", return_range=(0.0, 1.5)
            ).interval
        )[0]
        for drop in ([], [1])
    ]
    assert widths[1] < widths[0]


def test_long_episodes_are_honest() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 0.0)] * 3000, [(0, 1, 0.0)] * 2])
    found = dw.estimate("IS", log, [[0.9, 0.1]], [[0.1, 0.9]], interval="bernstein", return_range=(-1.0, 1.0))
    assert found.interval == (-1.0, 1.0)


def test_needs_tables() -> None:
    log = dw.Trajectories([0, 0], [0, 1], [1.0, 0.0], [0, 1, 2], propensities=[0.5, 0.5])
    with pytest.raises(EstimationError, match="both policies"):
        dw.estimate("IS", log, [[0.5, 0.5]], interval="bernstein", return_range=(0.0, 1.0))
