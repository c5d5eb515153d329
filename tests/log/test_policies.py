"""Policies: tables, labels, alignment with a log, and what the log itself says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import Case, cases

import deadweight as dw
from deadweight.errors import PolicyError, SupportError
from deadweight.log.interface import in_memory
from deadweight.sums.pairs import pair_policies

LOG = dw.Trajectories.from_episodes([[("b", "y", 1.0), ("a", "x", 2.0)], [("b", "x", 3.0)]])


def test_labels_align_whatever_their_order() -> None:
    straight = dw.TabularPolicy([[0.1, 0.9], [0.3, 0.7]], states=["a", "b"], actions=["x", "y"])
    turned = dw.TabularPolicy([[0.7, 0.3], [0.9, 0.1]], states=["b", "a"], actions=["y", "x"])
    by_index = dw.TabularPolicy([[0.1, 0.9], [0.3, 0.7]])
    for policy in (straight, turned, by_index):
        pair = pair_policies(in_memory(LOG).labels, policy, straight)
        assert pair.pi_e is not None
        np.testing.assert_array_equal(pair.pi_e, [[0.1, 0.9], [0.3, 0.7]])
        assert (pair.state_labels.tolist(), pair.action_labels.tolist()) == (["a", "b"], ["x", "y"])


def test_a_policy_may_know_more_than_the_log() -> None:
    larger = dw.TabularPolicy(
        [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]], states=["c", "a", "b"], actions=["x", "z", "y"]
    )
    small = dw.TabularPolicy([[0.5, 0.5], [0.5, 0.5]], states=["a", "b"], actions=["x", "y"])
    pair = pair_policies(in_memory(LOG).labels, larger, small)
    assert pair.state_labels.tolist() == ["a", "b", "c"]
    assert pair.action_labels.tolist() == ["x", "y", "z"]
    assert pair.pi_e is not None
    assert pair.pi_b is not None
    np.testing.assert_array_equal(pair.pi_e, [[0.1, 0.8, 0.1], [1.0, 0.0, 0.0], [0.2, 0.5, 0.3]])
    # The state that pi_b does not know is never asked for; its row is still a distribution.
    np.testing.assert_allclose(pair.pi_b.sum(axis=1), 1)
    found = dw.estimate("WIS", LOG, larger, small, interval=None)
    assert found.value == pytest.approx((0.0 * 3 + (1.0 / 0.5) * 3) / 2)


def test_more_rows_without_labels() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)]])
    pair = pair_policies(in_memory(log).labels, np.full((4, 3), 1 / 3), np.full((2, 3), 1 / 3))
    assert (pair.n_states, pair.n_actions) == (4, 3)


def test_tables_are_the_policys_own() -> None:
    probs = np.array([[0.5, 0.5]])
    policy = dw.TabularPolicy(probs)
    probs[:] = 0.1
    assert policy.probs.tolist() == [[0.5, 0.5]]
    with pytest.raises(ValueError, match="read-only"):
        policy.probs[0, 0] = 1.0
    assert dw.TabularPolicy(policy).probs.tolist() == [[0.5, 0.5]]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cases())
def test_behaviour_from_counts(case: Case) -> None:
    observed = dw.estimate_behaviour(case.log)
    for s in range(case.log.n_states):
        taken = [a for episode in case.episodes for state, a, _ in episode if state == s]
        expected = [
            taken.count(a) / len(taken) if taken else 1 / case.log.n_actions
            for a in range(case.log.n_actions)
        ]
        assert observed.probs[s] == pytest.approx(expected)
    # Evaluated against itself, it gives the mean return.
    found = dw.estimate("WIS", case.log, observed, observed, gamma=case.gamma, interval=None)
    assert found.value == pytest.approx(
        dw.estimate("BEHAVIOUR", case.log, observed, observed, gamma=case.gamma).value
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [(["a"], "found 1 names"), (["a", "a"], "1 of them different"), (["a", "b", "c"], "found 3 names")],
)
def test_labels_name_each_row_once(labels: list[str], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        dw.TabularPolicy([[0.5, 0.5], [0.5, 0.5]], states=labels)


@pytest.mark.parametrize("probs", [[0.5, 0.5], np.zeros((0, 2)), [["a", "b"]]])
def test_no_table(probs: object) -> None:
    with pytest.raises(PolicyError, match="table"):
        dw.TabularPolicy(probs)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [["no", "yes", "maybe"], [0, 1, 2]])
def test_a_named_policy_may_leave_out_an_action(names: list[object]) -> None:
    """What a policy does not mention it never does: the same as a column of zeros."""
    no, yes, maybe = names
    log = dw.Trajectories.from_episodes([[("s", no, 1.0)], [("s", yes, 2.0)], [("s", maybe, 4.0)]])
    pi_b = dw.TabularPolicy([[0.5, 0.25, 0.25]], states=["s"], actions=names)
    short = dw.TabularPolicy([[0.5, 0.5]], states=["s"], actions=[no, yes])
    whole = dw.TabularPolicy([[0.5, 0.5, 0.0]], states=["s"], actions=names)
    found = [dw.estimate("WIS", log, pi_e, pi_b, interval=None).value for pi_e in (short, whole)]
    assert found == [pytest.approx(5 / 3), found[0]]
    with pytest.raises(SupportError, match="probability 0"):
        dw.estimate("WIS", log, whole, short)
