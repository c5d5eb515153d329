"""The model check: what it finds, what it leaves alone, and what the verdict makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from deadweight_studies.ends import ergodic, table_without_flags
from deadweight_studies.problems import study_problems

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.answers.model_tests import Misfit, ModelCheck
from deadweight.answers.plans import Plan
from deadweight.estimators.estimator import MODEL
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import ask


def random_endings(episodes=500, seed=0):
    """A log of fixed length, of which somebody says that its episodes ended."""
    return dw.read(table_without_flags(ergodic().sample(episodes, seed)), time_limit=None)


def checked(log, pi_e, pi_b, **options):
    return dw.estimate("DM", log, pi_e, pi_b, **options).model_check


def test_random_endings_are_found_and_said_first():
    problem = ergodic()
    ev = dw.evaluate(random_endings(), problem.pi_e, problem.pi_b)
    flagged = {name for name in ev if "model-misfit" in ev[name].flags}
    assert {"DM", "WDR", "WDRSIS"} <= flagged
    assert flagged.isdisjoint({"BEHAVIOUR", "WIS", "WPDIS"})
    assert abs(ev["DM"].model_check.z) > 20
    assert ev.headline.name == "BLEND"
    assert set(ev.headline.shares) == {"WPDIS"}
    assert ev.verdict.reasons[0].startswith("The model does not fit the log: over 10 steps")
    assert "is based on BLEND, which does without the model" in ev.verdict.reasons[0]
    assert "do not trust what is based on the model" in ev["DM"].explain()


def test_without_an_estimate_by_weights_nothing_can_be_told():
    problem = ergodic()
    ev = dw.evaluate(random_endings(2000), problem.pi_e, problem.pi_b, ["BEHAVIOUR", "DM"])
    assert ev.headline.name == "DM"
    assert ev.verdict.answer == "cannot tell"
    assert "nothing can be concluded" in ev.verdict.reasons[0]


@pytest.mark.parametrize("name", [problem.name for problem in study_problems()])
def test_sound_models_are_left_alone(name):
    problem = next(one for one in study_problems() if one.name == name)
    for seed in (1, 2):
        found = checked(problem.sample(seed), problem.pi_e, problem.pi_b, interval="student-t")
        assert not found.found, found


def test_the_value_is_that_of_the_observed_policy_in_the_fitted_model():
    problem = ergodic()
    log = random_endings(60)
    counts = np.zeros((6, 2))
    np.add.at(counts, (log.states, log.actions), 1.0)
    observed = counts / counts.sum(axis=1, keepdims=True)
    expected = dw.policy_value(dw.fit_mdp(log), observed, horizon=10)
    found = checked(log, problem.pi_e, problem.pi_b)
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert found.mean == pytest.approx(np.add.reduceat(log.rewards, log.offsets[:-1]).mean())


def test_the_influence_of_the_difference_is_its_derivative():
    problem = ergodic()
    log, times = random_endings(15), 400
    question = ask(log, problem.pi_e, problem.pi_b)
    check = ModelCheck(question)
    from deadweight.sums.blocks import blocks

    influence = np.concatenate([check.influence(block) - block.returns(check.gamma) for block in blocks(log)])
    influence -= influence.mean()
    many = np.tile(np.arange(log.n_episodes), times)
    base = checked(log, problem.pi_e, problem.pi_b)
    for i in range(log.n_episodes):
        found = checked(log.select(np.append(many, i)), problem.pi_e, problem.pi_b)
        moved = (found.value - found.mean) - (base.value - base.mean)
        assert moved * len(many) == pytest.approx(influence[i], rel=0.02, abs=0.02 * np.abs(influence).max())


def test_wrong_propensities_are_not_the_models_fault():
    problem = ergodic()
    log = problem.sample(500, seed=1)
    wrong = dw.TabularPolicy(problem.pi_b.probs[:, ::-1])
    assert not checked(log, problem.pi_e, wrong).found


def test_a_given_model_is_checked_too():
    problem = ergodic()
    log = problem.sample(500, seed=1)
    assert not checked(log, problem.pi_e, problem.pi_b, model=problem.mdp).found
    generous = dw.TabularMDP(problem.mdp.P, problem.mdp.r + 1.0, problem.mdp.d0, 10)
    assert checked(log, problem.pi_e, problem.pi_b, model=generous).z > 20


def test_episodes_cut_early_are_not_compared():
    problem = ergodic()
    log = problem.sample(50, seed=1)
    cut = dw.Trajectories.from_episodes(
        [one[: 3 + i % 8] for i, one in enumerate(log)], terminated=[False] * 50
    )
    assert checked(cut, problem.pi_e, problem.pi_b) is None


def test_without_an_interval_nothing_is_checked():
    problem = ergodic()
    question = ask(random_endings(50), problem.pi_e, problem.pi_b)
    plan = Plan(question, MODEL.variant(), NOTHING_DROPPED)
    assert Answers(question, [plan]).misfit(plan) is None
    assert checked(random_endings(50), problem.pi_e, problem.pi_b, interval=None) is None


def test_few_episodes_need_a_larger_difference():
    def finding(z, n):
        return Misfit(1.0, 0.0, z, n, 5).found

    assert finding(4.1, 10_000)
    assert not finding(3.9, 10_000)
    assert not finding(8.0, 5)
    assert not finding(float("inf"), 1)
    assert finding(float("-inf"), 3)
