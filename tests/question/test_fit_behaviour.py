"""A behaviour policy learned from the log: what is chosen, what no step has seen, and what z shows."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import deadweight as dw
from deadweight.errors import Assumption, DeadweightError, MissingExtra
from deadweight.log.behaviour import LEARNERS, fit_logit
from deadweight.question.learned_behaviour import fit_behaviour
from deadweight.question.ratio_check import z_of
from deadweight.tools.arithmetic import softmax

SEPSIS = dw.domains.sepsis_like()


@pytest.fixture(scope="module")
def log():
    return SEPSIS.sample(episodes=250, seed=1)


def truth(log):
    """(steps, A) the true probabilities in the order of the log."""
    rows = SEPSIS.pi_b.on(log)
    return rows.probs[:, [list(rows.action_labels).index(label) for label in log.action_labels]]


def test_the_logit_is_where_its_slope_is_zero():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    actions = rng.integers(3, size=300)
    w = fit_logit(x, actions, 3, ridge=2.0)
    slope = x.T @ (softmax(x @ w) - np.eye(3)[actions]) + 2.0 * w * np.array([[1e-6], [1], [1]])
    assert np.abs(slope).max() < 300 * 1e-5


def test_a_logit_finds_a_logit(log):
    found = fit_behaviour(log, candidates=["logit"])
    distance = 0.5 * np.abs(found.probs - truth(log)).sum(axis=1).mean()
    assert distance < 0.05
    assert abs(found.z(SEPSIS.pi_e)) < 3
    np.testing.assert_allclose(found.probs.sum(axis=1), 1.0)
    assert found.last is None or np.isnan(found.last[log.terminated]).all()


def test_the_smallest_held_out_loss_is_chosen(log):
    found = fit_behaviour(log, candidates=["logit", "boosting"])
    assert found.chosen == min(found.scores, key=found.scores.get)
    loss = -np.log(found.probs[np.arange(log.n_steps), log.actions]).mean()
    assert loss == pytest.approx(found.scores[found.chosen], abs=1e-12)


def test_no_step_teaches_its_own_probability(log):
    """Other rewards, actions or features in one episode change nothing that is said of that episode."""
    first = slice(0, int(log.lengths[0]))
    actions = log.actions.copy()
    actions[first] = (actions[first] + 1) % 3
    other = dw.Trajectories(
        None,
        log.action_labels[actions],
        log.rewards,
        log.offsets,
        features=log.features,
        feature_names=log.feature_names,
        terminated=log.terminated,
        last_features=log.last_features,
    )
    before, after = (fit_behaviour(one, candidates=["logit"]).probs for one in (log, other))
    np.testing.assert_array_equal(before[first], after[first])
    assert not np.array_equal(before, after)


def test_z_by_hand_and_what_it_catches(log):
    rho = np.linspace(0.5, 2.0, log.n_steps)
    sums = [sum(rho[a:b] - 1) for a, b in zip(log.offsets[:-1], log.offsets[1:], strict=True)]
    expected = np.mean(sums) / (np.std(sums, ddof=1) / np.sqrt(len(sums)))
    assert z_of(log, rho) == pytest.approx(expected, rel=1e-10)
    assert z_of(log, np.ones(log.n_steps)) == 0.0
    # Trees that learned the log by heart: what they give the actions taken is far too high.
    trees = pytest.importorskip("sklearn.ensemble").ExtraTreesClassifier(20, random_state=0)
    by_heart = trees.fit(log.features, log.actions).predict_proba(log.features)
    taken = by_heart[np.arange(log.n_steps), log.actions]
    pi_e = SEPSIS.pi_e.on(log)
    order = [list(pi_e.action_labels).index(label) for label in log.action_labels]
    assert z_of(log, pi_e.probs[np.arange(log.n_steps), np.array(order)[log.actions]] / taken) < -3
    named = dw.RowPolicy(np.maximum(by_heart, 1e-3) / np.maximum(by_heart, 1e-3).sum(1)[:, None])
    flagged = dw.estimate("WPDIS", log, SEPSIS.pi_e, named, interval=None)
    assert "behaviour-miscalibrated" in flagged.flags
    assert "more, or less, often than was done" in flagged.explain()
    assert dw.estimate("WPDIS", log, SEPSIS.pi_e, interval=None).flags == ()


def test_calibration_by_plain_loops(log):
    found = fit_behaviour(log, candidates=["logit"])
    records = found.calibration
    assert len(records) == 30
    assert sum(one["steps"] for one in records) == 3 * log.n_steps
    for code, label in enumerate(log.action_labels):
        ours = [one for one in records if one["action"] == label]
        total = sum(one["steps"] * one["observed"] for one in ours)
        assert total == pytest.approx((log.actions == code).sum())
        predicted = [one["predicted"] for one in ours]
        assert predicted == sorted(predicted)


def test_floor_and_actions_that_were_never_logged():
    n = 40
    log = dw.Trajectories(
        None, [0, 2] * (n // 2), [0.0] * n, range(n + 1), features=np.tile([[0.0], [1.0]], (n // 2, 1))
    )
    probs = fit_behaviour(log, candidates=["logit"], floor=0.05).probs
    assert (probs[:, 1] == 0).all(), "an action without a step in the log"
    assert (probs[:, [0, 2]] >= 0.05 / 1.1).all()


def test_counts_where_there_are_states():
    log = dw.domains.stochastic_lift(7).sample(200, seed=0)
    found = fit_behaviour(log)
    assert list(found.scores) == ["counts"]
    k = np.arange(log.n_episodes) % 5
    fold = np.repeat(k, log.lengths)
    row = int(np.flatnonzero(fold == 2)[0])
    others = fold != 2
    seen = others & (log.states == log.states[row])
    share = (np.bincount(log.actions[others], minlength=2) + 1) / (others.sum() + 2)
    expected = (np.bincount(log.actions[seen], minlength=2) + share) / (seen.sum() + 1)
    np.testing.assert_allclose(found.probs[row], expected, rtol=1e-12)


def test_states_and_features_compete(log):
    both = dw.Trajectories(
        (log.features[:, 0] > 2).astype(int), log.actions, log.rewards, log.offsets, features=log.features
    )
    assert list(fit_behaviour(both, candidates=["logit"]).scores) == ["logit", "counts"]


def test_it_serves_as_pi_b(log):
    found = fit_behaviour(log, candidates=["logit"])
    learned = dw.estimate("WPDIS", log, SEPSIS.pi_e, found, interval=None)
    logged = dw.estimate("WPDIS", log.with_propensities(found.propensities), SEPSIS.pi_e, interval=None)
    assert learned.value == pytest.approx(logged.value, rel=1e-12)


def test_without_scikit_learn(log, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtra, match="learners"):
        fit_behaviour(log, candidates=["boosting"])
    monkeypatch.setitem(LEARNERS, "bumps-logit", LEARNERS["logit"])
    with pytest.warns(Assumption, match="boosting"):
        assert list(fit_behaviour(log).scores) == ["logit", "bumps-logit"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"candidates": ["logti"]}, "Did you mean 'logit'"),
        ({"candidates": ["counts"]}, "needs labels of states"),
        ({"folds": 1}, "between 2 and"),
        ({"folds": 10_000}, "between 2 and"),
        ({"floor": 0.4}, "below 1 / 3"),
        ({"floor": 0.0}, "above 0"),
    ],
)
def test_refusals(log, options, words):
    with pytest.raises(DeadweightError, match=words):
        fit_behaviour(log, **options)


def test_features_are_asked_for_where_there_are_none():
    with pytest.raises(DeadweightError, match="labels of states only"):
        fit_behaviour(dw.domains.stochastic_lift(7).sample(20), candidates=["logit"])
