"""A comparison beside evaluations of each policy alone: the same values, and never a bolder claim."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import deadweight as dw
from deadweight.errors import UnknownEstimator
from deadweight.verbs.compare import reasons


def assert_as_evaluated(found, log, policies, pi_b=None):
    """Every estimate of every policy is that of an evaluation with the default table, by itself."""
    for name, policy in policies.items():
        alone = dw.evaluate(log, policy, pi_b, background=False)
        assert set(found[name]) <= set(alone)
        for estimator in found[name]:
            assert found[name][estimator].value == pytest.approx(alone[estimator].value, abs=1e-10)
            assert_allclose(found[name][estimator].interval, alone[estimator].interval, rtol=1e-10)
            assert found[name][estimator].flags == alone[estimator].flags
        assert found[name].headline.name == alone.headline.name


def test_values_are_those_of_separate_evaluations(found, log, policies, problem):
    assert_as_evaluated(found, log, policies, problem.pi_b)


def test_names_without_a_say_are_there_if_they_are_asked_for(found, log, policies, problem):
    with pytest.raises(UnknownEstimator, match=r"Name others in estimators=\[\.\.\.\]"):
        found["good"]["C-WSPDIS"]
    asked = ["WSIS", "WSPDIS", "C-WSPDIS", "WPDIS"]
    more = dw.compare(log, policies, problem.pi_b, estimators=asked)
    assert [one for one in more["good"] if one not in found["good"]] == asked[:3]
    assert_as_evaluated(more, log, policies, problem.pi_b)
    for name in policies:
        assert_allclose(more.difference(name).interval, found.difference(name).interval, rtol=1e-9)
    with pytest.raises(UnknownEstimator, match="WSPIDS"):
        dw.compare(log, policies, problem.pi_b, estimators="WSPIDS")


def weak_cases(problem, log):
    """(log, policy, behaviour policy) of headlines that are blends, weights alone, and hardly anything."""
    old, good = problem.pi_b.probs, problem.pi_e.probs
    few = problem.sample(12, seed=5)
    rng = np.random.default_rng(0)
    noise = dw.Trajectories(  # labels that mean nothing
        rng.integers(0, 8, log.n_steps),
        log.actions,
        log.rewards,
        log.offsets,
        propensities=log.propensities,
        terminated=log.terminated,
        time_limit=12,
    )
    column = dw.RowPolicy(good[log.states], last=None)
    return {
        "blend": (log, good, old),
        "near": (log, 0.9 * old + 0.1 * good, old),
        "few episodes": (few, good, old),
        "noise": (noise, np.eye(3)[rng.integers(0, 3, 8)], None),
        "by row": (log, column, old),
    }


@pytest.mark.parametrize("case", ["blend", "near", "noise", "by row"])
@pytest.mark.parametrize("baseline", [None, -1.0])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_of_one_policy_the_same_is_said_as_by_evaluate(problem, log, case, baseline, level):
    """Beside the behaviour policy itself there is one difference only, and nothing to widen it for."""
    data, policy, pi_b = weak_cases(problem, log)[case]
    alone = dw.evaluate(data, policy, pi_b, baseline=baseline, level=level, background=False).verdict
    if baseline is None:
        now = problem.pi_b if pi_b is not None else dw.estimate_behaviour(data)
        rivals = {"new": policy, "as now": now}
        if pi_b is None:
            pi_b = now
            alone = dw.evaluate(data, policy, pi_b, level=level, background=False).verdict
    else:
        rivals = {"new": policy, "the same": policy}
    said = dw.compare(data, rivals, pi_b, baseline=baseline, level=level).difference("new")
    assert said.answer == alone.answer
    assert said.sound == alone.sound
    assert said.difference == pytest.approx(alone.difference, abs=1e-12)
    assert_allclose(said.interval, alone.interval, rtol=1e-9)


def test_where_the_log_is_sparse_it_is_more_careful(problem, log):
    data, policy, pi_b = weak_cases(problem, log)["few episodes"]
    alone = dw.evaluate(data, policy, pi_b, background=False).verdict
    said = dw.compare(data, {"new": policy, "as now": pi_b}, pi_b).difference("new")
    assert said.difference == pytest.approx(alone.difference, abs=1e-12)
    assert said.interval[0] < alone.interval[0]
    assert said.interval[1] > alone.interval[1]


def test_what_an_evaluation_of_a_sparse_log_would_claim_is_told(found):
    assert found.difference("same").answer == "cannot tell"
    told = found["good"].verdict
    assert told.answer == "better"
    louder = found.with_changes(evaluations={**found.evaluations, "same": found["good"]})
    said = reasons(louder, [], ["same", "good"])
    assert any("Of 'same' an evaluation alone would claim more." in reason for reason in said)
    assert not any("claim more" in reason for reason in found.reasons)


@pytest.mark.parametrize("episodes", [6, 300])
def test_the_same_where_there_is_no_blend(problem, policies, episodes, monkeypatch):
    """Too many states for a model: weights alone, of six episodes too few for a verdict."""
    monkeypatch.setattr("deadweight.question.question.MOST_VALUES", 10)
    data = problem.sample(episodes, seed=4)
    alone = dw.evaluate(data, policies["good"], problem.pi_b, background=False)
    assert alone.headline.blend is None
    found = dw.compare(data, {"good": policies["good"], "same": problem.pi_b}, problem.pi_b)
    said = found.difference("good")
    assert (said.answer, said.sound) == (alone.verdict.answer, alone.verdict.sound)
    assert_allclose(said.interval, alone.verdict.interval, rtol=1e-9)
    if episodes == 6:
        assert not said.sound
        assert said.reasons[-1] == alone.verdict.reasons[-1]
        assert found.may_be_best == {"good", "same"}
        assert found.difference("good", "same").interval == (-np.inf, np.inf)


def test_a_model_that_foretells_nothing_is_guarded_against(problem, log):
    """Flag, words and width: labels by chance, and hardly any episode that acts like the new policies."""
    data, policy, _ = weak_cases(problem, log)["noise"]
    rivals = {"new": policy, "turned": policy[:, ::-1], "as now": dw.estimate_behaviour(data)}
    found = dw.compare(data, rivals, rivals["as now"])
    assert not found["new"].verdict.sound
    assert found.may_be_best == set(rivals)
    low, high = found.difference("new", "as now").interval
    own = found["new"].headline.interval
    assert high - low >= own[1] - own[0], "paired or not, what weights leave open stays open"


def test_the_two_sides_of_a_skewed_interval_stay_two(problem, policies, tmp_path):
    data = problem.sample(150, seed=3)
    rewards = np.abs(data.rewards)
    for episode in (5, 60):  # two episodes that earn far more than all others
        rewards[data.offsets[episode] : data.offsets[episode + 1]] *= 200.0
    heavy = dw.Trajectories(
        data.states, data.actions, rewards, data.offsets, terminated=data.terminated, time_limit=12
    )
    alone = dw.evaluate(heavy, policies["good"], problem.pi_b, background=False)
    assert "heavy-reward" in alone.headline.flags
    found = dw.compare(heavy, {"good": policies["good"], "same": problem.pi_b}, problem.pi_b)
    said = found.difference("good")
    assert_allclose(said.interval, alone.verdict.interval, rtol=1e-9)
    assert said.interval[1] - said.difference > 1.1 * (said.difference - said.interval[0])
    found.save(tmp_path / "found.json")
    assert dw.load(tmp_path / "found.json").difference("good").interval == said.interval


def test_with_more_policies_nothing_is_claimed_that_an_evaluation_would_not(found, policies):
    for name in policies:
        low, high = found.difference(name).interval
        alone = found[name].verdict
        assert low <= alone.interval[0] + 1e-12
        assert high >= alone.interval[1] - 1e-12
        if found.difference(name).answer != "cannot tell":
            assert alone.answer == found.difference(name).answer


def test_policies_in_other_words(log, problem, policies):
    def greedy(state):
        return int(policies["good"][state].argmax())

    as_dict = {s: {a: float(p) for a, p in enumerate(row)} for s, row in enumerate(policies["half"])}
    found = dw.compare(log, {"greedy": greedy, "dict": as_dict}, problem.pi_b)
    alone = dw.evaluate(log, policies["half"], problem.pi_b, ["DM"], background=False)
    assert found["dict"]["DM"].value == pytest.approx(alone["DM"].value, abs=1e-10)


def test_several_old_policies(problem, policies):
    first, second = problem.sample(100, seed=0), problem.sample(150, seed=1)
    both = dw.Trajectories(
        np.concatenate([first.states, second.states]),
        np.concatenate([first.actions, second.actions]),
        np.concatenate([first.rewards, second.rewards]),
        np.concatenate([first.offsets, first.n_steps + second.offsets[1:]]),
        terminated=np.concatenate([first.terminated, second.terminated]),
        time_limit=12,
        behaviour_ids=["a"] * 100 + ["b"] * 150,
    )
    found = dw.compare(both, policies, {"a": problem.pi_b})
    assert_as_evaluated(found, both, policies, {"a": problem.pi_b})
    assert "behaviour-filled" in found["good"]["WPDIS"].flags


def test_features(tmp_path):
    """Each row a state of its own: the same verbs, without a list of states."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    chance = 1 / (1 + np.exp(-x[:, 0]))
    actions = (rng.random(600) < chance).astype(int)
    rewards = np.where(actions == 1, x[:, 0], -x[:, 0]) + rng.normal(size=600)
    log = dw.Trajectories(
        None,
        actions,
        rewards,
        np.arange(0, 601, 3),
        propensities=np.where(actions == 1, chance, 1 - chance),
        features=x,
    )

    def steep(features):
        p = 1 / (1 + np.exp(-3 * features[:, 0]))
        return np.stack([1 - p, p], axis=1)

    policies = {"steep": steep, "turned": lambda f: steep(-f / 10), "wild": lambda f: steep(-f)}
    found = dw.compare(log, policies)
    assert found.ranking == ["steep", "turned", "wild"]
    assert found.where == ()
    assert found.worse == ["turned"]
    # Of the wild one seven effective episodes say nothing: it stays, as its own evaluation would have it.
    assert found.may_be_best == {"steep", "wild"}
    assert not found["wild"].verdict.sound
    assert not found.difference("wild").sound
    assert found.regret_bound["steep"] == np.inf
    assert "not known" in str(found)
    assert "not known" in found.report(tmp_path / "page.html").read_text()
    assert any("cannot be told" in reason for reason in found.reasons)
    assert any("Nothing is claimed of 'wild'." in reason for reason in found.reasons)
    assert_as_evaluated(found, log, policies)
