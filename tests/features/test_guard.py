"""Checks of values of rows: a model that knows nothing may not drop anything."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from deadweight_studies.problems import irrelevant
from features.test_feature_evaluation import LOG, TRUTH, pi_b, pi_e

import deadweight as dw
from deadweight.answers.candidates import WITHOUT_MODEL
from deadweight.answers.trust import calibration_z, row_checks_of
from deadweight.question.asked import Options
from deadweight.question.question import ask
from deadweight.sums.blocks import Table
from deadweight.tools.thresholds import LEAST_Z

RNG = np.random.default_rng(3)
SPREAD = float(LOG.rewards.std())
NOISE = {
    "small noise": dw.GivenQ(0.1 * SPREAD * RNG.normal(size=(LOG.n_steps, 3))),
    "large noise": dw.GivenQ(5 * SPREAD * RNG.normal(size=(LOG.n_steps, 3))),
    "a smooth random Q": dw.GivenQ(2 * np.sin(LOG.features @ RNG.normal(size=(4, 3)) + 1.0)),
}


def test_fit_by_plain_loops() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 30)
    n = int(lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    log = dw.Trajectories(None, rng.integers(0, 2, n), rng.normal(size=n), offsets, features=np.zeros((n, 1)))
    q = rng.normal(size=(log.n_states, 2))
    times = np.concatenate([np.arange(k) for k in lengths])
    x, y = np.empty(n), np.empty(n)
    for lo, hi in pairwise(offsets):
        for row in range(lo, hi):
            x[row] = q[row, log.actions[row]]
            y[row] = sum(0.9 ** (k - row) * log.rewards[k] for k in range(row, hi))
    for t in range(5):
        x[times == t] -= x[times == t].mean() if (times == t).any() else 0.0
        y[times == t] -= y[times == t].mean() if (times == t).any() else 0.0
    b = (x * y).sum() / (x * x).sum()
    u = [sum(x[k] * (y[k] - b * x[k]) for k in range(lo, hi)) for lo, hi in pairwise(offsets)]
    policy = dw.RowPolicy(np.full((n, 2), 0.5))
    z = calibration_z(ask(log, policy, policy, 0.9), Table(q, by_action=True))
    assert z == pytest.approx(b * (x * x).sum() / np.sqrt(np.square(u).sum()), rel=1e-10)


def test_a_model_that_knows_something_may_drop() -> None:
    guard = row_checks_of(ask(LOG, pi_e, pi_b))
    assert guard.ratio < 1
    assert guard.allows
    assert guard.z > 5
    assert dw.estimate("C-WSPDIS", LOG, pi_e, pi_b, interval=None).dropped_share > 0


def test_a_learned_model_that_foretells_nothing_has_no_share() -> None:
    """One feature, pure noise: the model sees no advantage, and its value is about that of pi_b."""
    sepsis = dw.domains.sepsis_like()
    log = sepsis.sample(300, seed=3)
    question = ask(log, sepsis.pi_e, sepsis.pi_b, options=Options(model=irrelevant(log, 0)))
    assert row_checks_of(question).z < LEAST_Z
    evaluation = dw.evaluate(log, sepsis.pi_e, sepsis.pi_b, background=False, model=irrelevant(log, 0))
    found = evaluation["BLEND"]
    assert set(found.shares) <= set(WITHOUT_MODEL)
    assert found.interval[0] < sepsis.true_value < found.interval[1]
    assert abs(evaluation["DM"].value - sepsis.true_value) > 3 * evaluation["DM"].std_error
    flagged = {name for name, one in evaluation.estimates.items() if "model-unproven" in one.flags}
    assert flagged == {"BLEND", "DM", "WDR", "WDRSIS"}  # C-WSPDIS drops nothing
    assert "predict nothing" in evaluation.verdict.reasons[0]


def test_a_learned_model_that_foretells_something_needs_no_more() -> None:
    found = dw.estimate("BLEND", LOG, pi_e, pi_b)
    assert found.shares["DM"] > 0
    assert "model-unproven" not in found.flags


@pytest.mark.parametrize("model", NOISE)
@pytest.mark.parametrize("name", ["C-WSPDIS", "WDRSIS", "WSPDIS"])
def test_a_model_that_knows_nothing_drops_nothing(model: str, name: str) -> None:
    guard = row_checks_of(ask(LOG, pi_e, pi_b, options=Options(model=NOISE[model])))
    assert not guard.allows
    found = dw.estimate(name, LOG, pi_e, pi_b, model=NOISE[model], interval=None)
    assert found.dropped_share == 0.0
    free = dw.estimate(name, LOG, pi_e, pi_b, model=NOISE[model], interval=None, drop="auto:free")
    assert free.dropped_share > 0 or name == "WSPDIS"


def test_the_blend_goes_without_a_model_that_adds_noise() -> None:
    found = dw.estimate("BLEND", LOG, pi_e, pi_b, model=NOISE["large noise"])
    assert found.shares.get("WDR", 0.0) == 0.0
    assert found.shares["WPDIS"] > 0.9
    assert found.interval[0] < TRUTH < found.interval[1]
