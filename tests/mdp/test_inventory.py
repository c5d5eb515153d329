"""Inventory management: twenty exact values, the policies, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.domains import inventory
from deadweight.errors import OptionError, PolicyError
from deadweight.mdp.tabular import policy_value

VALUES = {
    ("round", "textbook"): (359.5843965225, 335.6074678999, 338.7741650344, 339.1662244589, 353.7640143615),
    ("round", "published"): (
        1708.3609446476,
        1303.4370280648,
        1708.3609446476,
        1663.4752771829,
        538.9278170355,
    ),
    ("ceil", "textbook"): (429.1926807641, 399.4114280764, 411.3865416743, 412.0145658269, 424.5300000000),
    ("ceil", "published"): (
        1590.9783165047,
        1074.1922406771,
        1590.9783165047,
        1517.6591286204,
        424.5300000000,
    ),
}
UNIFORM = np.full((10, 10), 0.1)


def ordering(*units: int) -> np.ndarray:
    return np.eye(10)[np.resize(units, 10)]


@pytest.mark.parametrize(("demand", "reward"), VALUES)
def test_exact_values(demand, reward):
    mdp = inventory(10, demand, reward, pi_e=UNIFORM).mdp
    v = np.zeros(11)
    for _ in range(100):
        v[:-1] = (mdp.r + (mdp.P @ v).reshape(10, 10)).max(axis=1)
    up_to_six = ordering(*np.maximum(6 - np.arange(10), 0))
    policies = (UNIFORM, ordering(9), ordering(5), up_to_six)
    found = [v[0], *(policy_value(mdp, pi) for pi in policies)]
    np.testing.assert_allclose(found, VALUES[demand, reward], atol=1e-9)


def test_horizon_and_size_are_free():
    problem = inventory(6, horizon=3, pi_e=np.full((6, 6), 1 / 6))
    assert problem.horizon == 3
    assert problem.mdp.n_states == 6
    log = problem.sample(20, seed=0)
    assert (log.lengths == 3).all()
    assert not log.terminated.any()
    assert (log.next_states >= 0).all()


def test_policy_gradient_learns_and_is_the_same_for_everybody():
    problem = inventory()
    np.testing.assert_array_equal(problem.pi_e.probs, inventory().pi_e.probs)
    assert problem.behaviour_value < problem.true_value < VALUES["round", "textbook"][0]
    assert problem.true_value == pytest.approx(340.9829, abs=1e-3)
    assert problem.pi_e.probs.min() > 0


def test_softened_optimum():
    assert inventory(pi_e="softened-optimal").true_value == pytest.approx(349.4761, abs=5e-5)


def test_a_policy_file(tmp_path):
    np.save(tmp_path / "pi.npy", ordering(5))
    assert inventory(pi_e=str(tmp_path / "pi.npy")).true_value == pytest.approx(339.1662244589, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"S": 1}, OptionError, "at least 2"),
        ({"demand": "floor"}, OptionError, "demand"),
        ({"reward": "exact"}, OptionError, "reward"),
        ({"pi_e": "optimal"}, OptionError, "policy-gradient"),
        ({"pi_e": "nowhere.npy"}, PolicyError, "No policy could be read"),
        ({"pi_e": np.ones((3, 1))}, PolicyError, r"needs \(10, 10\)"),
        ({"horizon": 0}, OptionError, "horizon"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        inventory(**options)
