"""BLEND as an estimate and as the headline of a table."""

from __future__ import annotations

import copy
import html
import math

import numpy as np
import pytest
from deadweight_studies.problems import random_problem

import deadweight as dw
from deadweight.answers.blend import Mixture
from deadweight.answers.candidates import WITHOUT_MODEL, gather
from deadweight.estimators.estimator import estimator_of
from deadweight.log.interface import InMemory, in_memory
from deadweight.question.question import Question, ask
from deadweight.sums.pairs import pair_policies
from deadweight.testing import check_travels
from deadweight.verbs.verdict import verdict

PROBLEM = random_problem(6, 3, 8, seed=9)
LOG = PROBLEM.sample(120, seed=4)


def test_an_estimate_is_the_blend_of_its_evidence() -> None:
    found = dw.estimate("BLEND", LOG, PROBLEM.pi_e, PROBLEM.pi_b, level=0.9)
    expected = Mixture(gather(ask(LOG, PROBLEM.pi_e, PROBLEM.pi_b))).at(0.9)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert found.std_error == pytest.approx(expected.std_error, rel=1e-12)
    below, above = expected.half_widths
    assert found.interval == pytest.approx((expected.value - below, expected.value + above), rel=1e-12)
    assert found.shares is not None
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.contradiction == pytest.approx(expected.contradiction, rel=1e-9)
    assert found.bias_allowance == pytest.approx(expected.contradiction, rel=1e-9)
    assert ("contradicted" in found.flags) == (expected.against is not None)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_from_fewer_episodes_than_there_are_folds_nothing_is_concluded(n: int) -> None:
    """No episode is left that could show that a model knows anything: weights say how sure it is."""
    alike = dw.Trajectories(
        [0] * n, [1] * n, [1.0] * n, np.arange(n + 1)
    )  # a coin does that in 1 of 2^n logs
    found = dw.evaluate(alike, [[0.0, 1.0]], [[0.5, 0.5]], baseline=0.5)
    assert found["BLEND"].interval == (1.0, 1.0)
    assert found.verdict.answer == "cannot tell"
    assert set(found["BLEND"].shares) <= set(WITHOUT_MODEL)
    two = dw.Trajectories([0] * n, [1, 0] * (n // 2) + [1] * (n % 2), np.arange(n) ** 2.0, np.arange(n + 1))
    table = dw.evaluate(two, [[0.4, 0.6]], [[0.5, 0.5]], ["BLEND", "WIS"], baseline=-5.0)
    assert table.verdict.answer == "cannot tell"
    half = table["BLEND"].interval[1] - table["BLEND"].value
    assert half > 2.5 * table["WIS"].std_error + abs(table["WIS"].value - table["BLEND"].value)


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")  # numpy may say so, too
@pytest.mark.parametrize("tiny", [1e-160, 1e-300])
def test_windows_whose_products_leave_the_range_of_numbers_are_left_out(tiny: float) -> None:
    """All other weights carry an exponent, and the mix is that of ratios that are large but not so large."""
    log = dw.Trajectories.from_episodes([[(0, i % 2, float(i % 3)), (0, i // 2 % 2, 1.0)] for i in range(40)])
    found, expected = (
        dw.estimate("BLEND", log, [[1.0 - ratio, ratio]], [[ratio, 1.0 - ratio]]) for ratio in (tiny, 1e-100)
    )
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.interval == pytest.approx(expected.interval, rel=1e-9)


def test_it_is_the_headline_and_says_why() -> None:
    table = dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b, ["BEHAVIOUR", "WPDIS", "BLEND", "C-WSPDIS"])
    assert list(table) == ["BEHAVIOUR", "WPDIS", "BLEND", "C-WSPDIS"]
    assert table.headline.name == "BLEND"
    assert table["WPDIS"].shares is None
    said = table.verdict
    assert said.next_step
    assert any("made of" in reason for reason in said.reasons)
    half = table["BLEND"].blend.baseline_half_widths
    assert said.interval == pytest.approx((said.difference - half[0], said.difference + half[1]))
    assert "BLEND" in str(table)


def test_other_intervals_do_not_concern_it() -> None:
    kinds = [
        dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b, ["WIS", "BLEND"], interval=kind)["BLEND"].interval
        for kind in ("auto", "student-t")
    ]
    assert kinds[0] == kinds[1]
    assert dw.estimate("BLEND", LOG, PROBLEM.pi_e, PROBLEM.pi_b, interval=None).interval is None


def test_parts_and_workers_do_not_matter() -> None:
    pair = pair_policies(in_memory(LOG).labels, PROBLEM.pi_e, PROBLEM.pi_b)
    whole = Question(in_memory(LOG), pair)
    expected = gather(whole)
    for question in (Question(in_memory(LOG), pair, workers=3), Question(InMemory(LOG.split(4)), pair)):
        found = gather(question)
        assert found.values == pytest.approx(expected.values, rel=1e-10)
        assert found.covariance == pytest.approx(expected.covariance, rel=1e-8, abs=1e-14)
        assert found.thirds == pytest.approx(expected.thirds, rel=1e-8, abs=1e-10)
        assert found.sizes == pytest.approx(expected.sizes, rel=1e-10)
        assert found.missing == pytest.approx(expected.missing, rel=1e-10)
        assert found.shared_bias == pytest.approx(expected.shared_bias, rel=1e-8)
        assert found.unseen_variance == pytest.approx(expected.unseen_variance, rel=1e-8)
    workers = [dw.estimate("BLEND", LOG, PROBLEM.pi_e, PROBLEM.pi_b, workers=k) for k in (1, 3)]
    assert workers[0].value == workers[1].value
    assert workers[0].interval == workers[1].interval


def test_a_model_that_does_not_fit_is_left_out() -> None:
    """Steps that are cut at a limit, and said to be terminations, teach the model random endings."""
    rng = np.random.default_rng(3)
    n, horizon = 400, 8
    states = rng.integers(3, size=(n, horizon))
    actions = rng.integers(2, size=(n, horizon))
    rewards = 1.0 + 0.1 * rng.normal(size=(n, horizon))
    log = dw.Trajectories(
        states.ravel(), actions.ravel(), rewards.ravel(), np.arange(0, n * horizon + 1, horizon)
    )
    pi_e = np.tile([0.6, 0.4], (3, 1))
    found = dw.estimate("BLEND", log, pi_e, np.full((3, 2), 0.5), drop=None)
    assert "model-misfit" in found.flags
    assert found.shares is not None
    assert found.shares == {"WPDIS": 1.0}
    assert found.value == pytest.approx(8.0, abs=0.1)  # twenty standard errors of the mean


def test_a_given_model_and_small_logs() -> None:
    model = dw.fit_mdp(LOG)
    found = dw.estimate("BLEND", LOG, PROBLEM.pi_e, PROBLEM.pi_b, model=model)
    assert math.isfinite(found.value)
    for n in (1, 3, 6):
        few = dw.estimate("BLEND", LOG.select(range(n)), PROBLEM.pi_e, PROBLEM.pi_b)
        assert math.isfinite(few.value)
        assert few.interval is not None
        assert (n == 1) == math.isinf(few.interval[1])


def test_it_needs_the_policy_for_all_actions() -> None:
    probs = PROBLEM.pi_e.probs[LOG.states, LOG.actions]
    log = dw.Trajectories(
        LOG.states, LOG.actions, LOG.rewards, LOG.offsets, propensities=LOG.propensities, target_probs=probs
    )
    with pytest.raises(dw.errors.EstimationError, match="BLEND"):
        dw.estimate("BLEND", log)


def test_it_is_saved_and_travels(tmp_path) -> None:
    table = dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b, ["BEHAVIOUR", "BLEND"], drop=[1])
    again = dw.load(table.save(tmp_path / "table.json"))
    assert again.to_dict() == table.to_dict()
    found = table.to_dict()
    assert found["estimates"]["BLEND"]["shares"] == dict(again["BLEND"].shares)
    assert found["estimates"]["BLEND"]["contradiction"] == again["BLEND"].contradiction
    assert "shares" not in found["estimates"]["BEHAVIOUR"]
    assert found["verdict"]["next_step"] == again.verdict.next_step == table.verdict.next_step
    assert verdict(again["BLEND"], again["BEHAVIOUR"]) == table.verdict
    made = estimator_of("BLEND")
    assert copy.deepcopy(made) == made  # by way of what pickles it
    check_travels(made, LOG, PROBLEM.pi_e, PROBLEM.pi_b)
    assert len(table.to_frame()) == 2


def test_a_report_of_it(tmp_path) -> None:
    table = dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b, ["BEHAVIOUR", "BLEND", "WPDIS"], drop=[1])
    page = html.unescape(table.report(tmp_path / "report.html").read_text())
    assert table.verdict.next_step in page
    assert "What BLEND is made of" in page
    for part in table["BLEND"].blend.parts:
        assert f"<b>{part.name}</b>" in page


def test_the_influence_of_an_episode_on_it() -> None:
    found = dw.estimate("BLEND", LOG, PROBLEM.pi_e, PROBLEM.pi_b, also=["influence"])
    assert found.influence.mean() == pytest.approx(0.0, abs=1e-10)
    error = found.influence.std(ddof=1) / math.sqrt(LOG.n_episodes)
    assert error == pytest.approx(found.std_error, rel=1e-9)
    whole = dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b, also=["influence"])
    np.testing.assert_allclose(whole["BLEND"].influence, found.influence, rtol=1e-9)


def test_it_heads_the_default_table_wherever_a_model_can_be_had() -> None:
    assert dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b).headline.name == "BLEND"
    probs = PROBLEM.pi_e.probs[LOG.states, LOG.actions]
    log = dw.Trajectories(
        LOG.states, LOG.actions, LOG.rewards, LOG.offsets, propensities=LOG.propensities, target_probs=probs
    )
    without = dw.evaluate(log)
    assert "BLEND" not in without
    assert without.headline.name == "WPDIS"


def test_too_many_states_for_a_model_leave_the_weights(monkeypatch) -> None:
    monkeypatch.setattr("deadweight.question.question.MOST_VALUES", 10)
    found = dw.evaluate(LOG, PROBLEM.pi_e, PROBLEM.pi_b)
    assert list(found) == ["BEHAVIOUR", "WIS", "WPDIS"]
    assert found.headline.name == "WPDIS"


def test_its_parts_add_up() -> None:
    found = dw.estimate("BLEND", LOG, PROBLEM.pi_e, PROBLEM.pi_b).blend
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)
    assert sum(part.share * part.value for part in found.parts) == pytest.approx(found.value)
    assert {part.name: part.share for part in found.parts if part.name in found.shares} == found.shares
    most = max(found.parts, key=lambda part: part.beyond)
    assert found.against == (most.name if most.beyond else None)
    assert found.contradiction == max(most.beyond, found.shared_bias)
    assert [part.name for part in found.parts] == list(found.shares)
