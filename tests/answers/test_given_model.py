"""A model that was given: what the log says of it, and what a blend makes of that."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.candidates import WITHOUT_MODEL
from deadweight.answers.model_tests import residual_test
from deadweight.question.asked import Options
from deadweight.question.question import ask

LIMIT = 5
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=(3, 2))
R = RNG.normal(size=(3, 2))
PI_E, PI_B = RNG.dirichlet([2.0, 2.0], 3), np.full((3, 2), 0.5)
TRUE = dw.TabularMDP(P, R, np.full(3, 1 / 3), horizon=LIMIT)
WRONG = {
    "the wrong sign": dw.TabularMDP(P, -R, np.full(3, 1 / 3), horizon=LIMIT),
    "another level": dw.TabularMDP(P, R + 0.5, np.full(3, 1 / 3), horizon=LIMIT),
    "actions reversed": dw.TabularMDP(P[:, ::-1], R[:, ::-1], np.full(3, 1 / 3), horizon=LIMIT),
}


def sampled(n: int, seed: int) -> dw.Trajectories:
    problem = dw.domains.Problem("three states", TRUE, PI_E, PI_B)
    return problem.sample(n, seed=seed)


LOG = sampled(400, 1)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_by_plain_loops(gamma: float) -> None:
    question = ask(LOG, PI_E, PI_B, gamma, Options(model=WRONG["another level"]))
    found = residual_test(question).moments
    q = dw.q_values(WRONG["another level"], PI_E, LIMIT, gamma)
    v = (q * PI_E).sum(axis=2)
    sums = np.zeros((4, LOG.n_episodes))
    for i, (lo, hi) in enumerate(pairwise(LOG.offsets)):
        for row in range(lo, hi):
            t, s, a = row - lo, LOG.states[row], LOG.actions[row]
            after = v[t + 1, LOG.states[row + 1]] if row < hi - 1 else 0.0
            delta = gamma**t * (LOG.rewards[row] + gamma * after - q[t, s, a])
            ratio = PI_E[s, a] / PI_B[s, a]
            sums[:, i] += delta * np.array([1.0, ratio, q[t, s, a] - v[0].mean(), q[t, s, a] - v[t, s]])
    np.testing.assert_allclose(found.mean, sums.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.squares, sums.var(axis=1) * LOG.n_episodes, rtol=1e-10)


def test_a_right_model_takes_part_and_is_not_taken_for_exact() -> None:
    for model in (TRUE, dw.fit_mdp(sampled(2000, 2))):
        assert residual_test(ask(LOG, PI_E, PI_B, options=Options(model=model))).fits
        found = dw.estimate("BLEND", LOG, PI_E, PI_B, model=model)
        assert "DM" not in found.shares
        assert found.std_error > 0
        assert "model-unproven" not in found.flags
        assert found.interval[0] < dw.policy_value(TRUE, PI_E) < found.interval[1]


@pytest.mark.parametrize("how", WRONG)
def test_a_model_that_the_log_contradicts_has_no_share(how: str) -> None:
    table = dw.evaluate(LOG, PI_E, PI_B, ["BLEND", "BEHAVIOUR", "DM", "WPDIS"], model=WRONG[how])
    found = table["BLEND"]
    assert set(found.shares) <= set(WITHOUT_MODEL)
    assert "model-unproven" in table["DM"].flags
    assert "model-unproven" in found.flags
    assert "model-unproven" not in table["WPDIS"].flags
    assert found.interval[0] < dw.policy_value(TRUE, PI_E) < found.interval[1]


def test_a_fitted_model_needs_no_proof() -> None:
    found = dw.estimate("BLEND", LOG, PI_E, PI_B)
    assert "DM" in found.shares
    assert "model-unproven" not in found.flags


def test_the_model_of_an_uncut_log_is_solved_until_it_settles() -> None:
    """How long the longest episode of another log happened to be is no limit of the task."""
    lift = dw.domains.stochastic_lift(11)
    log = lift.sample(300, seed=0)
    model = dw.fit_mdp(log)
    default = dw.estimate("DM", log, lift.pi_e, lift.pi_b)
    assert model.horizon == log.horizon
    assert not model.has_limit
    assert dw.estimate("DM", log, lift.pi_e, lift.pi_b, model=model).value == default.value
    longest = dw.estimate("DM", log, lift.pi_e, lift.pi_b, model=model, solve="longest")
    assert longest.value == pytest.approx(dw.policy_value(model, lift.pi_e), rel=1e-12)
    assert abs(longest.value - default.value) > default.std_error
    cut = log.with_time_limit(log.horizon)
    assert dw.fit_mdp(cut).has_limit
    assert dw.TabularMDP(P, R, np.full(3, 1 / 3), horizon=LIMIT).has_limit
    assert not lift.mdp.has_limit
