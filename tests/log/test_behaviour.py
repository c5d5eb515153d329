"""The behaviour policy from counts: plain, shrunk, cross-fitted."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.domains import stochastic_lift
from deadweight.errors import OptionError
from deadweight.log.behaviour import cross_fitted_propensities, estimate_behaviour
from deadweight.log.trajectories import Trajectories

LOG = Trajectories.from_episodes([[(0, 0, 1.0), (1, 1, 0.0)], [(0, 1, 0.0), (3, 0, 0.0)], [(0, 1, 0.0)]])


def test_plain_counts_and_uniform_where_nothing_was_seen():
    probs = estimate_behaviour(LOG).probs
    assert np.allclose(probs, [[1 / 3, 2 / 3], [0, 1], [0.5, 0.5], [1, 0]])


@pytest.mark.parametrize("k", [0.1, 1.0, 7.0])
def test_shrinkage_by_hand(k):
    pooled = np.array([2, 3]) / 5
    counts = np.array([[1, 2], [0, 1], [0, 0], [1, 0]])
    expected = (counts + k * pooled) / (counts.sum(axis=1, keepdims=True) + k)
    assert np.allclose(estimate_behaviour(LOG, k).probs, expected)
    uniform = (counts + k / 2) / (counts.sum(axis=1, keepdims=True) + k)
    assert np.allclose(estimate_behaviour(LOG, k, "uniform").probs, uniform)


def test_cross_fitting_by_loops():
    log = stochastic_lift(7).sample(23, seed=2)
    got = cross_fitted_propensities(log, folds=4, shrinkage=2.0)
    episode = np.repeat(np.arange(log.n_episodes), log.lengths)
    for row in range(log.n_steps):
        other = episode % 4 != episode[row] % 4
        here = other & (log.states == log.states[row])
        n_action = (other & (log.actions == log.actions[row])).sum()
        prior = (n_action + 1) / (other.sum() + log.n_actions)
        same = (here & (log.actions == log.actions[row])).sum()
        assert got[row] == pytest.approx((same + 2 * prior) / (here.sum() + 2))


def test_an_action_seen_once_does_not_get_probability_one():
    log = Trajectories.from_episodes([[(i, i % 3, 0.0)] for i in range(9)])
    assert (estimate_behaviour(log).probs[log.states, log.actions] == 1).all()
    fitted = cross_fitted_propensities(log)
    assert (fitted < 0.5).all()
    assert (fitted > 0).all()
    assert np.array_equal(log.with_propensities(fitted).propensities, fitted)
    assert log.propensities is None


def test_it_approaches_the_truth():
    problem = stochastic_lift(11)
    log = problem.sample(2000, seed=0)
    truth = np.asarray(getattr(problem.pi_b, "probs", problem.pi_b))[log.states, log.actions]
    assert np.abs(cross_fitted_propensities(log) - truth).max() < 0.1


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("folds", lambda: cross_fitted_propensities(LOG, folds=1)),
        ("folds", lambda: cross_fitted_propensities(LOG, folds=4)),
        ("shrinkage", lambda: cross_fitted_propensities(LOG, folds=2, shrinkage=0.0)),
        ("shrinkage", lambda: estimate_behaviour(LOG, -1.0)),
        ("shrinkage", lambda: estimate_behaviour(LOG, float("nan"))),
        ("towards", lambda: estimate_behaviour(LOG, 1.0, "median")),
    ],
)
def test_options_out_of_range(words, call):
    with pytest.raises(OptionError, match=words):
        call()
