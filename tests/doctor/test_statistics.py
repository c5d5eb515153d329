"""The checks that judge by chance: silent on honest logs, loud on dishonest ones."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.doctor import doctor


def bandit(p_logged, p_true, n=2000, seed=0):
    """A log of one-step episodes in 5 states; p is the probability of action 1."""
    rng = np.random.default_rng(seed)
    states = rng.integers(0, 5, n)
    actions = (rng.random(n) < p_true).astype(int)
    return {
        "episode": np.arange(n),
        "step": np.zeros(n, dtype=int),
        "state": states,
        "action": actions,
        "reward": rng.normal(size=n),
        "propensity": np.where(actions == 1, p_logged, 1 - np.asarray(p_logged)),
    }


@pytest.mark.parametrize("seed", range(20))
def test_no_false_alarm_when_probabilities_are_right(seed):
    assert not list(doctor(bandit(0.3, 0.3, seed=seed)))


def test_a_hidden_cause_of_the_behaviour_is_no_false_alarm():
    p = np.random.default_rng(9).uniform(0.1, 0.9, 5000)
    assert [one.code for one in doctor(bandit(p, p, n=5000))] == ["DW425"]


def test_wrong_probabilities_are_seen():
    assert [one.code for one in doctor(bandit(0.3, 0.4))] == ["DW423"]
