"""Counts under weights are the counts of a log in which episodes are repeated, or left out."""

from __future__ import annotations

import numpy as np
import pytest
from verbs.small import PI_B, log

import deadweight as dw
from deadweight.log.interface import InMemory, in_memory
from deadweight.mdp.tabular import q_values
from deadweight.values.model import Counts, count, mdp_from_counts
from deadweight.verbs.recipe import Horizon, Models, count_weighted


def same(ours: Counts, theirs: Counts) -> None:
    for name in ("transitions", "pairs", "starts"):
        a, b = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_array_equal(a.keys, b.keys)
        np.testing.assert_allclose(a.sums, b.sums, rtol=1e-12)


def test_whole_weights_repeat_episodes() -> None:
    found = log(40, horizon=4)
    times = np.random.default_rng(3).integers(0, 3, size=(2, 40))
    counts = count_weighted(in_memory(found), times.astype(float), (2, 2))
    for column, number in enumerate(times):
        repeated = found.select(np.repeat(np.arange(40), number))
        same(counts.of(column), count([repeated], 2, 2))


def test_parts_and_workers_change_nothing() -> None:
    found = log(60, horizon=5)
    weights = np.random.default_rng(4).exponential(size=(3, 60))
    whole = count_weighted(in_memory(found), weights, (2, 2))
    parts = count_weighted(InMemory(found.split(4)), weights, (2, 2), workers=2)
    for column in range(3):
        same(parts.of(column), whole.of(column))


@pytest.mark.parametrize("horizon", [Horizon(5, False, 0.9), Horizon(5, True, 1.0)])
def test_stacked_models_are_solved_as_each_alone(horizon: Horizon) -> None:
    found = log(80, horizon=None if horizon.settles else 5)
    weights = np.random.default_rng(5).exponential(size=(3, 80))
    counts = count_weighted(in_memory(found), weights, (2, 2))
    together = Models(mdp_from_counts(counts.stacked(range(3)), 5), 3, horizon).mean_values(PI_B, PI_B)
    for column in range(3):
        alone = Models(mdp_from_counts(counts.of(column), 5), 1, horizon).mean_values(PI_B, PI_B)
        np.testing.assert_allclose(together[column], alone[0], rtol=1e-9, atol=1e-11)


def test_values_are_averaged_over_the_steps_at_which_a_state_is_visited() -> None:
    """Against plain loops."""
    found, horizon, gamma = log(50, horizon=4), 4, 0.8
    model = mdp_from_counts(count([found], 2, 2), horizon)
    ours = Models(model, 1, Horizon(horizon, False, gamma)).mean_values(PI_B, PI_B)
    q = q_values(model, PI_B, horizon, gamma)
    dense = model.P.toarray().reshape(2, 2, 3)
    d, total, weight = model.d0.copy(), np.zeros((2, 2)), np.zeros(2)
    for t in range(horizon):
        for s in range(2):
            weight[s] += gamma**t * d[s]
            total[s] += gamma**t * d[s] * q[t, s]
        d = sum(d[s] * PI_B[s, a] * dense[s, a, :2] for s in range(2) for a in range(2))
    np.testing.assert_allclose(ours[0], total / weight[:, None], rtol=1e-12)


def test_an_unseen_action_borrows_from_its_state_whatever_the_weights() -> None:
    """A single visit of weight 0.1 teaches the same as one of weight 1."""
    found = dw.Trajectories.from_episodes([[(0, 0, 2.0)], [(1, 1, 3.0)]])
    counts = count_weighted(in_memory(found), np.array([[0.1, 0.1]]), (2, 2))
    np.testing.assert_allclose(mdp_from_counts(counts.of(0), 1).r, dw.fit_mdp(found).r)
