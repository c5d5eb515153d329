"""The state report: chi2 by hand, variance cost and bias against sums over all trajectories."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import deadweight as dw
from deadweight.diagnostics import state_report
from deadweight.diagnostics.states import chi_squared, variance_costs
from deadweight.errors import DropError

sys.path.insert(0, str(Path(__file__).parents[1] / "theory"))
from small_mdps import random_mdp, random_policy, trajectories

HORIZON = 4


def test_chi_squared_by_hand() -> None:
    pi_e, pi_b = (
        np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]]),
        np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]]),
    )
    np.testing.assert_allclose(chi_squared(pi_e, pi_b), [0.36, 3.0, math.inf])
    np.testing.assert_allclose(chi_squared(pi_b, pi_b), 0.0, atol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_variance_cost_against_all_trajectories(seed: int) -> None:
    mdp, pi_e, pi_b = random_mdp(seed), random_policy(seed), random_policy(seed + 50)
    rho = pi_e / pi_b

    def second_moment(dropped: int | None) -> float:
        return sum(
            chance * math.prod(1.0 if s == dropped else rho[s, a] for s, a, _ in steps) ** 2
            for chance, steps in trajectories(mdp, pi_b, HORIZON)
        )

    expected = [math.log(second_moment(None)) - math.log(second_moment(s)) for s in range(3)]
    found = variance_costs(mdp, pi_e, pi_b, HORIZON, np.arange(3))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_variance_cost_in_range_over_long_horizons() -> None:
    clock = dw.TabularMDP(
        P=[[[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]], R=np.zeros((2, 2)), d0=[1.0, 0.0]
    )
    pi_e, pi_b = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([[0.1, 0.9], [0.5, 0.5]])
    found = variance_costs(clock, pi_e, pi_b, 2000, np.arange(2))
    np.testing.assert_allclose(found, [1000 * math.log(10.0), 0.0], rtol=1e-10)


@pytest.mark.parametrize("drop", [[], [1], [0, 2]])
def test_bias_of_the_dropped_states_is_that_of_the_model(drop: list[int]) -> None:
    mdp, pi_e, pi_b = random_mdp(1), random_policy(1), random_policy(51)
    log = dw.simulate(mdp, pi_b, 400, seed=0, horizon=HORIZON)
    report = state_report(log, pi_e, pi_b, drop=drop, gamma=0.9)
    model = dw.fit_mdp(log)
    mu = np.where(np.isin(np.arange(3), drop)[:, None], pi_b, pi_e)
    values = [dw.policy_value(model, pi, HORIZON, gamma=0.9) for pi in (mu, pi_e)]
    assert report.total_bias == pytest.approx(values[0] - values[1])
    assert [label for label, flag in zip(report.labels, report.dropped, strict=True) if flag] == [
        label for label in report.labels if label in drop
    ]


def test_table_frame_and_order() -> None:
    lift = dw.domains.stochastic_lift(7)
    report = state_report(lift.sample(300), lift.pi_e, lift.pi_b, drop="q-gap:1.0")
    assert (np.diff(report.variance_cost) <= 0).all()
    assert list(report.to_frame().columns)[:2] == ["state", "visits"]
    lines = str(report).splitlines()
    assert len(lines) == len(report) + 1
    assert "variance cost" in lines[0]
    assert report.dropped.any()
    log = lift.sample(50)
    with pytest.raises(DropError, match="flag for each step"):
        state_report(log, lift.pi_e, lift.pi_b, drop=np.zeros(log.n_steps, dtype=bool))
