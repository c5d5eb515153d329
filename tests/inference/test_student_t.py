"""Intervals from standard errors: centre, width and what happens at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import OptionError
from deadweight.inference.student_t import t_quantile

PROBLEM = dw.domains.stochastic_lift(7)
LOG = PROBLEM.sample(300, seed=2)
PAIR = {"pi_e": PROBLEM.pi_e, "pi_b": PROBLEM.pi_b}
DROP = [1, 3]


@pytest.mark.parametrize("name", ["SIS", "WSIS", "SPDIS", "WSPDIS"])
def test_auto_is_centred_on_the_corrected_estimate_with_its_error(name: str) -> None:
    found = dw.estimate(name, LOG, **PAIR, drop=DROP)
    corrected = dw.estimate("C-" + name, LOG, **PAIR, drop=DROP)
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
    found = dw.estimate("WDRSIS", LOG, **PAIR, drop=DROP)
    assert found.centre == found.value
    assert found.bias_allowance == pytest.approx(abs(found.bias))


def test_bias_trust_scales_the_allowance() -> None:
    one, half, none = (
        dw.estimate("WSPDIS", LOG, **PAIR, drop=DROP, bias_trust=trust) for trust in (1, 0.5, 0)
    )
    assert half.bias_allowance == pytest.approx(one.bias_allowance / 2)
    assert none.bias_allowance == 0.0
    assert one.sampling_error == half.sampling_error == none.sampling_error


def test_student_t_leaves_the_bias_alone() -> None:
    found = dw.estimate("WSPDIS", LOG, **PAIR, drop=DROP, interval="student-t", level=0.9)
    error = t_quantile(0.9, found.ess - 1) * found.std_error
    assert found.interval == pytest.approx((found.value - error, found.value + error))
    assert found.bias_allowance == 0.0
    assert found.details["interval"]["covers"] == "V(mu_D)"


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
    assert found.details["interval"]["covers"] == "V(mu_D)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"interval": "bootstap"}, "Did you mean 'bootstrap'"),
        ({"level": 1.0}, "level"),
        ({"bias_trust": -1}, "bias_trust"),
        ({"resamples": 0}, "resamples"),
        ({"seed": 0.5}, "seed"),
    ],
)
def test_bad_requests(settings: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        dw.estimate("WIS", LOG, **PAIR, **settings)
