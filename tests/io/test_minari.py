"""Logs from Minari data sets made on the spot, without network."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from deadweight.errors import DeadweightError, MissingExtra
from deadweight.io.environments import from_minari

minari = pytest.importorskip("minari")
gymnasium = pytest.importorskip("gymnasium")


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:minari")


@pytest.fixture
def storage(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def buffer(states, actions, rewards, terminated, probs=None, number=0):
    n = len(actions)
    ends = [False] * (n - 1)
    infos = {} if probs is None else {"behaviour_prob": [0.0, *probs], "prob": [1.0] * (n + 1)}
    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=np.array(states),
        actions=np.array(actions),
        rewards=list(rewards),
        terminations=[*ends, terminated],
        truncations=[*ends, not terminated],
        infos={name: np.array(values) for name, values in infos.items()},
    )


def dataset(name, buffers, observation_space=None):
    return minari.create_dataset_from_buffers(
        dataset_id=name,
        buffer=buffers,
        observation_space=observation_space or gymnasium.spaces.Discrete(6),
        action_space=gymnasium.spaces.Discrete(2),
        data_format="hdf5",
    )


def test_cuts_that_are_all_at_the_longest_length_are_a_time_limit(storage):
    cut = [buffer([0, 1, 2], [1, 0], [0.0, 1.0], False, number=number) for number in range(3)]
    dataset("test/limited-v0", [*cut, buffer([0, 1], [1], [0.0], True, number=3)])
    log = from_minari("test/limited-v0")
    assert log.time_limit == 2
    assert log.n_cut_early == 0
    assert log.next_states.tolist() == [1, 2, 1, 2, 1, 2, -1]


def test_states_actions_propensities_and_how_episodes_end(storage):
    dataset(
        "test/small-v0",
        [
            buffer([0, 1, 2], [1, 0], [0.0, 1.0], True, [0.25, 0.75]),
            buffer([2, 4, 5], [0, 0], [2.0, 3.0], False, [0.5, 0.5], number=1),
        ],
    )
    log = from_minari("test/small-v0")
    assert log.offsets.tolist() == [0, 2, 4]
    assert log.states.tolist() == [0, 1, 2, 4]
    assert log.actions.tolist() == [1, 0, 0, 0]
    assert log.rewards.tolist() == [0, 1, 2, 3]
    assert log.propensities.tolist() == [0.25, 0.75, 0.5, 0.5], "slot 0 of the infos is that of reset"
    assert log.terminated.tolist() == [True, False]
    assert log.next_states.tolist() == [1, -1, 4, 5]


def test_a_data_set_in_hand_without_propensities(storage):
    made = dataset("test/plain-v0", [buffer([0, 1], [1], [1.0], True)])
    log = from_minari(made)
    assert log.propensities is None
    assert log.n_episodes == 1


def test_vectors_of_whole_numbers_are_labels_and_floats_are_features(storage):
    space = gymnasium.spaces.MultiDiscrete([3, 3])
    made = dataset("test/multi-v0", [buffer([[0, 1], [1, 1], [2, 0]], [1, 0], [0.0, 1.0], True)], space)
    assert list(from_minari(made).state_labels) == [(0, 1), (1, 1)]
    box = gymnasium.spaces.Box(0, 1, (1,), dtype=np.float32)
    made = dataset(
        "test/box-v0", [buffer(np.array([[0.1], [0.6], [0.9]], np.float32), [1, 0], [0, 1], False)], box
    )
    log = from_minari(made)
    np.testing.assert_array_equal(log.features, np.float32([[0.1], [0.6]]))
    np.testing.assert_array_equal(log.last_features, np.float32([[0.9]]))
    assert not log.has_states
    log = from_minari(made, state=lambda observations: (observations[:, 0] > 0.5).astype(int))
    assert log.states.tolist() == [0, 1]
    assert log.next_states.tolist() == [1, 1]


def test_messages(storage, monkeypatch):
    with pytest.raises(DeadweightError, match="minari download"):
        from_minari("nobody/nothing-v0")
    with pytest.raises(DeadweightError, match="found int"):
        from_minari(3)
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingExtra, match="minari"):
        from_minari("test/small-v0")
