"""Action values that are taken as known: what the log says of them, and what a blend makes of that."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from features.test_feature_evaluation import LOG, TRUTH, pi_b, pi_e

import deadweight as dw
from deadweight.answers.candidates import WITHOUT_MODEL, gather
from deadweight.answers.model_tests import ResidualTest, residual_test
from deadweight.question.asked import Options
from deadweight.question.question import ask

RNG = np.random.default_rng(7)


def ragged_case(gamma: float) -> tuple[dw.Trajectories, dw.RowPolicy, np.ndarray, ResidualTest]:
    """Episodes of different lengths, one cut early, with values that are not those of the policy."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 5, 40)
    n, offsets = int(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
    terminated = np.ones(40, dtype=bool)
    terminated[np.flatnonzero(lengths < 4)[0]] = False
    log = dw.Trajectories(
        None,
        rng.integers(0, 2, n),
        rng.normal(size=n),
        offsets,
        features=np.zeros((n, 1)),
        propensities=rng.uniform(0.3, 0.7, n),
        terminated=terminated,
    )
    policy, q = dw.RowPolicy(rng.dirichlet([2.0, 2.0], n)), rng.normal(size=(n, 2))
    found = residual_test(ask(log, policy, None, gamma, Options(model=dw.GivenQ(q))))
    assert found is not None
    return log, policy, q, found


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_by_plain_loops(gamma: float) -> None:
    log, policy, q, found = ragged_case(gamma)
    v = (policy.probs * q).sum(axis=1)
    taken = np.array([q[row, log.actions[row]] for row in range(log.n_steps)])
    sums, one_step = np.zeros((4, log.n_episodes)), np.zeros(log.n_episodes)
    for i, (lo, hi) in enumerate(pairwise(log.offsets)):
        one_step[i] = v[lo]
        for row in range(lo, hi):
            if row == hi - 1 and not log.terminated[i]:
                continue  # nobody knows what followed
            after = v[row + 1] if row < hi - 1 else 0.0
            delta = gamma ** (row - lo) * (log.rewards[row] + gamma * after - taken[row])
            ratio = policy.probs[row, log.actions[row]] / log.propensities[row]
            sums[:, i] += delta * np.array([1.0, ratio, taken[row] - taken.mean(), taken[row] - v[row]])
            one_step[i] += ratio * delta
    z = sums.mean(axis=1) / (sums.std(axis=1, ddof=1) / np.sqrt(log.n_episodes))
    np.testing.assert_allclose(found.z, z, rtol=1e-10)
    np.testing.assert_allclose(found.one_step, one_step, rtol=1e-10)


def test_with_one_step_an_episode_it_is_doubly_robust() -> None:
    rng = np.random.default_rng(2)
    log = dw.Trajectories(
        None,
        rng.integers(0, 2, 50),
        rng.normal(size=50),
        np.arange(51),
        features=np.zeros((50, 1)),
        propensities=np.full(50, 0.5),
    )
    policy, given = dw.RowPolicy(rng.dirichlet([2.0, 2.0], 50)), dw.GivenQ(rng.normal(size=(50, 2)))
    found = residual_test(ask(log, policy, None, options=Options(model=given)))
    robust = dw.estimate("DR", log, policy, model=given)
    assert found is not None
    assert found.estimate[0] == pytest.approx(robust.value, rel=1e-12)
    assert found.one_step.std(ddof=1) / np.sqrt(50) == pytest.approx(robust.std_error, rel=1e-10)


def learned_elsewhere() -> np.ndarray:
    """Values of a model that has seen the log and nothing but the log: right up to its noise."""
    question = ask(LOG, pi_e, pi_b, options=Options(cross_fit=0))
    return np.asarray(question.row_values.q[question.parts[0].states])


def test_values_that_fit_are_mixed_in_and_not_taken_for_exact() -> None:
    given = dw.GivenQ(learned_elsewhere())
    found = dw.estimate("BLEND", LOG, pi_e, pi_b, model=given)
    assert found.shares["WIN1"] > 0
    assert "DM" not in found.shares
    assert "model-unproven" not in found.flags
    assert found.std_error > 1.2 * dw.estimate("DM", LOG, pi_e, pi_b, model=given).std_error
    assert found.interval[0] < TRUTH < found.interval[1]


WRONG = {
    "noise": lambda q: q.std() * RNG.normal(size=q.shape),
    "nothing": np.zeros_like,
    "another level": lambda q: q + 2 * q.std(),
    "the wrong sign": lambda q: 2 * q.mean() - q,
    "actions reversed": lambda q: 2 * q.mean(axis=1, keepdims=True) - q,
}


@pytest.mark.parametrize("how", WRONG)
def test_values_that_the_log_contradicts_have_no_share(how: str) -> None:
    given = dw.GivenQ(WRONG[how](learned_elsewhere()))
    evaluation = dw.evaluate(LOG, pi_e, pi_b, ["BLEND", "BEHAVIOUR", "DM", "WPDIS"], model=given)
    found = evaluation["BLEND"]
    assert set(found.shares) <= set(WITHOUT_MODEL)
    assert "model-unproven" in found.flags
    assert "model-unproven" in evaluation["DM"].flags
    assert "model-unproven" not in evaluation["WPDIS"].flags
    assert "do not fit what the log earned" in evaluation.verdict.reasons[0]
    assert found.interval[0] < TRUTH < found.interval[1]


def test_what_is_found_is_there_for_whoever_asks_again() -> None:
    question = ask(LOG, pi_e, pi_b, options=Options(model=dw.GivenQ(np.zeros((LOG.n_steps, 3)))))
    first, again = gather(question), gather(question)
    assert again is first
    assert first.left_out == ("DM",)
    assert not first.model


def test_few_effective_episodes_and_no_model_carry_no_verdict() -> None:
    lift = dw.domains.continuous_lift()
    log = lift.sample(30, seed=0)
    noise = dw.GivenQ(np.random.default_rng(0).normal(size=(log.n_steps, 2)))
    evaluation = dw.evaluate(log, lift.pi_e, lift.pi_b, ["BLEND", "BEHAVIOUR", "WPDIS"], model=noise)
    assert evaluation["WPDIS"].ess < 10
    assert evaluation.verdict.answer == "cannot tell"
    assert "fewer than ten episodes" in " ".join(evaluation.verdict.reasons)
