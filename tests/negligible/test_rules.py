"""Drops by name, and what an estimate says about them."""

from __future__ import annotations

import pytest

import deadweight as dw
from deadweight import negligible
from deadweight.domains import deterministic_lift

PROBLEM = deterministic_lift(11)
LOG = PROBLEM.sample(500, seed=3)


def estimate(drop, name="WSIS", **options):
    return dw.estimate(name, LOG, PROBLEM.pi_e, PROBLEM.pi_b, drop=drop, **options)


@pytest.mark.parametrize(
    ("rule", "states"),
    [
        ("q-gap:1.0", lambda: negligible.q_gap(LOG, PROBLEM.pi_e, 1.0)),
        ("covariance:0.5", lambda: negligible.covariance(LOG, PROBLEM.pi_e, PROBLEM.pi_b, 0.5)),
        ("return-test:0.05", lambda: negligible.return_test(LOG, 0.05)),
    ],
)
def test_a_rule_is_its_function(rule, states):
    found = estimate(rule)
    assert found.dropped == states().states
    assert found.value == estimate(states()).value


def test_rules_follow_the_question():
    found = estimate("q-gap:1.0", gamma=0.5, unseen="terminate")
    assert found.dropped == negligible.q_gap(LOG, PROBLEM.pi_e, 1.0, gamma=0.5, unseen="terminate").states


@pytest.mark.parametrize("rule", ["q-gaps:1", "q-gap", "q-gap:", "covariance:many", "auto:1", "", "default"])
def test_bad_rules_are_refused(rule):
    with pytest.raises(dw.errors.DropError, match=f"{rule!r}|{rule.partition(':')[0]}"):
        estimate(rule)


def test_none_drops_nothing_and_says_so():
    found = estimate(None)
    assert found.value == dw.estimate("WIS", LOG, PROBLEM.pi_e, PROBLEM.pi_b).value
    assert "none-dropped" in found.flags
    assert "none-dropped" in estimate("q-gap:0").flags


def test_dropping_nearly_all_is_flagged():
    found = estimate("q-gap:1000")
    assert "all-dropped" in found.flags
    assert found.value == pytest.approx(dw.estimate("BEHAVIOUR", LOG, PROBLEM.pi_e, PROBLEM.pi_b).value)
    assert "naive average" in found.explain()


def test_auto_needs_pi_e_of_all_actions():
    log = dw.Trajectories(
        LOG.states, LOG.actions, LOG.rewards, LOG.offsets, LOG.propensities, target_probs=LOG.propensities
    )
    with pytest.raises(dw.errors.EstimationError, match="evaluation policy"):
        dw.estimate("WSIS", log)


def test_auto_with_propensities_only():
    assert estimate("auto").dropped == dw.estimate("WSIS", LOG, PROBLEM.pi_e).dropped
