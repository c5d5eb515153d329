"""Bounds for cut episodes: no course of events gives less or more, and the answer holds in every case."""

from __future__ import annotations

import itertools
import json
from copy import copy
from pathlib import Path

import numpy as np
import pytest

import deadweight as dw
from deadweight.cli import run
from deadweight.domains import EARLY, LONGEST_STAY, OLD, ward, write_ward_files
from deadweight.errors import DataError, OptionError

LIFT = dw.domains.stochastic_lift(7)


def cut_log(seed: int, cut: int = 4) -> dw.Trajectories:
    log = copy(LIFT.sample(12, seed=seed))
    terminated = np.ones(12, dtype=bool)
    terminated[:cut] = False
    log.terminated = terminated
    return log


@pytest.mark.parametrize("name", ["IS", "WIS", "PDIS", "WPDIS", "BEHAVIOUR"])
@pytest.mark.parametrize(("seed", "gamma"), [(0, 1.0), (1, 1.0), (1, 0.5)])
def test_no_course_of_events_gives_less_or_more(name: str, seed: int, gamma: float) -> None:
    """Against all corners of the box of what four cut episodes may have earned."""
    log, remaining, asked = cut_log(seed), (-2.0, 3.0), {"interval": None, "gamma": gamma}
    found = dw.cut_bounds(log, LIFT.pi_e, LIFT.pi_b, [name, "BEHAVIOUR"], remaining=remaining, **asked)
    last = log.offsets[1:5] - 1
    values, differences = [], []
    for corner in itertools.product(remaining, repeat=4):
        case = copy(log.with_remainder(0.0))
        rewards = log.rewards.copy()
        rewards[last] += corner
        case.rewards = rewards
        one, naive = (
            dw.estimate(each, case, LIFT.pi_e, LIFT.pi_b, **asked).value for each in (name, "BEHAVIOUR")
        )
        values.append(one)
        differences.append(one - naive)
    low, high = found.lowest[name].value, found.highest[name].value
    assert (low, high) == pytest.approx((min(values), max(values)))
    means = found.lowest["BEHAVIOUR"].value, found.highest["BEHAVIOUR"].value
    assert means[1] - means[0] == pytest.approx(found.shift)
    assert low - means[1] <= min(differences) + 1e-12
    assert high - means[0] >= max(differences) - 1e-12


def test_the_ward_with_cut_stays(tmp_path: Path, capsys) -> None:
    """The truth of the uncut ward lies within the bounds, and the answer is right."""
    log, *_ = write_ward_files(tmp_path, 600, 0)
    names = "episode=stay_id,step=morning,state=condition,action=decision,reward=went_home"
    arguments = ["evaluate", str(log), "--columns", names + ",truncated=still_there", "--fill-reward", "0"]
    arguments += ["--time-format", "%d.%m.%Y %H:%M", "--behaviour", "counts", "--return-range", "0,1"]
    arguments += ["--target", str(tmp_path / "treat_early.csv"), "--cut-range", "0,1"]
    assert run([*arguments, "--json"]) == 0
    cut = json.loads(capsys.readouterr().out)["cut"]
    truth, old = ward().truth(EARLY), ward().truth(OLD)
    assert cut["interval"][0] <= truth <= cut["interval"][1]
    assert cut["difference"][0] <= truth - old <= cut["difference"][1]
    within = dw.policy_value(ward().mdp, EARLY.policy.probs, horizon=LONGEST_STAY)
    assert cut["value"][0] <= within + 0.05
    assert run(arguments) == 0
    assert ("even in the worst case" in capsys.readouterr().out) == (cut["difference"][0] > 0)


def test_results_are_data(tmp_path: Path) -> None:
    found = dw.cut_bounds(cut_log(0), LIFT.pi_e, LIFT.pi_b, ["BEHAVIOUR", "WIS"], remaining=(0, 1))
    assert dw.load(found.save(tmp_path / "cut.json")).to_dict() == found.to_dict()
    assert "4 of 12" in repr(found)
    assert found.plot().axes
    assert "<table>" in found._repr_html_()


def test_what_cannot_be_bounded_says_so() -> None:
    with pytest.raises(DataError, match="No episode of this log is cut"):
        dw.cut_bounds(LIFT.sample(5), LIFT.pi_e, LIFT.pi_b, remaining=(0, 1))
    for wrong in ((1, 0), (0,), "no", (0, float("inf"))):
        with pytest.raises(OptionError, match="remaining"):
            dw.cut_bounds(cut_log(0), LIFT.pi_e, LIFT.pi_b, remaining=wrong)
    assert run(["evaluate", "nowhere.csv", "--cut-range", "many"]) == 2
