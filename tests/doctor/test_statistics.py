"""The checks that judge by chance: silent on honest logs, loud on dishonest ones."""

from __future__ import annotations

import numpy as np
import pytest
from doctor.broken_logs import sound

from deadweight.io.doctor import doctor


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


def purchases(share, n=2000, seed=0):
    """A log in which few episodes earn anything, and what they earn has a long tail."""
    rng = np.random.default_rng(seed)
    spent = np.exp(rng.normal(3, 1, n)) * (rng.random(n) < share)
    return {**bandit(0.3, 0.3, n, seed), "reward": spent}


@pytest.mark.parametrize("share", [0.005, 0.02, 0.04, 0.2, 0.6, 1.0])
def test_ordinary_purchases_are_no_outliers(share):
    alarms = sum("DW603" in [one.code for one in doctor(purchases(share, seed=k))] for k in range(10))
    # One amount in 12,000 lies 20 spreads out, so 10 logs with every episode a purchase have 1.7 on average.
    assert alarms <= (5 if share == 1.0 else 3)


@pytest.mark.parametrize("share", [0.005, 0.02, 0.2, 1.0])
def test_a_purchase_in_the_wrong_unit_is_one(share):
    log = purchases(share)
    where = int(np.flatnonzero(log["reward"])[0])
    log["reward"][where] *= 10_000
    found = [one for one in doctor(log) if one.code == "DW603"]
    assert [row["row"] for one in found for row in one.rows][:1] == [where]


def test_doing_nothing_is_an_action():
    log = bandit(0.3, 0.3)
    log["action"] = np.where(log["action"] == 1, "drug", "none")
    assert not list(doctor(log))
    log["action"] = np.where(log["action"] == "none", "null", "drug")
    assert [one.code for one in doctor(log)] == ["DW332"]


def test_blank_rewards_may_be_zeros():
    log = sound().rename(columns={"reward": "earned"})
    log.loc[::2, "earned"] = np.nan
    (found,) = doctor(log, columns={"reward": "earned"}).errors
    assert found.code == "DW305"
    assert "--fill-reward 0" in found.fix
