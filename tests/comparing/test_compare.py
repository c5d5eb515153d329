"""Several policies on one log: equal to separate evaluations, paired, and honest about its limits."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - results must survive a trip to another process

import numpy as np
import pytest
from numpy.testing import assert_allclose

import deadweight as dw
from deadweight.comparing.said import reasons
from deadweight.errors import OptionError, PolicyError, UnknownEstimator
from deadweight.studies.problems import study_problems


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


def test_what_it_says_hangs_together(found, problem):
    assert found.ranking == sorted(found, key=lambda name: -found[name].headline.value)
    assert found.ranking[0] == "good"
    assert found.recommendation == "good"
    assert "good" in found.better
    assert "good" in found.may_be_best
    assert set(found.better) | set(found.worse) <= set(found)
    assert not set(found.better) & set(found.worse)
    for name in found:
        verdict = found.difference(name)
        low, high = verdict.interval
        assert low <= verdict.difference <= high
        assert (name in found.better) == (verdict.answer == "better")
        assert found.regret_bound[name] >= 0
        if name not in found.may_be_best:
            assert found.regret_bound[name] > 0
    turned = found.difference("half", "good")
    straight = found.difference("good", "half")
    assert turned.difference == -straight.difference
    assert_allclose(turned.interval, [-straight.interval[1], -straight.interval[0]])


def test_a_policy_equal_to_pi_b_is_neither_better_nor_worse(found, log, problem, policies):
    assert found.difference("same").answer == "cannot tell"
    assert any("what the old policy does" in reason for reason in found.reasons)
    # Whatever the log, counted or given, and whatever else is in the mapping.
    for seed in range(5):
        one = problem.sample(60, seed=seed)
        counted = dw.estimate_behaviour(one)
        again = dw.compare(one, {"same": counted, "good": policies["good"]}, counted)
        assert "same" not in [*again.better, *again.worse]


def test_the_first_is_not_set_against_itself_nor_a_number_against_its_name(log, policies, problem, found):
    first = found.ranking[0]
    itself = dw.compare(log, policies, problem.pi_b, baseline=first, resamples=100)
    assert itself.reasons[0].endswith("; it is the one that the others are compared with.")
    number = dw.compare(log, policies, problem.pi_b, baseline=0.25, resamples=100)
    assert number.reasons[0].endswith(", against 0.25, the value to beat.")
    assert found.reasons[0].endswith(" for the old policy.")


def test_paired_differences_are_narrower_than_separate_intervals(found):
    """Two policies that share their episodes differ by less than the noise of each."""
    low, high = found.difference("good", "half").interval
    apart = [found[name].headline.interval for name in ("good", "half")]
    assert high - low < sum(end[1] - end[0] for end in apart) / 2


def test_baselines(log, policies, problem, found):
    by_name = dw.compare(log, policies, problem.pi_b, baseline="half")
    assert by_name.baseline == "half"
    assert by_name.difference("half").answer == "cannot tell"
    assert by_name.difference("half").interval == (0.0, 0.0)
    assert "half" not in [*by_name.better, *by_name.worse]
    by_policy = dw.compare(log, policies, problem.pi_b, baseline=policies["half"])
    for name in policies:
        assert by_policy.difference(name).difference == pytest.approx(by_name.difference(name).difference)
    number = dw.compare(log, policies, problem.pi_b, baseline=0.0)
    assert number.difference("good").difference == pytest.approx(number["good"].headline.value)
    assert number.baseline_value == 0.0
    assert found.baseline_value == pytest.approx(found["good"]["BEHAVIOUR"].value)


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
    assert any("Of same an evaluation alone would claim more." in reason for reason in said)
    assert not any("claim more" in reason for reason in found.reasons)


@pytest.mark.parametrize("episodes", [6, 300])
def test_the_same_where_there_is_no_blend(problem, policies, episodes, monkeypatch):
    """Too many states for a model: weights alone, of six episodes too few for a verdict."""
    monkeypatch.setattr("deadweight.question.core.MOST_VALUES", 10)
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
    assert "model-useless" in found["new"].headline.flags
    assert "model-useless" in found.to_dict()["policies"]["new"]["flags"]
    assert any("foretells nothing" in reason and "new" in reason for reason in found.reasons)
    assert found.may_be_best == set(rivals)
    low, high = found.difference("new", "as now").interval
    own = found["new"].headline.interval
    assert high - low >= own[1] - own[0], "paired or not, what weights leave open stays open"


def test_with_more_policies_nothing_is_claimed_that_an_evaluation_would_not(found, policies):
    for name in policies:
        low, high = found.difference(name).interval
        alone = found[name].verdict
        assert low <= alone.interval[0] + 1e-12
        assert high >= alone.interval[1] - 1e-12
        if found.difference(name).answer != "cannot tell":
            assert alone.answer == found.difference(name).answer


def test_the_same_seed_gives_the_same_bits_and_another_hardly_differs(log, policies, problem, found):
    again = dw.compare(log, policies, problem.pi_b)
    assert again.to_dict() == found.to_dict()
    other = dw.compare(log, policies, problem.pi_b, seed=1, resamples=4000)
    assert_allclose(other.differences.baseline_half_widths, found.differences.baseline_half_widths, rtol=0.1)
    two = dw.compare(log, policies, problem.pi_b, workers=2)
    assert two.to_dict() == found.to_dict()


def test_it_is_data(found, tmp_path):
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()  # noqa: S301
    assert len(pickle.dumps(found)) < 100_000
    loaded = dw.load(found.save(tmp_path / "c.json"))
    assert loaded.to_dict() == found.to_dict()
    assert loaded.may_be_best == found.may_be_best
    assert loaded.difference("good", "half") == found.difference("good", "half")
    assert list(found.to_frame()["policy"]) == found.ranking
    document = found.to_dict()
    assert set(document) >= {
        "schema",
        "ranking",
        "may_be_best",
        "better",
        "worse",
        "recommendation",
        "reasons",
        "policies",
    }
    assert set(document["policies"]["good"]) == {
        "value",
        "interval",
        "difference",
        "difference_interval",
        "regret_bound",
        "ess",
        "flags",
    }
    json.dumps(document, allow_nan=False)
    assert "good" in found._repr_html_()
    assert found.plot().axes


def test_the_report_has_the_forest_the_set_and_the_states(found, tmp_path):
    page = found.report(tmp_path / "c.html", title="Rules <b>", reward="points").read_text()
    assert "Choose good" in page
    assert "Rules &lt;b&gt;" in page
    assert "may be the best" in page
    assert page.count("<details") == len(found.where)
    pairs = {(pair.first, pair.second) for pair in found.where}
    assert len(pairs) == 6 + 4, "every two of four, and each against the baseline"


def test_where_they_differ_adds_up_to_the_model_s_difference(found, log, policies, problem):
    for pair in found.where:
        if pair.second == "baseline":
            continue
        total = sum(one.worth for one in pair.states) + pair.elsewhere
        values = [found[name]["DM"].value for name in (pair.first, pair.second)]
        assert total == pytest.approx(values[0] - values[1], abs=1e-6 * max(1.0, abs(values[0])))


def test_a_policy_that_was_learnt_here_is_flagged_and_claims_nothing(log, policies, problem):
    made = dw.improve(log, problem.pi_b, gate=False, evaluation=False).policy
    assert made.trained_on is not None
    found = dw.compare(log, {"learnt": made, **policies}, problem.pi_b)
    assert "trained-on-log" in found["learnt"].headline.flags
    assert "learnt" not in [*found.better, *found.worse]
    assert found.recommendation != "learnt"
    assert any("learnt from this log" in reason for reason in found.reasons)
    assert found.regret_bound["learnt"] == np.inf, "nor is it said how little is lost by it"
    assert found.ranking[0] != "learnt" or "by choosing learnt cannot be told" in found.reasons[2]
    assert "good" in found.may_be_best, "it pushes nobody out"


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


@pytest.mark.parametrize(
    ("policies", "options", "error", "told"),
    [
        ([1, 2], {}, OptionError, "mapping of names"),
        ({"a": np.eye(3)}, {}, OptionError, "two policies or more"),
        ({"a": np.full((8, 3), 1 / 3), "b": None}, {}, PolicyError, "'b' is None"),
        ({"a": np.full((8, 3), 1 / 3), "b": np.eye(2)}, {}, PolicyError, "'b' does not fit"),
        ({"a": np.full((8, 3), 1 / 3), "": np.eye(3)}, {}, OptionError, "must be text"),
        ({"a": np.full((8, 3), 1 / 3), "baseline": np.eye(3)}, {}, OptionError, "may be called 'baseline'"),
        ({"a": 1, "b": 2}, {"baseline": "c"}, OptionError, "none of the policies"),
        ({"a": 1, "b": 2}, {"baseline": float("nan")}, OptionError, "finite"),
        ({"a": 1, "b": 2}, {"level": 2.0}, OptionError, "level"),
        ({"a": 1, "b": 2}, {"resamples": 3}, OptionError, "resamples"),
        ({"a": 1, "b": 2}, {"sede": 3}, OptionError, "no option 'sede'"),
        ({"a": 1, "b": 2}, {}, PolicyError, "'a' does not fit"),
    ],
)
def test_bad_input(log, problem, policies, options, error, told):
    with pytest.raises(error, match=told):
        dw.compare(log, policies, problem.pi_b, **options)


def test_names_that_are_not_there(found):
    with pytest.raises(OptionError, match="Did you mean"):
        found["goood"]
    with pytest.raises(OptionError, match="itself"):
        found.difference("good", "good")


def test_what_may_be_lost_is_lost_to_one_that_may_be_the_best(found):
    for name in found:
        others = [rival for rival in found.may_be_best if rival != name]
        assert (found.regret_bound[name] > 0) == bool(others)


def test_few_claims_are_wrong_over_many_logs():
    """Seeded: 16 logs of two problems, four policies; at most one log may have a wrong claim or set."""
    wrong = 0
    for cell in [one for one in study_problems() if one.name in ("random 8 x 3", "river")]:
        mdp, old, new = cell.problem.mdp, cell.problem.pi_b.probs, cell.problem.pi_e.probs
        policies = {f"{share:g}": (1 - share) * old + share * new for share in (0.1, 0.3, 0.5, 0.9)}
        truth = {name: dw.policy_value(mdp, policy) for name, policy in policies.items()}
        best = max(truth, key=truth.__getitem__)
        for seed in range(8):
            found = dw.compare(cell.sample(seed), policies, cell.pi_b)
            missed = any(
                not low <= truth[name] - cell.problem.behaviour_value <= high
                for name in policies
                for low, high in [found.difference(name).interval]
            )
            wrong += missed or best not in found.may_be_best
    assert wrong <= 1


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
    assert any("Nothing is claimed of wild." in reason for reason in found.reasons)
    assert_as_evaluated(found, log, policies)
