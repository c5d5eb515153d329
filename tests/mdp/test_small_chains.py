"""Chains of few states as tables say what sparse ones say."""

from __future__ import annotations

import numpy as np
import pytest

from deadweight.mdp import tabular
from deadweight.mdp.tabular import (
    TabularMDP,
    average_actions,
    backward,
    chain_table,
    ending,
    ending_in,
    occupancies,
    reached,
    reached_in,
    state_values,
)


def model(seed, n_states=9, n_actions=3):
    """Few successors of each pair, so that chains have loops and dead ends."""
    rng = np.random.default_rng(seed)
    P = np.zeros((n_states, n_actions, n_states + 1))
    for row in P.reshape(-1, n_states + 1):
        row[rng.choice(n_states + 1, size=2, replace=False)] = rng.dirichlet([1.0, 1.0])
    for state in rng.choice(n_states, size=3, replace=False):
        P[state] = np.eye(n_states + 1)[state]
    pi = rng.dirichlet(np.ones(n_actions), n_states) * (rng.random((n_states, n_actions)) < 0.7)
    pi[:, 0] += 1.0 - pi.sum(axis=1)
    return TabularMDP(P, rng.normal(size=(n_states, n_actions)), np.eye(n_states)[rng.integers(n_states)]), pi


@pytest.mark.parametrize("seed", range(30))
def test_a_table_is_the_sparse_chain(seed):
    mdp, pi = model(seed)
    sparse, table = average_actions(mdp.P, pi), chain_table(mdp, pi)
    np.testing.assert_array_equal(table, sparse.toarray())
    np.testing.assert_array_equal(np.flatnonzero(reached_in(table, mdp.d0)), reached(sparse, mdp.d0))
    np.testing.assert_array_equal(ending_in(table), ending(sparse))


def test_some_of_these_chains_end_and_some_do_not():
    found = [ending_in(chain_table(*model(seed))) for seed in range(30)]
    assert any(one.any() and not one.all() for one in found)


@pytest.mark.parametrize("seed", range(5))
def test_a_table_makes_the_same_values_and_visits(seed, monkeypatch):
    mdp, pi = model(seed)
    values, visits = state_values(mdp, pi, 20, 0.9), occupancies(mdp, pi, 20)
    by_step = [v for _, _, v in backward(mdp, pi, 20, 0.9)][::-1]
    np.testing.assert_allclose(values, by_step, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(tabular, "DENSE", 0)
    large = TabularMDP(mdp.P, mdp.r, mdp.d0)
    np.testing.assert_allclose(occupancies(large, pi, 20), visits, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(state_values(large, pi, 20, 0.9), by_step)
