"""The doctor on features: each finding where it belongs, and silence on a sound log."""

from __future__ import annotations

import json

import numpy as np
import pytest
from feature_tables import SEPSIS, sepsis_table

from deadweight.io.doctor import ON_THE_FEATURES, doctor
from deadweight.io.requirements import OF_FEATURES


@pytest.fixture(scope="module")
def sound():
    return sepsis_table(150)


def steps_left(frame):
    return frame.groupby("episode").step.transform("max") - frame.step


def outcome(frame):
    return frame.groupby("episode").reward.transform("sum")


BROKEN = [
    ("DW701", lambda t: "high"),
    ("DW702", lambda t: np.where(t.index == 5, np.nan, t.lactate)),
    ("DW703", lambda t: np.where(t.index == 5, -np.inf, t.lactate)),
    ("DW711", lambda t: 3.0),
    ("DW712", lambda t: 5 - 2 * t.lactate),
    ("DW713", lambda t: 10 * t.reward + 1),
    ("DW713", outcome),
    ("DW714", steps_left),
    ("DW714", lambda t: (steps_left(t) == 0) + 0.0),
    ("DW715", lambda t: np.where(t.index % 50 == 0, -99_999.0, t.lactate)),
    ("DW716", lambda t: np.random.default_rng(0).integers(1, 6, len(t))),
]


def test_a_sound_log_with_features_has_no_finding(sound):
    found = doctor(sound, features=SEPSIS.feature_names)
    assert [one.code for one in found] == ["DW244", "DW605"], "a reward at the end only, and single steps"
    assert found.size["feature"] == 6
    assert "state" not in found.size


@pytest.mark.parametrize(("code", "column"), BROKEN)
def test_each_broken_feature_gives_its_code(sound, code, column):
    frame = sound.assign(added=column(sound), next_added=1.0)
    found = doctor(frame, features=[*SEPSIS.feature_names, "added"])
    ours = [one for one in found if one.code == code]
    assert len(ours) == 1, [one.code for one in found]
    assert "'added'" in ours[0].problem
    assert ours[0].fix
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.ok == (code > "DW710")


def test_probabilities_of_actions(sound):
    frame = sound.assign(target_prob_watch=0.5, target_prob_fluids=0.2, target_prob_vasopressor=0.2)
    assert [one.code for one in doctor(frame, features="lactate").errors] == ["DW705"]
    frame["target_prob_watch"] = -0.5
    assert "DW704" in [one.code for one in doctor(frame, features="lactate").errors]


def test_the_corpus_meets_every_check_of_features():
    met = {code for code, _ in BROKEN} | {"DW704", "DW705"}
    assert {check.code for check in (*OF_FEATURES, *ON_THE_FEATURES)} == met


def test_numbers_with_fractions_as_states_are_called_features(sound):
    frame = sound.assign(state=sound.lactate)
    found = {one.code: one for one in doctor(frame)}
    assert "--features" in found["DW334"].fix


def test_successors_of_cut_episodes_are_asked_for_by_feature(sound):
    found = {one.code: one for one in doctor(sound.drop(columns="next_lactate"), features="lactate")}
    assert "No next_lactate and the like" in found["DW246"].problem
