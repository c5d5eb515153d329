"""Models without a horizon: solved until they settle; their influence, gaps and fallbacks."""

from __future__ import annotations

import numpy as np
import pytest

import deadweight as dw
from deadweight.answers.answering import Answers
from deadweight.answers.intervals import influences
from deadweight.answers.plans import Plan
from deadweight.diagnostics import state_report
from deadweight.domains import stochastic_lift
from deadweight.estimators.estimator import MODEL
from deadweight.mdp.tabular import backward
from deadweight.negligible import epsilon_path, q_gap
from deadweight.question.asked import Options
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import ask
from deadweight.values import until_end
from deadweight.values.until_end import occupancy, settle


def last_values(mdp, pi, gamma, steps=20_000):
    *_, (_, q, v) = backward(mdp, pi, steps, gamma)
    return q, v


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("unseen", ["pool", "terminate", "mean"])
@pytest.mark.parametrize("solved", ["as a table", "by sparse factors", "step by step"])
def test_values_are_those_of_very_many_steps(gamma, unseen, solved, monkeypatch):
    problem = stochastic_lift(7)
    model = dw.fit_mdp(problem.sample(100, seed=1), unseen=unseen)
    monkeypatch.setattr(until_end, "SMALL", 200 if solved == "as a table" else 0)
    monkeypatch.setattr(until_end, "FACTORED", 0 if solved == "step by step" else 2_000)
    found = settle(model, problem.pi_e.probs, gamma, 5)
    q, v = last_values(model, problem.pi_e, gamma)
    np.testing.assert_allclose(found.q, q, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.v, v, rtol=1e-10, atol=1e-10)
    earned = found.occupancy @ (problem.pi_e.probs * model.r).sum(axis=1)
    assert earned == pytest.approx(model.d0 @ v, rel=1e-9)


def loop(start):
    """State 0 ends by action 1 only, 1 goes round for ever, 2 ends."""
    P = np.zeros((3, 2, 4))
    P[0, 0, 1] = P[0, 1, 3] = 1
    P[1, :, 1] = P[2, :, 3] = 1
    return dw.TabularMDP(P, np.ones((3, 2)), np.eye(3)[start])


def test_states_that_never_end_get_the_value_of_so_many_steps():
    into_the_loop, out = np.array([[1.0, 0], [1, 0], [1, 0]]), np.array([[0, 1.0], [1, 0], [1, 0]])
    found = settle(loop(2), into_the_loop, 1.0, 5)
    assert found.v.tolist() == [5.0, 5.0, 1.0]
    assert found.occupancy.tolist() == [0.0, 0.0, 1.0]
    assert settle(loop(0), into_the_loop, 1.0, 5) is None
    assert occupancy(loop(0), into_the_loop, 1.0) is None
    assert settle(loop(0), out, 1.0, 5).q[0].tolist() == [6.0, 1.0]
    assert settle(loop(0), into_the_loop, 0.5, 5).v.tolist() == [2.0, 2.0, 1.0]


def test_a_model_that_never_settles_is_solved_over_the_longest_and_flagged():
    # In both states one action leads to the other state and one ends; pi_e always goes on.
    episodes = [[(0, 0, 1.0), (1, 0, 1.0), (0, 1, 0.0)], [(1, 1, 0.0)], [(0, 0, 1.0), (1, 1, 0.0)]]
    log = dw.Trajectories.from_episodes(episodes)
    pi_e, pi_b = [[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]
    found = dw.estimate("DM", log, pi_e, pi_b)
    assert found.value == pytest.approx(3.0)  # three steps
    assert "model-unsettled" in found.flags
    assert "never" not in found.explain()
    assert "for ever" in found.explain()
    assert "model-unsettled" not in dw.estimate("DM", log, pi_e, pi_b, solve="longest").flags
    assert "model-unsettled" not in dw.estimate("WIS", log, pi_e, pi_b).flags


def test_equal_gaps_stay_equal():
    lift = dw.domains.deterministic_lift(9)
    path = epsilon_path("WSIS", lift.sample(1000), lift.pi_e, lift.pi_b)
    assert path.n_dropped.tolist() == [0, 4, 5, 6, 7]
    gaps = path.levels.evidence["gap"]
    np.testing.assert_array_equal(gaps[[1, 2, 4, 5]], 0.0)


def test_mirror_images_have_the_same_gap():
    """A walk on nine places that ends at both sides: rounding must not make two levels of one."""
    P = np.zeros((9, 2, 10))
    for place in range(9):
        for action, right in enumerate((1 / 3, 2 / 3)):
            P[place, action, place + 1 if place < 8 else 9] += right
            P[place, action, place - 1 if place else 9] += 1 - right
    walk = dw.TabularMDP(P, np.full((9, 2), -0.1), np.full(9, 1 / 9))
    q = settle(walk, np.full((9, 2), 0.5), 1.0, 5).q
    gap = q.max(axis=1) - q.min(axis=1)
    np.testing.assert_array_equal(gap, gap[::-1])
    assert len(np.unique(gap)) == 5


def test_when_a_model_is_settled():
    problem = stochastic_lift(7)
    log = problem.sample(300, seed=0)
    wanted = {
        "uncut": (log, {}, True),
        "longest": (log, {"solve": "longest"}, False),
        "a limit": (log.with_time_limit(log.horizon), {}, False),
        "a limit that no episode reached": (log.with_time_limit(1000), {}, False),
        "own horizon": (log, {"model": dw.fit_mdp(log.with_time_limit(log.horizon))}, False),
        "given, of an uncut log": (log, {"model": dw.fit_mdp(log)}, True),
        "given without a horizon": (log, {"model": problem.mdp}, True),
    }
    for name, (some, options, settled) in wanted.items():
        question = ask(some, problem.pi_e, problem.pi_b, options=Options(**options))
        assert question.has_end is settled, name
        assert (question.settled is not None) is settled, name
    short = dw.estimate("DM", log, problem.pi_e, problem.pi_b, solve="longest").value
    far = dw.estimate("DM", log.with_time_limit(5000), problem.pi_e, problem.pi_b).value
    until_the_end = dw.estimate("DM", log, problem.pi_e, problem.pi_b).value
    assert far == pytest.approx(until_the_end, rel=1e-9)
    assert abs(short - until_the_end) > 0.01


def test_published_is_solved_over_the_longest():
    assert dw.PUBLISHED["solve"] == "longest"
    problem = stochastic_lift(7)
    log = problem.sample(100, seed=0)
    model = dw.fit_mdp(log, unseen="terminate")
    expected = dw.policy_value(model, problem.pi_e, log.horizon)
    assert dw.estimate("DM", log, problem.pi_e, problem.pi_b, **dw.PUBLISHED).value == pytest.approx(expected)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_the_influence_of_an_episode_is_its_derivative(gamma):
    """One more copy of an episode among very many copies of the log."""
    problem = stochastic_lift(5)
    log, times = problem.sample(12, seed=3), 400
    question = ask(log, problem.pi_e, problem.pi_b, gamma)
    plan = Plan(question, MODEL.variant(), NOTHING_DROPPED)
    expected = influences(Answers(question, [plan]), plan)
    many = np.tile(np.arange(log.n_episodes), times)
    value = dw.estimate("DM", log, problem.pi_e, problem.pi_b, gamma=gamma, interval=None).value
    for i in range(log.n_episodes):
        more = log.select(np.append(many, i))
        moved = dw.estimate("DM", more, problem.pi_e, problem.pi_b, gamma=gamma, interval=None).value - value
        assert moved * len(many) == pytest.approx(expected[i], rel=0.02, abs=0.02 * np.abs(expected).max())


@pytest.mark.parametrize("solve", ["settled", "longest"])
@pytest.mark.parametrize("given", ["fitted", "own horizon", "no horizon", "a longer limit"])
def test_there_is_one_gap(solve, given):
    """The rule, the path, the state report and the page, whatever the model's horizon."""
    problem = stochastic_lift(7)
    log = problem.sample(200, seed=5)
    options = {"solve": solve}
    if given == "own horizon":
        mdp = problem.mdp
        options["model"] = dw.TabularMDP(mdp.P, mdp.r, mdp.d0, horizon=log.horizon + 30)
    elif given == "no horizon":
        options["model"] = problem.mdp
    elif given == "a longer limit":
        log = log.with_time_limit(log.horizon + 30)
    by_rule = q_gap(log, problem.pi_e, 1.0, problem.pi_b, **options).gaps
    by_path = epsilon_path("WSPDIS", log, problem.pi_e, problem.pi_b, **options).levels.evidence["gap"]
    report = state_report(log, problem.pi_e, problem.pi_b, **options)
    np.testing.assert_array_equal(by_rule, by_path)
    np.testing.assert_array_equal(report.gap, by_rule[report.labels])


@pytest.mark.parametrize("solve", ["settled", "longest"])
def test_contributions_to_the_bias_add_up_to_that_of_the_drop(solve):
    problem = stochastic_lift(7)
    log = problem.sample(200, seed=5)
    report = state_report(log, problem.pi_e, problem.pi_b, drop=[1, 3], solve=solve)
    model = dw.fit_mdp(log)
    horizon = log.horizon if solve == "longest" else 5_000
    mu = problem.pi_e.probs.copy()
    mu[[1, 3]] = problem.pi_b.probs[[1, 3]]
    expected = dw.policy_value(model, mu, horizon) - dw.policy_value(model, problem.pi_e, horizon)
    assert report.total_bias == pytest.approx(expected, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("name", ["DR", "WDR", "C-WSPDIS", "DM"])
def test_with_the_true_model_and_one_policy_the_mean_return(name):
    """pi_e = pi_b: whatever the horizon of the model, DR is a telescope and the others have no ratio."""
    problem = stochastic_lift(7)
    log = problem.sample(50, seed=2)
    found = dw.estimate(name, log, problem.pi_b, problem.pi_b, drop=[3])
    mean = np.add.reduceat(log.rewards, log.offsets[:-1]).mean()
    assert found.value == pytest.approx(mean, rel=0.1)
    if name == "C-WSPDIS":
        assert found.value == pytest.approx(mean, rel=1e-12)


def test_uncut_lifts_have_no_bias_from_their_longest_episode():
    """20 logs of lift 11: -0.02 +- 0.03 over 100 (docs/logs.md); over the longest episode's steps +0.78."""
    problem = stochastic_lift(11)
    errors = {solve: [] for solve in ("settled", "longest")}
    for seed in range(20):
        log = problem.sample(1000, seed=seed)
        for solve, found in errors.items():
            estimate = dw.estimate("DM", log, problem.pi_e, problem.pi_b, interval=None, solve=solve)
            found.append(estimate.value - problem.true_value)
    std_error = np.std(errors["settled"], ddof=1) / np.sqrt(20)
    assert abs(np.mean(errors["settled"])) < 2 * std_error
    assert np.mean(errors["longest"]) > 0.5
