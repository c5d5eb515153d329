"""The lift domains: exact values, structure, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.errors import OptionError

SIZES = (7, 9, 11, 13, 15, 17)
TRUE = (-1.0496521162, -2.0288966681, -2.3849163132, -2.6891941478, -2.9904832821, -3.2916043506)
PUBLISHED = (-0.9932554494, -1.9020437148, -2.2101416558, -2.4692089815, -2.7254842187, -2.9816044081)
BEHAVIOUR = (-4.2105263158, -5.3268698061, -6.4382563056, -7.5493819108, -8.6604937848, -9.7716049360)


@pytest.mark.parametrize("size", SIZES)
def test_deterministic_values(size):
    problem = deterministic_lift(size)
    assert problem.true_value == pytest.approx(1.0, abs=1e-12)
    assert problem.behaviour_value == pytest.approx(-(size // 2) - 1, abs=1e-9)


@pytest.mark.parametrize(
    ("size", "true", "published", "behaviour"), list(zip(SIZES, TRUE, PUBLISHED, BEHAVIOUR, strict=True))
)
def test_stochastic_values(size, true, published, behaviour):
    problem = stochastic_lift(size)
    assert problem.true_value == pytest.approx(true, abs=1e-9)
    assert problem.behaviour_value == pytest.approx(behaviour, abs=1e-9)
    assert stochastic_lift(size, reward="published").true_value == pytest.approx(published, abs=1e-9)


def test_only_start_and_neighbours_of_the_bounds_listen_to_the_action():
    P = stochastic_lift(11, delta=0.1).mdp.P.toarray().reshape(9, 2, 10)
    same = np.abs(P[:, 0] - P[:, 1]).max(axis=1) == 0
    assert np.flatnonzero(~same).tolist() == [0, 4, 8]
    assert P[6, 0, 7] == pytest.approx(0.9)  # position 2 is carried right
    assert P[2, 1, 1] == pytest.approx(0.9)  # position -2 is carried left


def test_no_noise_is_the_deterministic_lift():
    quiet, plain = stochastic_lift(9, delta=0.0), deterministic_lift(9)
    assert (quiet.mdp.P != plain.mdp.P).nnz == 0
    np.testing.assert_array_equal(quiet.mdp.r, plain.mdp.r)


def test_sample_is_a_log_of_the_behaviour_policy():
    problem = stochastic_lift(7)
    log = problem.sample(episodes=5000, seed=1)
    returns = np.add.reduceat(log.rewards, log.offsets[:-1])
    assert log.terminated.all()
    assert (log.propensities == 0.5).all()
    assert (log.start_states == 2).all()
    assert abs(returns.mean() - problem.behaviour_value) < 4 * returns.std() / np.sqrt(5000)


@pytest.mark.parametrize("size", [3, 6, 8, -7, 7.5])
def test_bad_sizes_are_refused(size):
    for domain in (deterministic_lift, stochastic_lift):
        with pytest.raises(OptionError, match="odd and at least 5"):
            domain(size)


def test_bad_options_are_refused():
    with pytest.raises(OptionError, match="delta"):
        stochastic_lift(7, delta=1.5)
    with pytest.raises(OptionError, match="reward"):
        stochastic_lift(7, reward="textbook")
