"""The table of estimates and its verdict."""

from __future__ import annotations

import json

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import OptionError, UnknownEstimator
from deadweight.estimators.estimator import estimator_of
from deadweight.results import Estimate, Interval
from deadweight.verbs.verdict import contradicts, table_verdict


@pytest.fixture(scope="module")
def ev() -> dw.Evaluation:
    lift = dw.domains.stochastic_lift(7)
    return dw.evaluate(lift.sample(500, seed=0), lift.pi_e, lift.pi_b)


def made_up(name: str, lower: float, upper: float, ess: float | None = 100.0) -> Estimate:
    centre = (lower + upper) / 2
    return Estimate(
        about=estimator_of(name).about,
        value=centre,
        n_episodes=100,
        bounds=Interval(lower, upper, upper - centre, 0.0, "student-t", "V(pi_e)", centre),
        level=0.95,
        ess=ess,
    )


def test_the_default_table_has_the_naive_average_and_the_direct_method(ev):
    assert {"BLEND", "BEHAVIOUR", "DM", "WPDIS", "C-WSPDIS", "WDR"} <= set(ev)
    assert ev.headline.name == "BLEND"


def test_the_table_is_json(ev):
    document = json.loads(json.dumps(ev.to_dict(), allow_nan=False))
    assert document["verdict"]["answer"] == ev.verdict.answer
    assert set(document["estimates"]["WPDIS"]) == {
        *("value", "std_error", "interval", "ess", "bias", "dropped", "flags")
    }


def test_the_frame_has_a_row_for_each_estimator(ev):
    assert list(ev.to_frame()["estimator"]) == list(ev)


def test_a_name_that_is_not_there(ev):
    with pytest.raises(UnknownEstimator, match="Did you mean 'WPDIS'"):
        ev["WPDSI"]


def test_no_estimators_at_all():
    lift = dw.domains.stochastic_lift(7)
    with pytest.raises(OptionError, match="at least one"):
        dw.evaluate(lift.sample(10), lift.pi_e, lift.pi_b, [])


def test_a_number_to_beat():
    lift = dw.domains.deterministic_lift(7)
    log = lift.sample(1000, seed=0)
    answers = [dw.evaluate(log, lift.pi_e, lift.pi_b, baseline=b).verdict.answer for b in (-50.0, 50.0)]
    assert answers == ["better", "worse"]


def test_the_behaviour_policy_is_compared_with_even_if_it_is_not_shown():
    lift = dw.domains.deterministic_lift(7)
    found = dw.evaluate(lift.sample(1000, seed=0), lift.pi_e, lift.pi_b, ["C-WSPDIS"])
    assert list(found) == ["C-WSPDIS"]
    assert found.verdict.answer == "better"


@pytest.mark.parametrize(
    ("name", "lower", "upper", "ess", "expected"),
    [
        ("WIS", 2.0, 3.0, 100.0, True),
        ("WIS", -3.0, -2.0, 100.0, True),
        ("WIS", 0.5, 3.0, 100.0, False),
        ("WIS", 2.0, 3.0, 3.0, False),
        ("DM", 2.0, 3.0, None, False),
        ("BEHAVIOUR", 2.0, 3.0, None, False),
    ],
)
def test_what_contradicts_a_headline(name, lower, upper, ess, expected):
    assert contradicts(made_up(name, lower, upper, ess), made_up("C-WSPDIS", -1.0, 1.0)) is expected


def test_estimates_that_disagree_allow_no_verdict(ev):
    better, worse = made_up("C-WSPDIS", 1.0, 2.0), made_up("WDR", -2.0, -1.0)
    agreeing = made_up("WDR", 3.0, 4.0)

    def answer(*estimates: Estimate) -> str:
        table = {estimate.name: estimate for estimate in estimates}
        return table_verdict(table, 0.0).answer

    assert answer(better) == "better"
    assert answer(better, worse) == "cannot tell"
    assert answer(better, agreeing) == "better"
    assert np.isfinite(ev.verdict.difference)
