"""BLEND against plain loops, and what must hold for any blend."""

from __future__ import annotations

import numpy as np
import pytest
import reference as ref
from reference import blend as plain
from reference import weighted
from strategies import random_policy

import deadweight as dw
from deadweight.blend.evidence import gather
from deadweight.blend.mixing import blend
from deadweight.estimators.full_influence import full_influence, starts_of
from deadweight.estimators.windowed import ModelSteps, windowed
from deadweight.question.core import ask
from deadweight.question.drops import given_drop
from deadweight.sums.blocks import blocks
from deadweight.testing import influences

STATES, ACTIONS = 4, 3


def make_case(
    n: int, seed: int, even: bool = False
) -> tuple[dw.Trajectories, ref.Log, np.ndarray, np.ndarray]:
    """A log with ragged episodes, unseen pairs and cut ends; `even`: policies that hardly differ."""
    rng = np.random.default_rng(seed)
    pi_b = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    pi_e = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    pi_e = 0.9 * pi_b + 0.1 * pi_e if even else pi_e
    episodes, following = [], []
    for i in range(n):
        states = rng.integers(STATES, size=1 + i % 4)
        actions = np.where(states == 2, 0, rng.integers(ACTIONS, size=states.size))
        episodes.append([(int(s), int(a), float(rng.normal())) for s, a in zip(states, actions, strict=True)])
        following.append([*states[1:].tolist(), -1 if i % 3 else int(rng.integers(STATES))])
    terminated = [i % 4 != 0 for i in range(n)]
    log = dw.Trajectories.from_episodes(episodes, terminated, following)
    return log, ref.Log(episodes, terminated, following), pi_e, pi_b


@pytest.mark.parametrize(
    ("n", "seed", "even", "drop", "gamma", "level"),
    [
        (20, 1, True, [1], 0.9, 0.95),
        (18, 2, False, [0, 3], 1.0, 0.95),
        (12, 3, False, [0, 1, 2, 3], 0.9, 0.8),
        (9, 4, False, [2], 1.0, 0.99),
    ],
)
def test_against_plain_loops(
    n: int, seed: int, even: bool, drop: list[int], gamma: float, level: float
) -> None:
    log, loops, pi_e, pi_b = make_case(n, seed, even)
    question = ask(log, pi_e, pi_b, gamma)
    evidence = gather(question, given_drop(drop, question.pair, log))
    found = blend(evidence, level)
    expected = plain.blend(loops, pi_e, pi_b, set(drop), gamma, level)
    values = dict(zip(evidence.names, evidence.values, strict=True))
    for name, value in expected.estimates.items():
        assert values[name] == pytest.approx(value, rel=1e-10), name
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    assert found.half_width == pytest.approx(expected.half_width, rel=1e-10)
    assert found.contradiction == pytest.approx(expected.contradiction, rel=1e-10)
    assert found.baseline_error == pytest.approx(expected.baseline_error, rel=1e-10)
    assert dict(found.shares) == pytest.approx(expected.shares, rel=1e-10, abs=1e-12)
    assert sum(found.shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("window", [2, 3])
def test_influence_of_windowed_weights(window: int) -> None:
    """Equal to the derivative by one episode's weight, with state ratios held fixed."""
    log, loops, pi_e, pi_b = make_case(16, 5)
    question = ask(log, pi_e, pi_b, 0.9)
    steps = ModelSteps(question)
    family = windowed(question, steps, window)
    starts = starts_of(family, question.values, (STATES, ACTIONS))
    assert starts is not None
    (block,) = blocks(log)
    sums = family.summarise(block)
    fit = family.finish(sums, weighted=True)
    assert fit.influence is not None
    influence = full_influence(
        fit.influence, sums, True, (starts, starts.summarise(block)), question.values.fits
    )
    direct = influences("DM", log, pi_e, pi_b, gamma=0.9)

    def estimate(omega: weighted.Omega) -> float:
        return weighted.windowed(loops, pi_e, pi_b, omega, 0.9, window, steps.ratios, steps.alive)

    assert direct[1] is not None
    assert fit.value + direct[0].value == pytest.approx(estimate(np.ones(16)), rel=1e-12)
    found = influence(block) + direct[1]
    expected = weighted.influence(estimate, 16)
    assert found - found.mean() == pytest.approx(expected - expected.mean(), rel=1e-6, abs=1e-6)
