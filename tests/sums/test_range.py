"""Weights of any size: exactly one where they should be, right where they leave the range of doubles."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import reference as ref

import deadweight as dw
from deadweight.answers.trust import cross_checks_of
from deadweight.question.question import ask

TINY = 2.0**-40  # 0.9e-12; a power of two, so that rational arithmetic stays quick

ALL = ("std_error", "bias", "ess_steps")


def flat(states: Any, actions: Any, rewards: Any, lengths: Any, **columns: Any) -> dw.Trajectories:
    return dw.Trajectories(states, actions, rewards, np.concatenate([[0], np.cumsum(lengths)]), **columns)


@pytest.mark.parametrize("n_actions", [10, 3, 7])
def test_equal_policies_over_a_hundred_thousand_steps(n_actions: int) -> None:
    """Weights are exactly one, so WIS is the plain mean to the bit and no episode is lost."""
    horizon, n = 100_000, 3
    rng = np.random.default_rng(n_actions)
    pi = rng.dirichlet(np.ones(n_actions), size=4)
    rewards = rng.integers(-2, 3, size=n * horizon).astype(float)  # whole numbers add without rounding
    log = flat(
        rng.integers(4, size=n * horizon), rng.integers(n_actions, size=n * horizon), rewards, [horizon] * n
    )
    mean = rewards.sum() / n
    for name in ("IS", "WIS", "PDIS", "WPDIS", "BEHAVIOUR"):
        found = dw.estimate(name, log, pi, pi, interval=None, also=ALL)
        if name in ("WPDIS",):  # one division a step
            assert found.value == pytest.approx(mean, rel=1e-12)
        else:
            assert found.value == mean
        if found.ess is not None:
            assert found.ess == n
            assert (found.ess_steps == n).all()


def extreme(ratio: float) -> tuple[list[list[tuple[int, int, float]]], np.ndarray, np.ndarray]:
    """Three episodes of 1,000 steps with ratio `ratio` but for a few: each a different number of ones.

    State 0 has the extreme ratio, state 1 the ratio 1, state 2 the ratios 1/2 and 3/2.
    """
    rng = np.random.default_rng(2)
    small = min(ratio, 1 / ratio)
    pi_e = np.array([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]])
    pi_b = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    pi = [small * 0.5, 1 - small * 0.5]
    (pi_e if ratio < 1 else pi_b)[0] = pi
    episodes = []
    for ones in (0, 0, 1):
        states = [0] * (990 - ones) + [1] * ones + [2] * 10
        actions = [0] * 990 + [int(a) for a in rng.integers(2, size=10)]
        order = rng.permutation(1000)
        episodes.append([(states[i], actions[i], float(rng.integers(-4, 5)) / 4) for i in order])
    return episodes, pi_e, pi_b


def exact(table: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(p)) for p in row] for row in table]


def whole_weights(episodes: Any, pi_e: np.ndarray, pi_b: np.ndarray) -> list[list[int]]:
    """W_it in units of 2**-41(t+1), whole numbers; ended episodes keep theirs, in the changing unit."""
    unit = 2**41
    horizon = max(len(episode) for episode in episodes)
    rows = []
    for episode in episodes:
        ratios = [Fraction(pi_e[s, a]) / Fraction(pi_b[s, a]) * unit for s, a, _ in episode]
        assert all(ratio.denominator == 1 for ratio in ratios)
        row = [1]
        for ratio in [int(ratio) for ratio in ratios] + [unit] * (horizon - len(episode)):
            row.append(row[-1] * ratio)
        rows.append(row[1:])
    return rows


@pytest.mark.parametrize("ratio", [TINY, 1 / TINY])
@pytest.mark.parametrize("finished", ["absorb", "leave", "survivors"])
def test_extreme_ratios_over_a_thousand_steps(ratio: float, finished: Any) -> None:
    """Products of 1e+-12000 against whole-number arithmetic, with a short episode among them."""
    episodes, pi_e, pi_b = extreme(ratio)
    episodes.append(episodes[0][:400])
    log = dw.Trajectories.from_episodes(episodes)
    weights = whole_weights(episodes, pi_e, pi_b)
    wpdis, steps = 0.0, []
    for t in range(1000):
        inside = [i for i, episode in enumerate(episodes) if finished == "absorb" or t < len(episode)]
        total = sum(weights[i][t] for i in inside)
        top = sum(weights[i][t] * int(4 * episodes[i][t][2]) for i in inside if t < len(episodes[i]))
        share = len(inside) / 4 if finished == "survivors" else 1
        wpdis += (
            top / (4 * total) * share
        )  # the quotient of two whole numbers of any size is correctly rounded
        steps.append(total**2 / sum(weights[i][t] ** 2 for i in inside))
    found = dw.estimate("WPDIS", log, pi_e, pi_b, finished=finished, interval=None, also=ALL)
    assert found.value == pytest.approx(wpdis, rel=1e-10)
    assert found.ess_steps == pytest.approx(np.array(steps), rel=1e-10)
    assert np.isfinite(found.std_error)


@pytest.mark.parametrize("ratio", [TINY, 1 / TINY])
def test_extreme_whole_episodes(ratio: float) -> None:
    """WIS and its effective sample size against the plain loops in rational arithmetic."""
    episodes, pi_e, pi_b = extreme(ratio)
    log = dw.Trajectories.from_episodes(episodes)
    rational = ref.Log([[(s, a, Fraction(r)) for s, a, r in episode] for episode in episodes])
    policies = (exact(pi_e), exact(pi_b))
    found = dw.estimate("WIS", log, pi_e, pi_b, interval=None, also=ALL)
    assert found.value == pytest.approx(float(ref.is_(rational, *policies, weighted=True)), rel=1e-10)
    assert found.ess == pytest.approx(float(ref.ess(rational, *policies)), rel=1e-10)
    assert np.isfinite(found.std_error)


def test_an_excursion_that_comes_back() -> None:
    """Five hundred ratios of 1e12 and five hundred of 1e-12: up to 1e6000 and back to one, exactly."""
    pi_e = np.array([[TINY, 1 - TINY], [0.5, 0.5], [1.0, 0.0]])
    pi_b = np.array([[0.5, 0.5], [TINY, 1 - TINY], [0.5, 0.5]])
    up, down = [(1, 0, 1.0)] * 500, [(0, 0, 1.0)] * 500
    episodes = [up + down, down + up, [(2, 0, 4.0)]]
    log = dw.Trajectories.from_episodes(episodes)
    found = dw.estimate("WIS", log, pi_e, pi_b, interval=None, also=ALL)
    assert found.value == (1000 + 1000 + 2 * 4) / 4
    assert found.ess == 16 / 6
    plain = dw.estimate("IS", log, pi_e, pi_b, interval=None, also=ALL)
    assert plain.value == (1000 + 1000 + 2 * 4) / 3
    assert plain.flags == ("low-ess",)


@pytest.mark.parametrize(
    ("finished", "value"),
    [("absorb", Fraction(17, 9)), ("leave", Fraction(2)), ("survivors", Fraction(3, 2))],
)
def test_the_toy_log(finished: str, value: Fraction) -> None:
    """A = (rho 1/2; r 1), B = (rho 2, 2; r 1, 1): WPDIS by each convention for finished episodes."""
    episodes = [[(0, 0, 1.0)], [(1, 0, 1.0), (1, 0, 1.0)]]
    log = dw.Trajectories.from_episodes(episodes)
    pi_e, pi_b = [[0.25, 0.75], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]
    found = dw.estimate("WPDIS", log, pi_e, pi_b, finished=finished, interval=None, also=ALL)
    assert found.value == pytest.approx(float(value), rel=1e-15)


@pytest.mark.parametrize("name", dw.ESTIMATORS)
@pytest.mark.parametrize("ratio", [TINY, 1 / TINY])
@pytest.mark.parametrize("sign", [1, -1])
def test_never_a_silent_nan(name: str, ratio: float, sign: int) -> None:
    """Whatever leaves the range of doubles says so, by value and by flag, and warns of nothing."""
    episodes, pi_e, pi_b = extreme(ratio)
    episodes[1] = [(s, a, sign * r - 0.5) for s, a, r in episodes[1]]
    log = dw.Trajectories.from_episodes(episodes)
    found = dw.estimate(name, log, pi_e, pi_b, drop=[1], interval="student-t")
    if np.isfinite(found.value):
        assert "overflow" not in found.flags
        assert not np.isnan(found.std_error)
    else:
        assert "overflow" in found.flags
        assert "overflow" not in found.explain()  # said in words
    if name in ("WIS", "WPDIS", "WSIS", "WSPDIS", "WDR", "WDRSIS", "C-WSIS", "C-WSPDIS", "TMIS", "DM"):
        assert np.isfinite(found.value)
        assert np.isfinite(found.std_error)


@pytest.mark.parametrize("name", ["IS", "PDIS", "DR"])
def test_overflow_of_a_plain_product_is_flagged(name: str) -> None:
    episodes, pi_e, pi_b = extreme(1 / TINY)
    found = dw.estimate(name, dw.Trajectories.from_episodes(episodes), pi_e, pi_b)
    assert not np.isfinite(found.value)
    assert "overflow" in found.flags


def test_zero_weights_count_as_zero() -> None:
    """0/0 is 0 for that step only, and the flag says so."""
    log = dw.Trajectories.from_episodes([[(0, 0, 3.0), (0, 1, 5.0)], [(0, 0, 1.0), (0, 1, 7.0)]])
    pi_e, pi_b = [[1.0, 0.0]], [[0.5, 0.5]]
    found = dw.estimate("WPDIS", log, pi_e, pi_b)
    assert found.value == 2.0
    assert {"zero-weights", "low-ess"} <= set(found.flags)
    found = dw.estimate("WIS", log, pi_e, pi_b)
    assert (found.value, found.std_error, found.ess) == (0.0, 0.0, 0.0)
    assert "zero-weights" in found.flags


def test_a_long_gone_discount_meets_a_huge_weight() -> None:
    """gamma**t is 0 and W_t is 1e6000 at the end of this log: no 0 * inf."""
    pi_e, pi_b = [[0.5, 0.5]], [[1e-12, 1 - 1e-12]]
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)] * 500, [(0, 0, 2.0)] * 500])
    found = dw.estimate("WPDIS", log, pi_e, pi_b, gamma=0.1, interval=None, also=ALL)
    assert found.value == pytest.approx(1.5 / 0.9, rel=1e-12)
    plain = dw.estimate("PDIS", log, pi_e, pi_b, gamma=0.1, interval=None, also=ALL)
    assert "overflow" in plain.flags


def test_discount_and_weight_cancel() -> None:
    """gamma**t underflows and W_t overflows, yet every product of the two is 2."""
    pi_e, pi_b = [[1.0, 0.0]], [[0.5, 0.5]]
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)] * 1500, [(0, 0, 2.0)] * 1500])
    found = dw.estimate("PDIS", log, pi_e, pi_b, gamma=0.5, interval=None, also=ALL)
    assert found.value == pytest.approx(4500, rel=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("name", ["IS", "PDIS", "WPDIS", "DR", "C-SIS", "C-SPDIS", "C-WSPDIS"])
def test_interval_and_verdict_of_extreme_weights_warn_of_nothing(name: str, gamma: float) -> None:
    """Ratios of 1e12 and 1e-12, rewards of both signs: what checks the estimate overflows to inf - inf."""
    rng = np.random.default_rng(0)
    actions, rewards = rng.integers(2, size=5000), rng.normal(size=5000)
    log = flat(np.zeros(5000, dtype=int), actions, rewards, [1000] * 5)
    pi_e, pi_b = [[1e-12, 1 - 1e-12]], [[1 - 1e-12, 1e-12]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ev = dw.evaluate(log, pi_e, pi_b, [name, "BEHAVIOUR"], drop=None, gamma=gamma)
        assert ev.verdict.answer == "cannot tell"
    assert "nan" not in " ".join(ev.verdict.reasons)
    json.dumps(ev.to_dict(), allow_nan=False)


def test_the_proof_of_a_model_does_not_depend_on_the_unit_of_rewards() -> None:
    """Huge rewards, whose fourth powers leave the range of doubles."""
    problem = dw.domains.stochastic_lift(7)
    log = problem.sample(200, seed=1)
    unit = 2.0**320
    other = dw.Trajectories(log.states, log.actions, log.rewards * unit, log.offsets)
    plain, huge = (cross_checks_of(ask(one, problem.pi_e, problem.pi_b)) for one in (log, other))
    assert huge.proven == plain.proven
    assert huge.undropped == pytest.approx(plain.undropped * unit, rel=1e-9)
