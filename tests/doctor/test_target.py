"""The doctor with a policy to be evaluated."""

from __future__ import annotations

import numpy as np
import pytest
from doctor.broken_logs import sound

from deadweight.doctor import doctor
from deadweight.errors import PolicyError
from deadweight.policy.policies import TabularPolicy

STATES, ACTIONS = ["home", "icu", "ward"], ["treat", "wait"]


def codes(target, frame=None):
    return [one.code for one in doctor(sound() if frame is None else frame, target)]


def test_a_policy_that_fits_adds_nothing():
    assert codes(TabularPolicy(np.full((3, 2), 0.5), STATES, ACTIONS)) == []


def test_numbers_against_text():
    frame = sound().drop(columns="next_state").assign(state=lambda f: f.step)
    target = TabularPolicy(np.full((6, 2), 0.5), [str(i) for i in range(6)], ACTIONS)
    found = doctor(frame, target)
    assert [one.code for one in found.errors] == ["DW501"]
    assert "'0' (str)" in found.errors[0].problem


def test_a_visited_state_that_the_policy_lacks():
    found = doctor(sound(), TabularPolicy(np.full((2, 2), 0.5), STATES[:2], ACTIONS))
    assert [one.code for one in found.errors] == ["DW502"]
    assert "ward" in found.errors[0].problem


def test_an_action_never_logged_in_a_state():
    frame = sound().drop(columns=["behaviour_prob"])
    frame.loc[frame.state == "icu", "action"] = "wait"
    target = TabularPolicy([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]], STATES, ACTIONS)
    found = [one for one in doctor(frame, target) if one.code == "DW503"]
    assert found[0].severity == "warning"
    assert "action 'treat' in state 'icu' with probability 0.25" in found[0].problem
    assert found[0].count == (frame.state == "icu").sum()


def test_a_misspelt_action_is_named():
    target = TabularPolicy([[0.0, 0.5, 0.5]] * 3, STATES, ["treat", "treet", "wait"])
    found = [one for one in doctor(sound(), target) if one.code == "DW503"]
    assert "Did you mean 'treat'?" in found[0].problem


def test_states_that_only_the_policy_knows():
    assert codes(TabularPolicy(np.full((4, 2), 0.5), [*STATES, "hospice"], ACTIONS)) == ["DW504"]


def test_a_deterministic_policy_leaves_hardly_any_weight():
    frame = sound().drop(columns=["target_prob"])
    frame["action"] = np.where(frame.step == 0, "wait", frame.action)
    frame["behaviour_prob"] = np.where(frame.step == 0, 1.0, 0.5)
    assert "DW430" in codes(TabularPolicy([[1.0, 0.0]] * 3, STATES, ACTIONS), frame)


def test_a_policy_from_a_table():
    with pytest.raises(PolicyError, match="sum to 1"):
        doctor(sound(), {"state": STATES, "action": ["wait"] * 3, "prob": [0.5] * 3})
