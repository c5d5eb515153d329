"""Intervals from standard errors: centre, width and what happens at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.intervals import t_quantile
from deadweight.errors import OptionError

PROBLEM = dw.domains.stochastic_lift(7)
LOG = PROBLEM.sample(300, seed=2)
PAIR = {"pi_e": PROBLEM.pi_e, "pi_b": PROBLEM.pi_b}
DROP = [1, 3]


@pytest.mark.parametrize("name", ["SIS", "WSIS", "SPDIS", "WSPDIS"])
def test_auto_is_centred_on_the_corrected_estimate_with_its_error(name: str) -> None:
    found = dw.estimate(name, LOG, **PAIR, drop=DROP, cross_check=False)
    corrected = dw.estimate("C-" + name, LOG, **PAIR, drop=DROP, cross_check=False)
    assert found.bias != 0
    assert found.centre == pytest.approx(corrected.value)
    error = t_quantile(0.95, found.ess - 1) * corrected.std_error
    assert found.sampling_error == pytest.approx(error)
    assert found.bias_allowance == pytest.approx(abs(found.bias))
    half = error + abs(found.bias)
    assert found.interval == pytest.approx((corrected.value - half, corrected.value + half))
    assert corrected.interval == pytest.approx(found.interval)


def test_without_a_corrected_name_its_own_error_serves() -> None:
    found = dw.estimate("SMIS", LOG, **PAIR, drop=DROP)
    assert found.centre == pytest.approx(found.value - found.bias)
    assert found.sampling_error == pytest.approx(t_quantile(0.95, 299) * found.std_error)


def test_doubly_robust_estimates_are_not_corrected_twice() -> None:
    found = dw.estimate("WDRSIS", LOG, **PAIR, drop=DROP, cross_check=False)
    assert found.centre == found.value
    assert found.bias_allowance == pytest.approx(abs(found.bias))


def test_bias_trust_scales_the_allowance() -> None:
    one, half, none = (
        dw.estimate("WSPDIS", LOG, **PAIR, drop=DROP, bias_trust=trust) for trust in (1, 0.5, 0)
    )
    assert half.bias_allowance == pytest.approx(one.bias_allowance / 2)
    assert none.bias_allowance == 0.0
    assert one.sampling_error == half.sampling_error == none.sampling_error


@pytest.mark.parametrize(
    ("name", "checked", "by"),
    [
        ("IS", "IS", "DR"),
        ("WPDIS", "WPDIS", "WDR"),
        ("SPDIS", "C-SPDIS", "DRSIS"),
        ("WSIS", "C-WSIS", "WDRSIS"),
        ("C-WSPDIS", "C-WSPDIS", "WDRSIS"),
        ("WDR", "WDR", "WPDIS"),
        ("DRSIS", "DRSIS", "C-SPDIS"),
        ("WINCRIS", "WINCRIS", "WDR"),
    ],
)
def test_auto_allows_for_the_estimate_that_leans_the_other_way(name: str, checked: str, by: str) -> None:
    found, alone = (dw.estimate(name, LOG, **PAIR, drop=DROP, cross_check=on) for on in (True, False))
    own, *others = (
        dw.estimate(one, LOG, **PAIR, drop=DROP, interval=None).value for one in (checked, by, "WDR")
    )
    # With a drop the estimate that drops nothing is asked as well; without one it is asked already.
    apart = max(abs(own - other) for other in (others if found.dropped else others[:1]))
    assert found.ess >= 10
    assert apart > 0
    assert found.bias_allowance == pytest.approx(alone.bias_allowance + apart)
    assert found.bounds.disagreement == pytest.approx(apart)
    assert found.sampling_error == pytest.approx(alone.sampling_error, rel=1e-12)
    assert found.centre == pytest.approx(alone.centre, rel=1e-12)
    assert alone.bounds.disagreement is None


def test_where_few_episodes_carry_the_weights_the_model_alone_is_asked_too() -> None:
    few = LOG.select(np.arange(60, 85))
    found = dw.estimate("WPDIS", few, **PAIR)
    other, model = (dw.estimate(one, few, **PAIR, interval=None).value for one in ("WDR", "DM"))
    assert found.ess < 10
    assert abs(found.value - model) > abs(found.value - other)
    assert found.bias_allowance == pytest.approx(abs(found.value - model))


@pytest.mark.parametrize("name", ["BEHAVIOUR", "DM", "MIS", "CIS"])
def test_what_does_not_weigh_by_products_has_nothing_to_be_checked_by(name: str) -> None:
    found = dw.estimate(name, LOG, **PAIR)
    assert found.bias_allowance == 0.0
    assert "unchecked" not in found.flags


def test_what_cannot_be_checked_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deadweight.question.question.MOST_VALUES", LOG.horizon * PROBLEM.pi_e.probs.size - 1)
    found = dw.estimate("WPDIS", LOG, **PAIR)
    assert found.bias_allowance == 0.0
    assert "unchecked" in found.flags
    assert "unchecked" not in dw.estimate("WPDIS", LOG, **PAIR, cross_check=False).flags
    assert "unchecked" not in dw.estimate("WPDIS", LOG, **PAIR, interval="student-t").flags


def test_student_t_leaves_the_bias_alone() -> None:
    found = dw.estimate("WSPDIS", LOG, **PAIR, drop=DROP, interval="student-t", level=0.9)
    error = t_quantile(0.9, found.ess - 1) * found.std_error
    assert found.interval == pytest.approx((found.value - error, found.value + error))
    assert found.bias_allowance == 0.0
    assert found.bounds.covers == "V(mu_D)"


def test_one_effective_episode_says_nothing() -> None:
    log = dw.Trajectories.from_episodes([[(0, 1, 5.0)], [(0, 0, 1.0)], [(0, 0, 2.0)]])
    found = dw.estimate("WIS", log, [[0.0, 1.0]], [[0.5, 0.5]])
    assert found.interval == (-math.inf, math.inf)
    assert found.to_dict()["interval"] == [None, None]


def test_a_constant_return_has_an_interval_of_no_width() -> None:
    log = dw.Trajectories.from_episodes([[(0, i % 2, 3.0)] for i in range(10)])
    found = dw.estimate("WIS", log, [[0.5, 0.5]], [[0.5, 0.5]])
    assert found.interval == (3.0, 3.0)


def test_without_pi_e_the_interval_is_that_of_mu() -> None:
    log = dw.Trajectories(
        np.arange(20) % 2, np.arange(20) % 2, np.ones(20), np.arange(0, 21, 2), target_probs=np.full(20, 0.5)
    )
    found = dw.estimate("WSIS", log, None, [[0.5, 0.5], [0.5, 0.5]], drop=[1])
    assert found.bias is None
    assert found.bounds.covers == "V(mu_D)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval": "bootstap"}, "Did you mean 'bootstrap'"),
        ({"level": 1.0}, "level"),
        ({"bias_trust": -1}, "bias_trust"),
        ({"cross_check": 1}, "cross_check"),
        ({"resamples": 0}, "resamples"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_bad_requests(settings: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        dw.estimate("WIS", LOG, **PAIR, **settings)
