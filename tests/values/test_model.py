"""The fitted model against plain loops, whole and in parts."""

from __future__ import annotations

import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings
from strategies import Case, cases

import deadweight as dw
from deadweight.errors import OptionError
from deadweight.values.model import count, mdp_from_counts

FEW = settings(max_examples=40, deadline=None, derandomize=True)
UNSEEN = ("pool", "terminate", "mean")


@pytest.mark.parametrize("unseen", UNSEEN)
@FEW
@given(case=cases())
def test_transitions_rewards_and_starts(unseen: str, case: Case) -> None:
    S, A = case.pi_e.shape
    model = dw.fit_mdp(case.log, S, A, unseen)
    P, r, d0 = ref.fit_model(case.plain, S, A, unseen)  # type: ignore[arg-type]
    np.testing.assert_allclose(model.P.toarray().reshape(S, A, S + 1), P, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(model.r, r, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(model.d0, d0, rtol=1e-12)
    assert model.horizon == case.log.horizon
    q = dw.q_values(model, case.pi_e, case.log.horizon, case.gamma)
    expected = ref.fitted_q(case.plain, case.pi_e, case.gamma, unseen)  # type: ignore[arg-type]
    np.testing.assert_allclose(q, expected, rtol=1e-10, atol=1e-12)


@FEW
@given(case=cases(min_episodes=3))
def test_counts_in_parts(case: Case) -> None:
    S, A = case.pi_e.shape
    for unseen in UNSEEN:
        whole = mdp_from_counts(count([case.log], S, A), case.log.horizon, unseen)
        parts = mdp_from_counts(count(case.log.split(3), S, A, workers=2), case.log.horizon, unseen)
        np.testing.assert_allclose(parts.P.toarray(), whole.P.toarray(), rtol=1e-14)
        np.testing.assert_allclose(parts.r, whole.r, rtol=1e-12, atol=1e-14)


def test_a_model_is_larger_when_asked() -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)]])
    assert dw.fit_mdp(log, 3, 2).r.shape == (3, 2)
    assert dw.fit_mdp(log).r.shape == (1, 1)


def test_unknown_rule() -> None:
    with pytest.raises(OptionError, match="pool, terminate, mean"):
        dw.fit_mdp(dw.Trajectories.from_episodes([[(0, 0, 1.0)]]), unseen="guess")


def test_a_given_model_keeps_its_own_horizon_whatever_the_log_holds():
    problem = dw.domains.inventory(10, horizon=12, pi_e="softened-optimal")
    short = dw.Trajectories.from_episodes([[(0, 1, 1.0), (1, 0, 2.0)]])
    found = dw.estimate("DM", short, problem.pi_e, problem.pi_b, model=problem.mdp, interval=None)
    assert found.value == pytest.approx(problem.true_value, rel=1e-12)


def test_a_given_model_without_horizon_is_solved_until_it_terminates():
    problem = dw.domains.stochastic_lift(7)
    short = dw.Trajectories.from_episodes([[(2, 1, -1.0), (3, 1, -1.0)]])
    found = dw.estimate("DM", short, problem.pi_e, problem.pi_b, model=problem.mdp, interval=None)
    assert found.value == pytest.approx(problem.true_value, rel=1e-12)


def test_keeping_the_first_ratio_shows_in_the_effective_sample_size():
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)], [(1, 0, 2.0)]])
    pi_e, pi_b = [[0.9, 0.1], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]
    dropped = dw.estimate("DRSIS", log, pi_e, pi_b, drop=[0])
    kept = dw.estimate("DRSIS", log, pi_e, pi_b, drop=[0], drop_first=False)
    assert dropped.ess == pytest.approx(3.0)
    weights = np.array([1.8, 0.2, 1.0])
    assert kept.ess == pytest.approx(weights.sum() ** 2 / np.square(weights).sum())
    assert kept.bias == 0.0
