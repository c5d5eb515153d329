"""What a comparison of several policies on one log says: paired, as data, and honest about its limits."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - results must survive a trip to another process

import numpy as np
import pytest
from deadweight_studies.problems import study_problems
from numpy.testing import assert_allclose

import deadweight as dw
from deadweight.errors import OptionError, PolicyError
from deadweight.verbs.compare import _ranked


def test_what_it_says_hangs_together(found):
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


def test_a_policy_equal_to_pi_b_is_neither_better_nor_worse(found, problem, policies):
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


def test_a_policy_called_nothing_is_not_taken_for_the_word(log, policies, problem):
    found = dw.compare(log, {"nothing": policies["bad"], "plan": policies["good"]}, problem.pi_b)
    assert "'nothing' is shown to be worse than 'plan'." in found.reasons
    assert not any(reason.startswith("nothing") for reason in found.reasons)


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


def test_the_same_seed_gives_the_same_bits_and_another_hardly_differs(log, policies, problem, found):
    again = dw.compare(log, policies, problem.pi_b)
    assert again.to_dict() == found.to_dict()
    other = dw.compare(log, policies, problem.pi_b, seed=1, resamples=4000)
    assert_allclose(other.differences.baseline_half_widths, found.differences.baseline_half_widths, rtol=0.1)
    two = dw.compare(log, policies, problem.pi_b, workers=2)
    assert two.to_dict() == found.to_dict()


def test_neither_the_order_nor_the_names_of_policies_change_what_is_said(log, policies, problem, found):
    """The simulation gives its draws to policies by their values."""
    new = {name: f"{place} {name}" for place, name in enumerate(reversed(list(policies)))}
    turned = dw.compare(log, {new[name]: policies[name] for name in reversed(list(policies))}, problem.pi_b)
    for said in ("ranking", "better", "worse"):
        assert getattr(turned, said) == [new[name] for name in getattr(found, said)]
    assert turned.may_be_best == {new[name] for name in found.may_be_best}
    for name in policies:
        assert turned.regret_bound[new[name]] == pytest.approx(found.regret_bound[name], rel=1e-9)
        for other in (None, *(one for one in policies if one != name)):
            before, after = (
                one.difference(called[name], "baseline" if other is None else called[other])
                for one, called in ((found, dict(zip(policies, policies, strict=True))), (turned, new))
            )
            assert_allclose(after.interval, before.interval, rtol=1e-9)


def test_policies_whose_values_differ_by_rounding_stay_in_their_order():
    values = {"a": 1.0, "b": 2.0, "c": 1.0 + 4e-16, "d": 1.0 + 2e-16, "e": 3.0}
    assert _ranked(values) == ["e", "b", "a", "c", "d"]


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


def test_where_they_differ_adds_up_to_the_model_s_difference(found):
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
    assert found.ranking[0] != "learnt" or "by choosing 'learnt' cannot be told" in found.reasons[2]
    assert "good" in found.may_be_best, "it pushes nobody out"


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
