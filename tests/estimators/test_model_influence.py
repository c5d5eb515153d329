"""The full influence against numerical derivatives by the weight of one episode, counts and sums alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import reference as ref
from reference import weighted
from strategies import random_policy

import deadweight as dw
from deadweight.question.question import ask
from deadweight.sums.blocks import blocks
from deadweight.testing import influences
from deadweight.values.model_influence import FittedModel

STATES, ACTIONS, N, GAMMA = 5, 3, 14, 0.9
DROP = [1, 3]


def make_case() -> tuple[dw.Trajectories, ref.Log, np.ndarray, np.ndarray]:
    """Ragged episodes; some pairs unseen, some episodes cut with and without a successor."""
    rng = np.random.default_rng(12)
    pi_b = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    pi_e = random_policy(rng, STATES, ACTIONS) * 0.7 + 0.3 / ACTIONS
    episodes, following = [], []
    for i in range(N):
        states = rng.integers(STATES, size=2 + i % 5)
        actions = np.where(states == 2, 0, rng.integers(ACTIONS, size=states.size))
        actions = np.where(states == 4, np.minimum(actions, 1), actions)
        episodes.append([(int(s), int(a), float(rng.normal())) for s, a in zip(states, actions, strict=True)])
        following.append([*states[1:].tolist(), -1 if i % 3 else int(rng.integers(STATES))])
    terminated = [i % 4 != 0 for i in range(N)]
    log = dw.Trajectories.from_episodes(episodes, terminated, following)
    return log, ref.Log(episodes, terminated, following), pi_e, pi_b


LOG, PLAIN, PI_E, PI_B = make_case()
Estimate = Callable[[weighted.Omega], float]


def corrected(is_weighted: bool, whole: bool) -> Estimate:
    return lambda o: weighted.corrected(PLAIN, PI_E, PI_B, set(DROP), o, GAMMA, is_weighted, whole)


def robust(is_weighted: bool, drop: bool, folds: int = 0) -> Estimate:
    states = set(DROP) if drop else None
    return lambda o: weighted.doubly_robust(PLAIN, PI_E, PI_B, states, o, GAMMA, is_weighted, folds)


def linear(folds: int = 0) -> Estimate:
    weights = ref.summed_weights(PLAIN, PI_E, PI_B)
    return lambda o: weighted.doubly_robust(PLAIN, PI_E, PI_B, None, o, GAMMA, False, folds, weights)


CASES: list[tuple[str, dict[str, object], Estimate]] = [
    ("DM", {}, lambda o: weighted.direct(PLAIN, PI_E, o, GAMMA)),
    ("DM", {"unseen": "terminate"}, lambda o: weighted.direct(PLAIN, PI_E, o, GAMMA, "terminate")),
    ("C-SIS", {}, corrected(False, True)),
    ("C-WSIS", {}, corrected(True, True)),
    ("C-SPDIS", {}, corrected(False, False)),
    ("C-WSPDIS", {}, corrected(True, False)),
    ("DR", {}, robust(False, False)),
    ("DRSIS", {}, robust(False, True)),
    ("WDR", {}, robust(True, False)),
    ("WDRSIS", {}, robust(True, True)),
    ("WDR", {"cross_fit": 3}, robust(True, False, 3)),
    ("WDRSIS", {"cross_fit": 2}, robust(True, True, 2)),
    ("DR", {"cross_fit": 5}, robust(False, False, 5)),
    ("LIN", {}, linear()),
    ("LIN", {"cross_fit": 3}, linear(3)),
]


@pytest.mark.parametrize(("name", "options", "estimate"), CASES)
def test_influence_is_the_derivative(name: str, options: dict[str, object], estimate: Estimate) -> None:
    fit, found = influences(name, LOG, PI_E, PI_B, drop=DROP, gamma=GAMMA, **options)
    assert fit.value == pytest.approx(estimate(np.ones(N)), rel=1e-12)
    expected = weighted.influence(estimate, N)
    assert found is not None
    assert found - found.mean() == pytest.approx(expected - expected.mean(), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["WDRSIS", "C-WSPDIS", "DR"])
def test_a_given_model_has_no_influence(name: str) -> None:
    """With the fitted model given as if it were known only the sums remain."""
    fitted = dw.fit_mdp(LOG, STATES, ACTIONS)
    known = dw.estimate(name, LOG, PI_E, PI_B, drop=DROP, gamma=GAMMA, model=fitted)
    learned = dw.estimate(name, LOG, PI_E, PI_B, drop=DROP, gamma=GAMMA)
    assert known.value == pytest.approx(learned.value, rel=1e-12)
    assert abs(known.std_error / learned.std_error - 1) > 0.05


def test_a_settled_model() -> None:
    """A model that is solved until its values settle has the influence of one solved over very many steps."""
    steps = 400
    question = ask(LOG, PI_E, PI_B, GAMMA)
    P, r, d0 = weighted.model(PLAIN, PI_E, np.ones(N))
    v = ref.q_values(P, r, PI_E, steps, GAMMA)[1]
    fitted = FittedModel(question.model, question.counts, PI_E, v[:4], True, GAMMA, "pool")
    start = (d0[:, None] * PI_E).ravel()
    (influence,) = fitted.influences([lambda t: start if t == 0 else None], N)
    (block,) = blocks(LOG)
    found = v[0][block.states[:, 0]] + influence(block)
    expected = weighted.influence(lambda o: weighted.direct(PLAIN, PI_E, o, GAMMA, steps=steps), N)
    assert found - found.mean() == pytest.approx(expected - expected.mean(), rel=1e-6, abs=1e-6)


def test_standard_error_of_an_estimate_is_that_of_its_full_influence() -> None:
    for name in ("C-SIS", "C-WSPDIS", "DR", "WDRSIS"):
        _, values = influences(name, LOG, PI_E, PI_B, drop=DROP, gamma=GAMMA)
        assert values is not None
        expected = values.std(ddof=1) / np.sqrt(N)
        found = dw.estimate(name, LOG, PI_E, PI_B, drop=DROP, gamma=GAMMA, also=["std_error"], interval=None)
        assert found.std_error == pytest.approx(expected, rel=1e-12)
