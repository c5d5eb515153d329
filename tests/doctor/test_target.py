"""The doctor with a policy to be evaluated."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest
from doctor.broken_logs import sound

from deadweight.cli import run
from deadweight.errors import PolicyError
from deadweight.io.doctor import doctor
from deadweight.log.policies import TabularPolicy

STATES, ACTIONS = ["home", "icu", "ward"], ["treat", "wait"]


def codes(target, frame=None):
    return [one.code for one in doctor(sound() if frame is None else frame, target)]


def test_a_policy_that_fits_adds_nothing():
    assert codes(TabularPolicy(np.full((3, 2), 0.5), STATES, ACTIONS)) == []


def test_numbers_against_text():
    """Labels match as they are written, here as in an evaluation; some do not."""
    frame = sound().drop(columns="next_state").assign(state=lambda f: f.step)
    states = [str(i) for i in range(6)]
    found = doctor(frame, TabularPolicy(np.full((7, 2), 0.5), [*states, "x"], ACTIONS))
    assert not found.errors
    assert [one.problem for one in found if one.code == "DW504"] == [
        "1 of the policy's 7 states was never visited: 'x'."
    ]
    days = frame.assign(state=[f"2026-01-{1 + i:02d}" for i in frame.step])
    known = [datetime.date(2026, 1, 1 + i) for i in range(6)]
    found = doctor(days, TabularPolicy(np.full((6, 2), 0.5), known, ACTIONS))
    assert [one.code for one in found.errors][:1] == ["DW501"]
    assert "2026-01-01' (str)" in found.errors[0].problem


def test_a_policy_that_is_text_for_one_label_is_evaluated_by_the_command(tmp_path, capsys):
    """One file has an x and is text; the other has not and is numbers."""
    header = "episode,step,state,action,reward,behaviour_prob"
    (tmp_path / "log.csv").write_text(f"{header}\n1,0,1,a,1,0.5\n1,1,2,b,0,0.5\n2,0,2,a,1,0.5\n")
    (tmp_path / "policy.csv").write_text("state,action,prob\n1,a,1\n2,b,1\nx,a,1\n")
    arguments = [str(tmp_path / "log.csv"), "--target", str(tmp_path / "policy.csv"), "--json"]
    assert run(["evaluate", *arguments, "--estimators", "WIS", "--interval", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["estimates"]["WIS"]["value"] == 1.0
    assert run(["doctor", *arguments]) == 0


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
