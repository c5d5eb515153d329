"""The return test against plain loops, and its degenerate cases."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from negligible.logs import plain, random_case

import deadweight as dw
from deadweight.domains import deterministic_lift
from deadweight.negligible import DropWarning, return_test
from deadweight.negligible.state_tests import return_p_values


@pytest.mark.filterwarnings("ignore::deadweight.negligible.DropWarning")
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_plain_loops(gamma):
    for seed in range(20):
        episodes, log, *_ = random_case(seed, 4, 3, 20, 5)
        wanted = reference.return_p_values(plain(episodes), gamma)
        p, visits = return_p_values(log, gamma)
        np.testing.assert_allclose(p[list(wanted)], list(wanted.values()), rtol=1e-9, atol=1e-12)
        assert visits.sum() == log.n_steps
        for alpha in (0.05, 0.5):
            assert set(return_test(log, alpha, gamma).states) == reference.return_test_set(
                plain(episodes), alpha, gamma
            )


def test_degenerate_states():
    log = dw.Trajectories.from_episodes(
        [[(0, 0, 1.0)], [(0, 0, 2.0)]]  # one action only
        + [[(1, 0, 1.0)], [(1, 1, 2.0)]]  # each action once
        + [[(2, a, 0.3)] for a in (0, 0, 1, 1)]  # all returns equal
        + [[(3, a, float(a))] for a in (0, 0, 1, 1)]  # they differ between actions only
        + [[(5, 0, 0.0)]]
    )
    p, visits = return_p_values(log)
    np.testing.assert_array_equal(p, [np.nan, np.nan, 1.0, 0.0, np.nan, np.nan])
    assert visits[4] == 0
    found = return_test(log)
    assert found.states == [2]
    assert "return test" in str(found)


def test_keeps_the_start_of_the_lift_and_drops_lift_states():
    problem = deterministic_lift(9)
    found = return_test(problem.sample(1000))
    assert 3 not in found.states  # the start: left or right decides everything
    assert {1, 2, 4, 5} <= set(found.states)


def test_a_warning_when_nothing_is_covered():
    log = dw.Trajectories.from_episodes([[(0, a, 10.0 * a + e)] for a in (0, 1) for e in (0.0, 0.1, 0.2)])
    with pytest.warns(DropWarning, match="no logged step"):
        return_test(log)


@pytest.mark.parametrize("alpha", [-0.1, 1.0, float("nan")])
def test_alpha_is_checked(alpha):
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)]])
    with pytest.raises(dw.errors.OptionError, match="alpha must"):
        return_test(log, alpha)
