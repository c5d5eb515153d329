"""The log: columns, offsets, what ends how, and the parts it can be cut into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import Case, cases

import deadweight as dw
from deadweight.errors import DataError
from deadweight.sums.blocks import blocks

FEW = settings(max_examples=40, deadline=None, derandomize=True)


@FEW
@given(cases())
def test_from_episodes_and_back(case: Case) -> None:
    assert list(case.log) == [[(s, a, r) for s, a, r in episode] for episode in case.episodes]
    assert len(case.log) == case.log.n_episodes == case.n
    assert case.log.horizon == max(len(episode) for episode in case.episodes)
    assert case.log.n_steps == sum(len(episode) for episode in case.episodes)


@FEW
@given(cases())
def test_successors_are_those_of_the_plain_log(case: Case) -> None:
    flat = [
        case.plain.successor(i, t) for i, episode in enumerate(case.episodes) for t in range(len(episode))
    ]
    # The end and what is unknown are both -1 here; `terminated` tells them apart.
    assert case.log.next_states.tolist() == [max(s, -1) for s in flat]
    assert case.log.terminated.tolist() == case.terminated
    assert case.log.start_states.tolist() == [episode[0][0] for episode in case.episodes]


@FEW
@given(cases())
def test_blocks_hold_every_step_once(case: Case) -> None:
    log = case.log
    for cells in (1, 4, 1000):
        seen = np.zeros(log.n_episodes, dtype=int)
        for block in blocks(log, cells):
            seen[block.rows] += 1
            for row, i in enumerate(block.rows):
                lo, hi = log.offsets[i], log.offsets[i + 1]
                assert np.array_equal(block.rewards[row, : hi - lo], log.rewards[lo:hi])
                assert np.array_equal(block.states[row, : hi - lo], log.states[lo:hi])
                assert np.array_equal(block.next_states[row, : hi - lo], log.next_states[lo:hi])
                assert (block.rewards[row, hi - lo :] == 0).all()
                assert (block.next_states[row, hi - lo :] == -1).all()
        assert (seen == 1).all()


@FEW
@given(cases(min_episodes=2))
def test_split_and_select(case: Case) -> None:
    log = case.log
    for parts in (1, 2, 100):
        pieces = log.split(parts)
        assert len(pieces) == min(parts, case.n)
        assert [episode for piece in pieces for episode in piece] == list(log)
        assert np.concatenate([piece.next_states for piece in pieces]).tolist() == log.next_states.tolist()
        assert all(piece.n_states == log.n_states for piece in pieces)
    twice = log.select([case.n - 1, 0, 0])
    assert list(twice) == [list(log)[i] for i in (case.n - 1, 0, 0)]
    mask = np.arange(case.n) == 1
    assert list(log.select(mask)) == [list(log)[1]]


def test_select_nothing_is_refused() -> None:
    log = dw.Trajectories([0], [0], [1.0], [0, 1])
    with pytest.raises(DataError, match="at least one episode"):
        log.select([False])


def test_columns_cannot_be_changed() -> None:
    rewards = np.array([1.0, 2.0])
    log = dw.Trajectories([0, 1], [0, 0], rewards, [0, 1, 2], propensities=[0.5, 0.5])
    for column in (log.states, log.actions, log.rewards, log.offsets, log.propensities, log.next_states):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    rewards[0] = 5.0  # the caller's own array stays the caller's
    assert rewards.flags.writeable


def test_unknown_successors_in_every_spelling() -> None:
    for unknown in (-1, None):
        log = dw.Trajectories.from_episodes(
            [[(0, 0, 1.0), (1, 0, 1.0)]], terminated=[False], next_states=[[1, unknown]]
        )
        assert log.next_states.tolist() == [1, -1]
    text = dw.Trajectories.from_episodes(
        [[("a", 0, 1.0)], [("a", 0, 1.0)]], terminated=[False, False], next_states=[["b"], [None]]
    )
    assert text.state_labels.tolist() == ["a", "b"]
    assert text.next_states.tolist() == [1, -1]
    for states in ([True, False], np.array([True, False], dtype=object)):
        flags = dw.Trajectories(
            states, [0, 0], [1, 2], [0, 1, 2], terminated=[False] * 2, next_states=[True, -1]
        )
        assert flags.state_labels.tolist() == [False, True]
        assert {type(label) for label in flags.state_labels} == {bool}, "numpy makes numbers of True and -1"
        assert flags.next_states.tolist() == [1, -1]


def test_a_terminated_last_step_ignores_its_successor() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)]], terminated=[True], next_states=[[7]])
    assert log.next_states.tolist() == [-1]
    assert log.n_states == 1


def test_where_and_repr() -> None:
    log = dw.Trajectories([0, 1, 1], [0, 1, 0], [1.0, 2.0, 3.0], [0, 2, 3], terminated=[True, False])
    assert log.where(2) == "episode 1, step 0 (row 2)"
    assert repr(log) == "Trajectories(2 episodes, 3 steps, longest 2, 2 states, 2 actions, 1 truncated)"


def test_flags_of_episodes_may_be_an_array_of_objects() -> None:
    """As a column of a frame is that had a hole once; what is no flag is refused in one message."""
    columns: dict[str, Any] = {"states": [0] * 2, "actions": [0] * 2, "rewards": [1, 2], "offsets": [0, 1, 2]}
    for flags in (np.array([True, False], dtype=object), [np.True_, False], [1, 0]):
        assert dw.Trajectories(**columns, terminated=flags).terminated.tolist() == [True, False]
    for flags in ([True, None], [True, "x"], np.array([True, 0.5], dtype=object), [1.0, 0.0]):
        with pytest.raises(DataError, match="must hold True or False; found"):
            dw.Trajectories(**columns, terminated=flags)
