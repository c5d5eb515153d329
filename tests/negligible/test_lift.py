"""Lift states, read off the MDP."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.domains import deterministic_lift, inventory, stochastic_lift
from deadweight.mdp.tabular import TabularMDP
from deadweight.negligible.state_tests import lift


@pytest.mark.parametrize("size", [5, 7, 9, 17])
def test_lift_states_of_the_lift_domains(size):
    b = size // 2
    expected = [p + b - 1 for p in range(-b + 1, b) if p != 0 and abs(p) != b - 1]
    assert lift(deterministic_lift(size).mdp).states == expected
    assert lift(stochastic_lift(size).mdp).states == expected


def test_a_different_reward_is_a_different_action():
    P = np.full((2, 2, 3), 1 / 3)
    assert lift(TabularMDP(P, [[1.0, 1.0], [1.0, 2.0]], [1.0, 0.0])).states == [0]


def test_a_full_store_is_a_lift_state():
    found = lift(inventory(pi_e=np.full((10, 10), 0.1)).mdp)
    assert found.states == [9]  # no room: every order is cut to nothing
    assert found.origin == "lift states of the MDP"
