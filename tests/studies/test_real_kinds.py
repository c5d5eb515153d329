"""Problems of the kinds that real logs have: truths in closed form, and what logs hide."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from deadweight_studies import real_kinds
from deadweight_studies.problems import StudyProblem

from deadweight.mdp.tabular import occupancies, policy_value


def before(log, k: int):
    """(steps,) the actions k steps before, 0 where there were none; and how many steps there were before."""
    step = np.arange(log.n_steps) - np.repeat(log.offsets[:-1], log.lengths)
    return np.where(step >= k, np.roll(log.actions, k), 0), step


def shown_occupancy(cell: StudyProblem, probs) -> np.ndarray:
    """(H, V, A) how often each shown state and action comes at each step."""
    d = occupancies(cell.problem.mdp, probs.probs, cell.problem.horizon)
    shown = np.stack([np.bincount(cell.shown, row) for row in d])
    _, first = np.unique(cell.shown, return_index=True)
    return shown[:, :, None] * probs.probs[first]


def base_of(cell: StudyProblem) -> np.ndarray:
    """(V,) what a shown state pays with nothing behind it and its first action."""
    _, first = np.unique(cell.shown, return_index=True)
    return cell.problem.mdp.r[first, 0]


@pytest.mark.parametrize("square", [False, True])
def test_doses_add_up_and_the_log_does_not_show_them(square: bool) -> None:
    cell = real_kinds.toxic_dose("dose", 3, horizon=6, seed=1, episodes=50, square=square)
    log = cell.sample(0)
    assert log.n_states == 3
    given = sum(before(log, k)[0] for k in range(1, 6))
    harm = 0.05 * (given**2 / 15 if square else given)
    np.testing.assert_allclose(log.rewards, base_of(cell)[log.states] - harm + 0.3 * log.actions, atol=1e-12)


def test_a_dose_is_worth_its_good_less_the_harm_of_all_steps_after_it() -> None:
    cell = real_kinds.toxic_dose("dose", 3, horizon=25, seed=1, episodes=50)
    later = np.arange(24, -1, -1)
    for policy, value in zip((cell.problem.pi_e, cell.problem.pi_b), cell.values, strict=True):
        often = shown_occupancy(cell, policy)
        worth = (often.sum(axis=2) @ base_of(cell)).sum() + (
            (0.3 - 0.05 * later) * often[:, :, 1].sum(axis=1)
        ).sum()
        assert value == pytest.approx(worth, rel=1e-10)
    assert cell.values[0] < cell.values[1] - 0.5


def test_what_is_earned_comes_so_many_steps_later() -> None:
    cell = real_kinds.pays_later("later", 3, 3, horizon=8, seed=2, episodes=400)
    log = cell.sample(1)
    _, first = np.unique(cell.shown, return_index=True)
    good = cell.problem.mdp.r[first].argmin(axis=1)
    base = cell.problem.mdp.r[first].max(axis=1)
    paid = log.rewards - base[log.states] + 0.3 * (log.actions == good[log.states])
    np.testing.assert_allclose(paid, paid.round(), atol=1e-12)
    _, step = before(log, 3)
    assert not paid[step < 3].round().any()
    was_good = np.roll(log.actions == good[log.states], 3)[step >= 3]
    for chosen, chance in ((True, 0.9), (False, 0.1)):
        earned = paid[step >= 3][was_good == chosen]
        assert abs(earned.mean() - chance) < 5 * np.sqrt(0.09 / len(earned))
    for policy, value in zip((cell.problem.pi_e, cell.problem.pi_b), cell.values, strict=True):
        often = shown_occupancy(cell, policy)
        is_good = np.eye(2)[good]
        pays = np.where(is_good, 0.9, 0.1)
        worth = (often * (base[:, None] - 0.3 * is_good)).sum() + (often[:-3] * pays).sum()
        assert value == pytest.approx(worth, rel=1e-10)


def test_fatigue_costs_less_and_less() -> None:
    cell = real_kinds.fatigue("fatigue", 3, 0.8, horizon=7, seed=3, episodes=50)
    after = np.array([0.6 * 0.2 * sum(0.8**k for k in range(6 - t)) for t in range(7)])
    for policy, value in zip((cell.problem.pi_e, cell.problem.pi_b), cell.values, strict=True):
        often = shown_occupancy(cell, policy)
        worth = (often.sum(axis=2) @ base_of(cell)).sum() + ((0.3 - after) * often[:, :, 1].sum(axis=1)).sum()
        assert value == pytest.approx(worth, rel=1e-10)
    assert cell.values[0] != pytest.approx(cell.values[1], abs=0.01)


def test_parity_is_a_sum_over_all_actions() -> None:
    cell = real_kinds.parity("parity", 2, horizon=7, seed=4, episodes=60)
    log = cell.sample(2)
    (third, step), (fifth, _) = before(log, 3), before(log, 5)
    earned = log.rewards - base_of(cell)[log.states]
    np.testing.assert_allclose(earned, (third != fifth) & (step >= 3), atol=1e-12)
    for policy, value in zip((cell.problem.pi_e, cell.problem.pi_b), cell.values, strict=True):
        share, worth = policy.probs[0, 1], 0.0
        for actions in product((0, 1), repeat=7):
            chance = np.prod([share if a else 1 - share for a in actions])
            worth += chance * sum(actions[t - 3] != (actions[t - 5] if t >= 5 else 0) for t in range(3, 7))
        worth += (shown_occupancy(cell, policy).sum(axis=2) @ base_of(cell)).sum()
        assert value == pytest.approx(worth, rel=1e-10)


def test_the_domains_of_thomas_and_brunskill() -> None:
    fail, win = real_kinds.model_fail(300), real_kinds.model_win(40)
    assert fail.values == pytest.approx((-0.76, 0.76))
    log = fail.sample(0)
    assert log.n_states == 1
    assert set(log.lengths) == {2}
    np.testing.assert_allclose(log.rewards[::2], 0.0)
    np.testing.assert_allclose(log.rewards[1::2], 1.0 - 2.0 * log.actions[::2])
    # Ten choices, each of which wins in .27 x .4 + .73 x .6 = .546 of the cases.
    assert win.values == pytest.approx((0.92, -0.92))
    assert set(win.sample(0).lengths) == {20}


@pytest.mark.parametrize(
    ("options", "truths"),
    [
        ({}, (2.4, 0.8)),  # four times .8 - .2, or .6 - .4
        ({"slips": True}, (1.2, 0.4)),  # three quarters less one quarter of it
        ({"at_end": True, "noisy": True}, (0.6, 0.2)),
        ({"at_end": True, "slips": True, "labels": 2}, (0.3, 0.1)),
    ],
)
def test_graphs(options, truths) -> None:
    cell = real_kinds.graph("graph", 4, (0.8, 0.2), (0.6, 0.4), 2000, **options)
    assert cell.values == pytest.approx(truths)
    log = cell.sample(5)
    returns = np.add.reduceat(log.rewards, log.offsets[:-1])
    assert abs(returns.mean() - truths[1]) < 5 * returns.std() / np.sqrt(2000)
    assert log.n_states == options.get("labels", 7)
    assert set(log.lengths) == {4}


def test_graph_pays_by_the_action_before() -> None:
    log = real_kinds.graph("graph", 4, (0.8, 0.2), (0.6, 0.4), 30).sample(0)
    paid = 1.0 - 2.0 * log.actions.reshape(-1, 4)
    paid[:, 3] = paid[:, 2]  # at the end the last action says nothing
    np.testing.assert_array_equal(log.rewards.reshape(-1, 4), paid)


@pytest.mark.parametrize("noise", [real_kinds.Normal(2.0), real_kinds.LogNormal(1.0), real_kinds.Pareto(3.0)])
def test_noise_keeps_the_mean(noise) -> None:
    cell = real_kinds.heavy_tails("tails", 5, 2, 4, noise, seed=5, episodes=20_000)
    returns = np.add.reduceat(cell.sample(1).rewards, 4 * np.arange(20_000))
    assert abs(returns.mean() - cell.values[1]) < 5 * returns.std() / np.sqrt(20_000)
    plain = StudyProblem("plain", cell.problem, 20_000).sample(1)
    assert returns.std() > 1.2 * np.add.reduceat(plain.rewards, plain.offsets[:-1]).std()


def test_hardly_a_pair_is_seen_twice() -> None:
    for steps in (1, 2):
        cell = real_kinds.seen_once("once", 200, 10, steps, seed=6, episodes=400)
        log = cell.sample(0)
        assert set(log.lengths) == {steps}
        counts = np.bincount(log.states * 10 + log.actions)
        assert np.median(counts[counts > 0]) == 1
        assert cell.values == tuple(
            policy_value(cell.problem.mdp, policy) for policy in (cell.problem.pi_e, cell.problem.pi_b)
        )


def test_neighbours_share_a_shift_and_the_mean_stays() -> None:
    cell = real_kinds.unsaid_clusters("clusters", seed=7, episodes=20 * 200)
    log = cell.sample(3)
    means = np.add.reduceat(log.rewards, log.offsets[:-1]).reshape(-1, 20).mean(axis=1)
    assert abs(means.mean() - cell.values[1]) < 5 * means.std() / np.sqrt(200)
    assert means.std() == pytest.approx(3.0, rel=0.2)  # without a shift: the spread of one return / sqrt(20)


def test_the_old_policy_saw_what_is_hidden() -> None:
    cell = real_kinds.Confounded(real_kinds.severity("severity", 2, horizon=3, seed=8, episodes=20_000))
    assert cell.pi_b is None
    log = cell.sample(1)
    assert log.n_states == 2
    # Both chances of each action are logged in each state.
    assert sorted(set(np.round(log.propensities, 6))) == [0.2, 0.3, 0.7, 0.8]
    new = cell.pi_e.probs[log.states, log.actions] / log.propensities
    scores = new.reshape(-1, 3).prod(axis=1) * log.rewards.reshape(-1, 3).sum(axis=1)
    assert abs(scores.mean() - cell.values[0]) < 5 * scores.std() / np.sqrt(20_000)
    assert abs(log.rewards.reshape(-1, 3).sum(axis=1).mean() - cell.values[1]) < 0.05


def test_two_weeks_with_two_old_policies() -> None:
    cell = real_kinds.Confounded(real_kinds.two_weeks(20_000), said=True)
    assert cell.values == pytest.approx((0.9 * 0.45 + 0.1 * 0.5, (0.195 + 0.755) / 2))
    log = cell.sample(2)
    assert log.n_states == 1
    for week, share in ((0, 0.1), (1, 0.9)):
        mine = log.behaviour_ids == week
        assert cell.pi_b[week].probs[0, 1] == pytest.approx(share)
        assert abs(log.actions[mine].mean() - share) < 5 * np.sqrt(0.09 / mine.sum())
        assert abs(log.rewards[mine & (log.actions == 1)].mean() - (0.15 + 0.6 * week)) < 0.05


@pytest.mark.parametrize("signs", [False, True])
def test_features_that_matter_together(signs: bool) -> None:
    cell = real_kinds.InFeatures("together", 2, (-1.5, -0.5, 0.5, 1.5), 2, 50, signs=signs)
    problem = cell.problem
    errors = problem.true_value_error, problem.behaviour_value_error
    for exact, simulated, error in zip(
        cell.values, (problem.true_value, problem.behaviour_value), errors, strict=True
    ):
        assert abs(exact - simulated) < 5 * error
    log = cell.sample(0)
    assert log.features.shape == (100, 3)
    assert cell.values[0] > cell.values[1] + 0.3
    # By themselves neither of the two features says which action pays.
    product_ = np.sign(log.features[:, 0] * log.features[:, 1])
    good = (product_ > 0) == (log.actions == 1)
    assert log.rewards[good].mean() > log.rewards[~good].mean() + 0.5


def test_cells_are_of_all_kinds_and_many_of_them_fresh() -> None:
    cells = real_kinds.real_cells()
    names = [(cell.task.name, cell.task.episodes) for cell in cells]
    assert len(set(names)) == len(names)
    for kind in {cell.kind for cell in cells}:
        known = {True} if kind == "exception" else {True, False}
        assert {cell.tuned for cell in cells if cell.kind == kind} == known
    fresh = [cell for cell in cells if not cell.tuned]
    assert 0.35 < len(fresh) / len(cells) < 0.6
