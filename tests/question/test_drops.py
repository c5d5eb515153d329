"""Every way to say what is dropped means the same drop."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import Case, cases

import deadweight as dw
from deadweight.errors import DropError
from deadweight.log.interface import in_memory
from deadweight.question.drops import Drop, given_drop
from deadweight.sums.pairs import pair_policies

FEW = settings(max_examples=40, deadline=None, derandomize=True)


@FEW
@given(cases(per_step=False))
def test_all_spellings_agree(case: Case) -> None:
    log = case.log
    mask = np.isin(np.arange(len(case.pi_e)), sorted(case.plain_drop))
    expected = case.estimate("WSPDIS")
    chosen = dw.StateSet(mask, np.arange(len(mask)))
    spellings: list[Any] = [
        chosen,
        mask,
        mask.tolist(),
        tuple(sorted(case.plain_drop)),
        Drop(steps=mask[log.states]),
    ]
    spellings.append(np.array(sorted(case.plain_drop), dtype=int))
    for drop in spellings:
        found = case.estimate("WSPDIS", drop=drop)
        assert (found.value, found.std_error) == pytest.approx(
            (expected.value, expected.std_error), nan_ok=True
        )
        assert found.dropped_share == pytest.approx(mask[log.states].mean())
    assert expected.dropped == sorted(case.plain_drop)


def test_a_mask_of_steps() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 1.0)], [(1, 0, 2.0)]])
    pi_e, pi_b = [[0.2, 0.8], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]
    flags = np.array([False, True, False])
    found = dw.estimate("SIS", log, pi_e, pi_b, drop=flags, interval=None)
    assert found.value == pytest.approx((0.4 * 2 + 0.6 * 2) / 2)
    assert found.dropped == []
    assert found.dropped_share == pytest.approx(1 / 3)


def test_a_mask_of_steps_is_none_of_states_because_a_policy_has_many() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 1.0)], [(1, 0, 2.0)]])
    pi_e, pi_b = [[0.2, 0.8]] * 9, [[0.5, 0.5]] * 9
    found = dw.estimate("SIS", log, pi_e, pi_b, drop=np.array([False, True, False]), interval=None)
    assert found.value == pytest.approx((0.4 * 2 + 0.4 * 2) / 2)
    assert found.dropped_share == pytest.approx(1 / 3)


def test_a_mask_that_fits_both_readings_says_which_was_taken() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0), (0, 1, 1.0)]])
    pi_e, pi_b = [[0.2, 0.8], [0.3, 0.7]], [[0.5, 0.5], [0.5, 0.5]]
    with pytest.warns(dw.errors.Assumption, match="one flag for each state"):
        found = dw.estimate("SIS", log, pi_e, pi_b, drop=[True, False], interval=None)
    assert found.dropped == [0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dw.estimate("SIS", log, pi_e, pi_b, drop=[0], interval=None).value == found.value
        dw.estimate("SIS", log, pi_e, pi_b, drop=[True, True], interval=None)


def test_labels_of_the_user() -> None:
    log = dw.Trajectories.from_episodes([[("ward", "wait", 0.0), ("icu", "treat", 1.0)]])
    pi = dw.TabularPolicy(
        [[0.4, 0.6], [0.5, 0.5], [1.0, 0.0]], states=["icu", "ward", "home"], actions=["treat", "wait"]
    )
    found = dw.estimate("SIS", log, pi, pi, drop=["icu", "home"], interval=None)
    assert found.dropped == ["icu", "home"]
    assert found.dropped_share == 0.5
    assert "none-dropped" in dw.estimate("SIS", log, pi, pi, drop=["home"], interval=None).flags


FLAGGED = dw.Trajectories.from_episodes([[(True, 0, 1.0), (False, 1, 2.0)], [(False, 0, 3.0)]])


@pytest.mark.parametrize("drop", [[True], [False], [False, True], [True, False], {False, True}, (False,)])
def test_states_may_be_called_true_and_false(drop: Any) -> None:
    """A list names states, as everywhere; an array of flags is a mask, and so is a list with one twice."""
    pi_e, pi_b = (
        dw.TabularPolicy(probs, states=[False, True])
        for probs in ([[0.2, 0.8], [0.3, 0.7]], [[0.5, 0.5]] * 2)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error" if len(drop) == 1 or isinstance(drop, set) else "ignore")
        found = dw.estimate("SIS", FLAGGED, pi_e, pi_b, drop=drop, interval=None)
    ratios = ((True, 0.6), (False, 1.6), (False, 0.4))
    kept = [1.0 if state in drop else rho for state, rho in ratios]
    assert found.value == pytest.approx((kept[0] * kept[1] * 3 + kept[2] * 3) / 2)
    assert found.dropped == sorted(drop)
    if len(drop) == 2 and isinstance(drop, list):
        with pytest.warns(dw.errors.Assumption, match="named the states True and False"):
            dw.estimate("SIS", FLAGGED, pi_e, pi_b, drop=drop, interval=None)
        mask = dw.estimate("SIS", FLAGGED, pi_e, pi_b, drop=np.array(drop), interval=None)
        assert mask.dropped == [state for state, out in zip([False, True], drop, strict=True) if out]
    assert dw.estimate("SIS", FLAGGED, pi_e, pi_b, drop=[True] * 3, interval=None).dropped_share == 1.0
    assert dw.estimate("SIS", FLAGGED, pi_e, pi_b, drop=[True] * 2, interval=None).dropped == [False, True]


def test_a_set_made_for_another_log_follows_its_labels() -> None:
    log = dw.Trajectories.from_episodes([[("b", 0, 1.0)], [("c", 0, 2.0)]])
    pair = pair_policies(in_memory(log).labels, [[1.0], [1.0]], [[1.0], [1.0]])
    other = dw.StateSet(np.array([True, True, False]), np.array(["a", "b", "c"], dtype=object), "elsewhere")
    moved = given_drop(other, pair, log)
    assert moved.states is not None
    assert moved.states.states == ["b"]
    assert moved.states.origin == "elsewhere"
    assert moved.flags(log).tolist() == [True, False]


def test_a_set_of_states_that_are_nowhere_to_be_found_is_refused() -> None:
    log = dw.Trajectories.from_episodes([[("b", 0, 1.0)], [("c", 0, 2.0)]])
    pi = [[1.0], [1.0]]
    other = dw.StateSet(np.array([True, False]), np.array([0, 1]), "by another log")
    with pytest.raises(DropError, match="None of the states of the set to drop, such as 0"):
        dw.estimate("SIS", log, pi, pi, drop=other)
    empty = dw.StateSet(np.array([False, False]), np.array([0, 1]), "by another log")
    assert dw.estimate("SIS", log, pi, pi, drop=empty, interval=None).dropped == []


@pytest.mark.parametrize("flags", [[1, 0, 1], np.array([0, 0, 1]), [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]])
def test_a_mask_of_numbers_is_not_taken_for_the_states_0_and_1(flags: Any) -> None:
    log = dw.Trajectories([0, 1, 2, 0, 1, 2], [0] * 6, np.ones(6), [0, 3, 6])
    pi = np.ones((3, 1))
    with pytest.raises(DropError, match="neither a list of states, which names each once, nor flags"):
        dw.estimate("SIS", log, pi, pi, drop=flags)
    assert dw.estimate("SIS", log, pi, pi, drop=[1, 0], interval=None).dropped == [0, 1]


@pytest.mark.parametrize(
    ("drop", "words"),
    [
        (3.5, "drop must be None, a rule"),
        (b"auto", "found b'auto'"),
        (np.ones((2, 2), dtype=bool), r"found shape \(2, 2\)"),
        (["x"], "neither the log nor the policies have: x"),
        (np.ones(9, dtype=bool), r"found shape \(9,\)"),
    ],
)
def test_what_is_no_drop(drop: Any, words: str) -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(1, 0, 2.0)]])
    with pytest.raises(DropError, match=words):
        dw.estimate("SIS", log, [[1.0], [1.0]], [[1.0], [1.0]], drop=drop)
