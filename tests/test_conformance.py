"""The table of all estimators through the public conformance checks, on ragged logs with cut episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from strategies import random_policy

import deadweight as dw
from deadweight import testing
from deadweight.estimators.estimator import BUILT_IN
from deadweight.question.drops import Drop

STATES, ACTIONS = 4, 3
RNG = np.random.default_rng(11)
PI_B = random_policy(RNG, STATES, ACTIONS) * 0.8 + 0.2 / ACTIONS
PI_E = random_policy(RNG, STATES, ACTIONS, zero_share=0.2)
BASES = {"SIS": "IS", "SPDIS": "PDIS", "SINCRIS": "INCRIS", "DRSIS": "DR"}
PLAIN_OF = {"SSDRE": "SDRE", "SMIS": "MIS", "STMIS": "TMIS"}
for state_based, base in BASES.items():
    PLAIN_OF |= {state_based: base, "W" + state_based: "W" + base}
for corrected in ("SIS", "WSIS", "SPDIS", "WSPDIS"):
    PLAIN_OF["C-" + corrected] = PLAIN_OF[corrected]


ENDED, CUT = testing.example_log(cut=False), testing.example_log(cut=True)
FLAGS = Drop(steps=RNG.random(CUT.n_steps) < 0.4)
VARIANTS: list[tuple[dw.Trajectories, dict[str, Any]]] = [
    (ENDED, {"drop": [1, 3], "gamma": 1.0}),
    (CUT, {"drop": [0, 1], "gamma": 0.9, "finished": "leave", "unseen": "terminate", "window": None}),
    (CUT, {"drop": FLAGS, "gamma": 0.9, "finished": "survivors", "ended_ratios": "one", "given": "reward"}),
]


def fitting(name: str, settings: dict[str, Any], log: dw.Trajectories) -> dict[str, Any]:
    """The settings as the name can take them: SDRE knows no discount, and one form a kind of ending."""
    if "SDRE" in name:
        return {**settings, "gamma": 1.0, "mode": "policy" if log is ENDED else "corrected"}
    return settings


@pytest.mark.parametrize(
    ("check", "variant"),
    [
        pytest.param(check, variant, id=f"{check.__name__}-{variant}")
        for check in testing.CHECKS
        for variant, (_, settings) in enumerate(VARIANTS)
        # One flag a step belongs to one order of the steps.
        if not (check is testing.check_episode_order and settings["drop"] is FLAGS)
    ],
)
@pytest.mark.parametrize("name", dw.ESTIMATORS)
def test_checks_that_hold_for_all(name: str, check: Any, variant: int) -> None:
    log, settings = VARIANTS[variant]
    check(name, log, PI_E, PI_B, **fitting(name, settings, log))


@pytest.mark.parametrize("name", dw.ESTIMATORS)
def test_what_an_added_estimator_is_checked_for_holds_for_all(name: str) -> None:
    fixed = {"gamma": 1.0, "mode": "corrected"} if "SDRE" in name else {}
    testing.check_one(BUILT_IN[name], **fixed)


@pytest.mark.parametrize("name", PLAIN_OF)
def test_empty_drop_is_the_plain_estimator(name: str) -> None:
    for log, settings in VARIANTS:
        kept = {key: value for key, value in fitting(name, settings, log).items() if key != "drop"}
        testing.check_empty_drop(name, PLAIN_OF[name], log, PI_E, PI_B, **kept)


@pytest.mark.parametrize("name", dw.ESTIMATORS)
def test_plain_names_ignore_the_drop(name: str) -> None:
    assert BUILT_IN[name].is_state_based == (name in PLAIN_OF)
    if name in PLAIN_OF:
        return
    with_drop = dw.estimate(name, ENDED, PI_E, PI_B, drop=[0, 1, 2, 3])
    without = dw.estimate(name, ENDED, PI_E, PI_B)
    assert (with_drop.value, with_drop.std_error, with_drop.dropped) == (without.value, without.std_error, [])


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("name", testing.DROPPING)
def test_drop_all_is_the_mean_return(name: str, gamma: float) -> None:
    # Marginals of cut episodes go on from their logged successors: only ended ones give back the mean.
    for log in (ENDED,) if "MIS" in name else (ENDED, CUT):
        testing.check_drop_all(name, log, PI_E, PI_B, gamma=gamma)
    if not name.endswith(("MIS", "INCRIS")):
        testing.check_drop_all(name, CUT, PI_E, PI_B, gamma=gamma, finished="survivors")


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("name", testing.WITHOUT_MODEL)
def test_same_policies_give_the_mean_return(name: str, gamma: float) -> None:
    for log in (ENDED,) if name == "MIS" else (ENDED, CUT):
        testing.check_same_policies(name, log, PI_B, gamma=gamma)


@pytest.mark.parametrize("given", ["state", "reward", "return"])
def test_conditional_with_the_same_policies(given: str) -> None:
    testing.check_same_policies("CIS", CUT, PI_B, given=given, gamma=0.9)


@pytest.mark.parametrize("name", dw.ESTIMATORS)
def test_many_blocks_and_workers(name: str) -> None:
    """More cells than a block holds, so that threads really share the work."""
    log = testing.example_log(cut=False, n=3_000, longest=40, seed=5)
    settings = {"drop": [1, 3], "interval": None, "also": ["std_error", "bias"], "finished": "absorb"}
    testing.check_workers(name, log, PI_E, PI_B, workers=(1, 2, 7), **settings)


def test_a_check_fails_where_it_should() -> None:
    """Conformance is only worth something if the checks can tell."""
    with pytest.raises(AssertionError, match="everything dropped"):
        testing.check_drop_all("DRSIS", ENDED, PI_E, PI_B)
    with pytest.raises(AssertionError, match="pi_e = pi_b"):
        testing.check_same_policies("DM", CUT, PI_B)
    with pytest.raises(AssertionError, match="empty drop against WIS"):
        testing.check_empty_drop("WSPDIS", "WIS", ENDED, PI_E, PI_B)


def test_evaluate_gives_the_numbers_of_estimate() -> None:
    table = dw.evaluate(ENDED, PI_E, PI_B, list(dw.ESTIMATORS), drop=[1, 3])
    for name in dw.ESTIMATORS:
        one = dw.estimate(name, ENDED, PI_E, PI_B, drop=[1, 3])
        assert_same(table[name].to_dict(), one.to_dict(), name)


def assert_same(found: object, expected: object, where: str) -> None:
    """Equal up to rounding: sums of many names together are added in another order than those of one."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        assert list(found) == list(expected), where
        for key, value in expected.items():
            assert_same(found[key], value, f"{where}, {key}")
    elif isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected), where
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, where)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-14), where
    else:
        assert found == expected, where
