"""The betting bound: against a direct evaluation of E(m), by exact enumeration, and as a sequence."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.betting import FRACTIONS, ConfidenceSequence, confidence_sequence, lower_bound
from deadweight.errors import DataError, OptionError


def wealth(x: np.ndarray, m: float) -> float:
    """E(m) as it is written."""
    return float(np.mean([np.prod(1 - u + u * x / m) for u in FRACTIONS]))


def log_of(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(x)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [0.025, 0.2])
def test_wealth_at_the_bound_is_exactly_enough(seed: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=30) * (rng.random(30) < 0.7)
    bound = lower_bound(log_of(x), alpha)
    assert wealth(x, bound) == pytest.approx(1 / alpha, rel=1e-9)
    assert wealth(x, bound * (1 + 1e-6)) < 1 / alpha < wealth(x, bound * (1 - 1e-6))


def test_zeros_bound_nothing_and_scale_goes_through() -> None:
    assert lower_bound(np.full(10, -math.inf), 0.05) == 0.0
    x = np.random.default_rng(0).exponential(size=20)
    assert lower_bound(np.log(x) + 500.0, 0.05) == pytest.approx(
        lower_bound(np.log(x), 0.05) * math.exp(500.0)
    )


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_misses_at_most_alpha_of_all_bernoulli_samples(p: float, scale: float) -> None:
    """X = scale * Bernoulli(p): the chance that the bound lies above the mean, summed over all outcomes."""
    n, alpha = 25, 0.1
    missed = sum(
        math.comb(n, k) * p**k * (1 - p) ** (n - k)
        for k in range(n + 1)
        if lower_bound(log_of(scale * (np.arange(n) < k)), alpha) > scale * p
    )
    assert missed <= alpha


def test_sequence_misses_at_most_alpha_at_any_time() -> None:
    """Over all 2**9 sequences of Bernoulli returns, the share that ever leaves the truth out."""
    p, n, level, missed = 0.35, 9, 0.6, 0.0
    for outcome in product((0.0, 1.0), repeat=n):
        sequence = ConfidenceSequence((0.0, 1.0), level)
        ever = False
        for value in outcome:
            lower, upper = sequence.update(1.0, value)
            ever |= not lower <= p <= upper
        missed += ever * p ** sum(outcome) * (1 - p) ** (n - sum(outcome))
    assert missed <= 1 - level


def test_sequence_is_nested_and_at_every_episode_the_running_best_bound() -> None:
    rng = np.random.default_rng(3)
    weights, returns = rng.exponential(size=60), rng.random(60)
    sequence, best = ConfidenceSequence((0.0, 1.0), 0.9), 0.0
    for i in range(60):
        lower, _ = sequence.update(weights[i], returns[i])
        best = max(best, lower_bound(np.log(weights[: i + 1] * returns[: i + 1]), 0.05))
        assert lower == pytest.approx(best, rel=1e-8)


PROBLEM = dw.domains.deterministic_lift(7)
LOG = PROBLEM.sample(200, seed=1)
RANGE = (-60.0, 1.0)


def test_guaranteed_interval_of_an_estimate() -> None:
    found = dw.estimate("IS", LOG, PROBLEM.pi_e, PROBLEM.pi_b, interval="guaranteed", return_range=RANGE)
    weights = np.array([2.0 ** len(e) if all(a == 1 for _, a, _ in e) else 0.0 for e in LOG])
    returns = np.array([sum(r for _, _, r in e) for e in LOG])
    lower = RANGE[0] + lower_bound(log_of(weights * (returns - RANGE[0])), 0.025)
    upper = RANGE[1] - lower_bound(log_of(weights * (RANGE[1] - returns)), 0.025)
    assert found.interval == pytest.approx((lower, upper), rel=1e-9)
    assert found.bias_allowance == 0.0
    assert found.sampling_error == pytest.approx((upper - lower) / 2)
    assert found.bounds.covers == "V(pi_e)"
    path = confidence_sequence(LOG, PROBLEM.pi_e, PROBLEM.pi_b, return_range=RANGE)
    assert path.lower[-1] >= lower - 1e-8
    assert path.upper[-1] <= upper + 1e-8


def test_every_product_name_has_the_interval_of_its_weights() -> None:
    ends = {
        name: dw.estimate(
            name, LOG, PROBLEM.pi_e, PROBLEM.pi_b, drop=[1, 3], interval="guaranteed", return_range=RANGE
        )
        for name in ("SIS", "WSPDIS", "C-WSIS", "WDRSIS")
    }
    assert len({estimate.interval for estimate in ends.values()}) == 1
    assert {estimate.bounds.covers for estimate in ends.values()} == {"V(mu_D)"}
    assert not any(estimate.bounds.split for estimate in ends.values())


def test_a_rule_chooses_on_one_half_and_bounds_with_the_other() -> None:
    found = dw.estimate(
        "SIS", LOG, PROBLEM.pi_e, PROBLEM.pi_b, drop="q-gap:1.0", interval="guaranteed", return_range=RANGE
    )
    bounds = found.bounds
    assert bounds.split
    assert bounds.episodes == 100
    odd = LOG.select(np.arange(200) % 2 == 1)
    again = dw.estimate(
        "SIS",
        odd,
        PROBLEM.pi_e,
        PROBLEM.pi_b,
        drop=bounds.dropped,
        interval="guaranteed",
        return_range=RANGE,
    )
    assert again.interval == pytest.approx(found.interval)


def test_behaviour_covers_its_own_value() -> None:
    found = dw.estimate(
        "BEHAVIOUR", LOG, PROBLEM.pi_e, PROBLEM.pi_b, interval="guaranteed", return_range=RANGE
    )
    assert found.bounds.covers == "V(pi_b)"
    assert found.interval[0] <= PROBLEM.behaviour_value <= found.interval[1]


@pytest.mark.parametrize("kind", ["guaranteed", "bernstein"])
def test_the_range_must_be_given_and_must_hold(kind: str) -> None:
    with pytest.raises(OptionError, match="return_range"):
        dw.estimate("IS", LOG, PROBLEM.pi_e, PROBLEM.pi_b, interval=kind)
    returns = [sum(r for _, _, r in episode) for episode in LOG]
    first = next(i for i, value in enumerate(returns) if value < -4)
    with pytest.raises(DataError, match=f"episode {first} "):
        dw.estimate("IS", LOG, PROBLEM.pi_e, PROBLEM.pi_b, interval=kind, return_range=(-4.0, 1.0))


@pytest.mark.parametrize("given", [(1.0, 0.0), (0.0, 0.0), (0.0, math.inf), 3.0, ("a", "b"), (0.0, 1.0, 2.0)])
def test_a_range_is_two_finite_numbers(given: object) -> None:
    with pytest.raises(OptionError, match="return_range"):
        dw.estimate("IS", LOG, PROBLEM.pi_e, PROBLEM.pi_b, return_range=given)


def test_a_sequence_takes_no_rule() -> None:
    with pytest.raises(OptionError, match="before its first episode"):
        confidence_sequence(LOG, PROBLEM.pi_e, PROBLEM.pi_b, return_range=RANGE, drop="auto")
