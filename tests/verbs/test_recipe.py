"""What is changed: only what pays by enough, and only what was tried often enough."""

from __future__ import annotations

import numpy as np
import pytest
from verbs.small import PI_B, bandit, log, mdp

from deadweight import TabularMDP, policy_value
from deadweight.errors import OptionError
from deadweight.question.question import ask
from deadweight.verbs.recipe import Horizon, Models, Recipe, improved, learn

HALF = np.array([[0.5, 0.5]])


def copies(model: TabularMDP, count: int = 3) -> Models:
    """The same model several times: its resamples do not differ, so that whatever pays is taken."""
    size, actions = model.r.shape
    dense = model.P.toarray().reshape(size, actions, size + 1)
    P = np.zeros((count * size, actions, count * size + 1))
    for k in range(count):
        own = slice(k * size, (k + 1) * size)
        P[own, :, own], P[own, :, -1] = dense[:, :, :-1], dense[:, :, -1]
    assert model.horizon is not None
    stacked = TabularMDP(P, np.tile(model.r, (count, 1)), np.tile(model.d0, count) / count, model.horizon)
    return Models(stacked, count, Horizon(model.horizon, False, 1.0))


def test_a_known_model_gives_its_best_policy() -> None:
    """With two states and two actions all four policies can be tried."""
    model = mdp(6)
    found = improved(copies(model), PI_B, np.full((2, 2), 10.0), Recipe())
    every = [np.eye(2)[[a, b]] for a in range(2) for b in range(2)]
    assert policy_value(model, found.pi) == max(policy_value(model, pi) for pi in every)
    np.testing.assert_array_equal(found.std_error, 0.0)


def test_later_rounds_see_what_the_first_has_changed() -> None:
    """To go on pays only after the second state is put right: in pi_b it costs 0.8 on average.

    In between the second state is not visited at all, and what was found out about it must not be lost.
    """
    P = np.zeros((2, 2, 3))
    P[0, 0, 2], P[0, 1, 1], P[1, :, 2] = 1.0, 1.0, 1.0
    model = TabularMDP(P, [[0.0, 0.0], [-1.0, 1.0]], [1.0, 0.0], 2)
    pi_b = np.array([[0.5, 0.5], [0.9, 0.1]])
    found = improved(copies(model), pi_b, np.full((2, 2), 10.0), Recipe())
    assert found.action.tolist() == [1, 1]
    # Hand-worked, of the last round: to go on is worth 1, and pi_b would do so half of the time.
    np.testing.assert_allclose(found.advantage, [[-0.5, 0.5], [-0.2, 1.8]], atol=1e-12)


def test_nothing_is_changed_where_all_actions_do_the_same() -> None:
    asked = ask(bandit(50, 50, pays=0.0), HALF, HALF)
    found = learn(asked, Recipe(), np.random.default_rng(0), np.ones(asked.n))
    assert found.changed.size == 0
    np.testing.assert_array_equal(found.pi, asked.pi_b)


def test_an_action_must_have_been_tried_often_enough() -> None:
    for tries, changed in ((9, 0), (10, 1)):
        asked = ask(bandit(tries, 50), HALF, HALF)
        found = learn(asked, Recipe(), np.random.default_rng(0), np.ones(asked.n))
        assert found.changed.size == changed
        assert (
            learn(asked, Recipe(min_visits=9), np.random.default_rng(0), np.ones(asked.n)).changed.size == 1
        )


def test_the_gain_of_a_bandit_is_the_difference_of_its_means() -> None:
    found = bandit(30, 50)
    asked = ask(found, HALF, HALF)
    learnt = learn(asked, Recipe(), np.random.default_rng(0), np.ones(asked.n))
    by_action = [found.rewards[found.actions == a].mean() for a in range(2)]  # new, old
    np.testing.assert_allclose(learnt.advantage[0], by_action - np.mean(by_action), rtol=1e-12)
    # Rubin's bootstrap of a difference of means: half of sqrt(var/n + var/m); 20 resamples tell it to 16 %.
    spread = [found.rewards[found.actions == a].std() ** 2 / (found.actions == a).sum() for a in range(2)]
    assert learnt.std_error[0, 0] == pytest.approx(np.sqrt(sum(spread)) / 2, rel=0.5)


def test_more_caution_changes_less() -> None:
    asked = ask(log(60, horizon=6), PI_B, PI_B)

    def changed(caution: float) -> int:
        recipe = Recipe(caution=caution, min_visits=2)
        return learn(asked, recipe, np.random.default_rng(0), np.ones(asked.n)).changed.size

    assert changed(0.0) == 2
    assert changed(1000.0) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"caution": -1.0}, {"caution": float("nan")}, {"caution": "2"}, {"min_visits": 0}, {"min_visits": 2.5}],
)
def test_settings_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Recipe(**wrong)  # type: ignore[arg-type]
