"""The gate judges by the direct method, with the influence of every episode."""

from __future__ import annotations

import numpy as np
import pytest
import reference as ref
import scipy.stats
from verbs.small import PI_B, log

import deadweight as dw
from deadweight.question.question import Question, ask
from deadweight.typing import FloatArray
from deadweight.verbs.recipe import (
    ALLOWED,
    HALVINGS,
    Recipe,
    gain_of_shipped,
    judge,
    judge_in_sample,
    judge_strictly,
    learn,
)

RECIPE = Recipe(caution=1.0, min_visits=2)


def question(episodes: int = 120, horizon: int | None = 6) -> Question:
    return ask(log(episodes, horizon=horizon), PI_B, PI_B)


@pytest.mark.parametrize("horizon", [6, None])
def test_judging_on_all_episodes_is_the_difference_of_two_direct_methods(horizon: int | None) -> None:
    asked = question(horizon=horizon)
    learnt = learn(asked, RECIPE, np.random.default_rng(0), np.ones(asked.n))
    assert learnt.changed.size > 0
    found = judge_in_sample(asked, learnt)
    new, old = (dw.estimate("DM", asked.parts[0], pi, PI_B, also=["influence"]) for pi in (learnt.pi, PI_B))
    assert found.gain == pytest.approx(new.value - old.value, rel=1e-10)
    influence = new.influence - old.influence
    assert found.std_error == pytest.approx(influence.std(ddof=1) / np.sqrt(asked.n), rel=1e-10)
    linear = dw.estimate("LIN", asked.parts[0], learnt.pi, PI_B, interval=None).value
    base = dw.estimate("BEHAVIOUR", asked.parts[0], PI_B, PI_B, interval=None).value
    assert found.linear == pytest.approx(linear - base, rel=1e-10)


def test_each_half_is_judged_by_what_the_other_one_taught() -> None:
    asked = question()
    found = judge(asked, RECIPE, np.random.default_rng(1))
    assert len(found.halves) == 2 * HALVINGS == len(found.by_half)
    for k in range(0, len(found.halves), 2):
        np.testing.assert_array_equal(found.halves[k], ~found.halves[k + 1])
    for gain, half, learnt in zip(found.by_half, found.halves, found.learnt, strict=True):
        apart = asked.parts[0].select(half)
        values = [
            dw.estimate("DM", apart, pi, PI_B, interval=None, solve="longest").value
            for pi in (learnt.pi, PI_B)
        ]
        assert gain == pytest.approx(values[0] - values[1], rel=1e-9)
        others = asked.parts[0].select(~half)
        visits = np.zeros((2, 2))
        np.add.at(visits, (others.states, others.actions), 1)
        np.testing.assert_array_equal(learnt.visits, visits)
    assert found.gain == pytest.approx(np.mean(found.by_half))


def test_the_strict_form_judges_one_policy_on_the_other_half() -> None:
    found = judge_strictly(question(), RECIPE, np.random.default_rng(2))
    assert len(found.learnt) == len(found.halves) == 1
    assert found.n == found.halves[0].sum() == 60
    assert (
        found.learnt[0].visits.sum() + question().parts[0].lengths[found.halves[0]].sum()
        == question().parts.n_steps
    )


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_weights_to_first_order_on_each_half_are_the_plain_loop(gamma: float) -> None:
    asked = ask(log(120, horizon=6), PI_B, PI_B, gamma)
    found = judge_strictly(asked, RECIPE, np.random.default_rng(1))
    half = plain(asked.parts[0].select(found.halves[0]))
    expected = ref.linear(half, found.learnt[0].pi, PI_B, gamma) - ref.behaviour(half, gamma)
    assert found.learnt[0].changed.size > 0
    assert found.linear == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_both_estimates_of_all_halves_have_one_error_an_episode() -> None:
    asked = question()
    found, whole = judge(asked, RECIPE, np.random.default_rng(1)), asked.parts[0]
    total = np.zeros((2, asked.n))
    for half, learnt in zip(found.halves, found.learnt, strict=True):
        apart = whole.select(half)
        new, old = (
            dw.estimate("DM", apart, pi, PI_B, also=["influence"], solve="longest")
            for pi in (learnt.pi, PI_B)
        )
        terms = linear_terms(apart, learnt.pi)
        for row, own in zip(total, (terms, terms - new.influence + old.influence), strict=True):
            row[half] += (own - own.mean()) / (half.sum() * len(found.halves))
    errors = np.sqrt(np.square(total).sum(axis=1) * asked.n / (asked.n - 1))
    assert found.linear_error == pytest.approx(errors[0], rel=1e-9)
    assert found.apart == pytest.approx((found.linear - found.gain) / errors[1], rel=1e-9)


def test_the_interval_allows_for_both_estimates_and_for_what_was_not_learnt_yet() -> None:
    asked = question()
    found = judge(asked, RECIPE, np.random.default_rng(1))
    own = judge_in_sample(asked, learn(asked, RECIPE, np.random.default_rng(1), np.ones(asked.n)))
    t = scipy.stats.t.ppf(0.975, asked.n // 2 - 1)
    away = ALLOWED * abs(found.linear - found.gain)
    ends = [
        one + t * error for one, error in ((found.gain, found.std_error), (found.linear, found.linear_error))
    ]
    lower, upper = gain_of_shipped(found, 0.95)
    assert (lower, upper) == pytest.approx((found.gain - t * found.std_error - away, max(ends)), rel=1e-12)
    ends.append(own.gain + t * own.std_error)
    assert gain_of_shipped(found, 0.95, own) == pytest.approx((lower, max(ends)), rel=1e-12)


def linear_terms(log: dw.Trajectories, pi: FloatArray) -> FloatArray:
    """(n,) what each episode says by weights to first order, less what it earned."""
    whole = plain(log)
    q = ref.fitted_q(whole, pi)
    each = [ref.Log([episode]) for episode in whole.episodes]
    return np.array([ref.linear(one, pi, PI_B, q=q) - ref.behaviour(one) for one in each])


def plain(log: dw.Trajectories) -> ref.Log:
    """The log as the loops read it."""
    cuts = log.offsets[1:-1]
    columns = (log.states, log.actions, log.rewards, log.next_states)
    s, a, r, after = (np.split(column, cuts) for column in columns)
    steps = [list(zip(*one, strict=True)) for one in zip(s, a, r, strict=True)]
    return ref.Log(steps, log.terminated, after)
