"""Diagnostics of weights and support on logs worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import deadweight as dw
from deadweight.diagnostics import support, weights

EPISODES = [[(0, 0, 1.0), (1, 0, 0.0)], [(0, 1, 1.0), (1, 1, 0.0)], [(0, 1, 1.0)], [(1, 0, 1.0), (0, 0, 0.0)]]
LOG = dw.Trajectories.from_episodes(EPISODES)
PI_E = [[0.25, 0.75], [0.0, 1.0]]
PI_B = [[0.5, 0.5], [0.6, 0.4]]


def test_by_hand() -> None:
    found = weights(LOG, PI_E, PI_B)
    b = np.array([0.0, 1.5 * 2.5, 1.5, 0.0])
    assert found.ess == pytest.approx(b.sum() ** 2 / (b**2).sum())
    assert found.largest_share == pytest.approx(3.75 / 5.25)
    assert found.mean == pytest.approx(b.mean())
    assert math.isnan(found.mean_z)  # of four episodes, a mean of 0 would be no surprise
    assert found.zero_ratio_share == pytest.approx(2 / 7)
    assert found.zero_weight_share == 0.5
    assert (found.kept_visits, found.dropped_visits) == (7 / 4, 0.0)
    assert found.dropped_mean is None
    first = np.array([0.5, 1.5, 1.5, 0.0])
    assert found.ess_steps[0] == pytest.approx(first.sum() ** 2 / (first**2).sum())
    assert found.ess_steps[1] == pytest.approx(found.ess)
    assert math.isnan(found.pareto_k)


def test_with_a_drop() -> None:
    found = weights(LOG, PI_E, PI_B, drop=[1])
    a = np.array([0.0, 2.5, 1.0, 0.0])
    assert found.dropped_mean == pytest.approx(a.mean())
    assert math.isnan(found.dropped_mean_z)
    b = np.array([0.5, 1.5, 1.5, 0.5])
    assert found.ess == pytest.approx(b.sum() ** 2 / (b**2).sum())
    assert (found.kept_visits, found.dropped_visits) == (1.0, 0.75)
    assert found.ess == pytest.approx(dw.estimate("WSIS", LOG, PI_E, PI_B, drop=[1], interval=None).ess)


def test_equal_policies() -> None:
    found = weights(LOG, PI_B, PI_B)
    assert (found.mean, found.mean_z) == (1.0, 0.0)
    assert found.ess == pytest.approx(4.0)


def test_range() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 0.0)] * 2000, [(0, 1, 0.0)] * 2000])
    found = weights(log, [[1e-6, 1 - 1e-6]], [[0.5, 0.5]])
    assert found.ess == pytest.approx(1.0)
    assert found.largest_share == pytest.approx(1.0)


def test_estimates_know_how_far_their_weights_are_from_one() -> None:
    log = dw.Trajectories.from_episodes(EPISODES * 100)
    asked = (log, [[0.45, 0.55], [0.5, 0.5]], PI_B)
    found, report = dw.estimate("WSIS", *asked, drop=[1]), weights(*asked, drop=[1])
    assert found.mean_weight_z == pytest.approx(report.mean_z)
    assert report.dropped_mean_z == pytest.approx(weights(*asked, drop=[0]).mean_z)
    assert dw.estimate("DM", LOG, PI_E, PI_B).mean_weight_z is None


def test_support() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0), (1, 1, 0.0)], [(0, 0, 0.0)]])
    found = support(log, [[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    cells = [(one.state, one.action, one.probability, one.visits, one.possible) for one in found.violations]
    assert cells == [(0, 1, 0.5, 2, False), (1, 0, 0.25, 1, True)]
    assert found.unseen_mass == pytest.approx((2 * 0.5 + 0.25) / 3)
    assert found.n_states == 2
