"""TabularMDP and its dynamic programme: exact values by hand, all input forms, each refusal."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse

from deadweight.errors import MDPError, OptionError, PolicyError
from deadweight.mdp.tabular import TabularMDP, backward, gaps, policy_value, q_values


def random_mdp(
    seed: int, S: int = 5, A: int = 3, per_transition: bool = True
) -> tuple[TabularMDP, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(S + 1, 0.4), size=(S, A))
    R = rng.normal(size=P.shape if per_transition else (S, A))
    return TabularMDP(P, R, rng.dirichlet(np.ones(S))), rng.dirichlet(np.ones(A), S)


def dense(mdp: TabularMDP) -> np.ndarray:
    return mdp.P.toarray().reshape(mdp.n_states, mdp.n_actions, -1)


def two_step_chain() -> TabularMDP:
    # State 0: action 0 ends and pays 3, action 1 goes to state 1 and pays 1. State 1 ends: pays 5 or 7.
    P = np.zeros((2, 2, 3))
    P[0, 0, 2] = P[0, 1, 1] = P[1, :, 2] = 1.0
    return TabularMDP(P, [[3.0, 1.0], [5.0, 7.0]], [1.0, 0.0])


def test_values_by_hand():
    mdp, pi = two_step_chain(), np.array([[0.25, 0.75], [0.5, 0.5]])
    assert policy_value(mdp, pi) == pytest.approx(0.25 * 3 + 0.75 * (1 + 6))
    assert policy_value(mdp, pi, gamma=0.5) == pytest.approx(0.25 * 3 + 0.75 * (1 + 3))
    assert policy_value(mdp, pi, horizon=1) == pytest.approx(0.25 * 3 + 0.75)
    q = q_values(mdp, pi, 2)
    np.testing.assert_allclose(q, [[[3, 7], [5, 7]], [[3, 1], [5, 7]]])
    np.testing.assert_allclose(gaps(mdp, pi, 2), [4, 2])
    np.testing.assert_allclose(gaps(mdp, pi, 1), [2, 2])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_recursion_equals_dense_loops(seed, gamma):
    mdp, pi = random_mdp(seed)
    P, v, H = dense(mdp), np.zeros(6), 7
    expected = np.empty((H, 5, 3))
    for t in reversed(range(H)):
        expected[t] = mdp.r + gamma * P @ v
        v = np.append((pi * expected[t]).sum(axis=1), 0.0)
    np.testing.assert_allclose(q_values(mdp, pi, H, gamma), expected, rtol=1e-13)
    np.testing.assert_allclose(gaps(mdp, pi, H, gamma), np.ptp(expected, axis=2).max(axis=0), rtol=1e-13)
    assert policy_value(mdp, pi, H, gamma) == pytest.approx(mdp.d0 @ v[:-1], rel=1e-13)
    for t, q_t, v_t in backward(mdp, pi, H, gamma):
        np.testing.assert_allclose(v_t, (pi * expected[t]).sum(axis=1), rtol=1e-12)
        assert q_t.shape == (5, 3)


def test_value_until_termination_is_the_limit_of_finite_horizons():
    mdp, pi = random_mdp(4)
    assert policy_value(mdp, pi) == pytest.approx(policy_value(mdp, pi, 3000), rel=1e-11)


def test_own_horizon_is_the_default():
    P, R = np.ones((1, 1, 1)), np.ones((1, 1))
    assert policy_value(TabularMDP(P, R, [1.0], horizon=7), [[1.0]]) == 7.0
    assert policy_value(TabularMDP(P, R, [1.0], horizon=7), [[1.0]], horizon=3) == 3.0


def test_equal_rows_are_multiplied_once_and_change_nothing():
    rng = np.random.default_rng(0)
    few = rng.dirichlet(np.full(41, 0.1), size=7)
    which = rng.integers(7, size=(40, 3))
    R = rng.normal(size=(40, 3))
    mdp, pi = TabularMDP(few[which], R, np.full(40, 1 / 40)), rng.dirichlet(np.ones(3), 40)
    rows, index = mdp._distinct
    assert rows.shape[0] == 7
    assert index is not None
    v, q = np.zeros(41), R
    for _ in range(4):
        q = R + few[which] @ v
        v[:-1] = (pi * q).sum(axis=1)
    np.testing.assert_allclose(q_values(mdp, pi, 4)[0], q, rtol=1e-13)


def test_gaps_stop_early_only_when_nothing_changes():
    mdp, pi = random_mdp(2)
    np.testing.assert_array_equal(gaps(mdp, pi, 20_000), gaps(mdp, pi, 2_000))


def test_all_forms_of_p_and_r_agree():
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(5), size=(4, 2))
    R = rng.normal(size=P.shape)
    full = TabularMDP(P, R, np.full(4, 0.25))
    flat = sparse.csc_matrix(P.reshape(8, 5))
    for same in (
        TabularMDP(flat, R, np.full(4, 0.25)),
        TabularMDP(flat, sparse.csr_array(R.reshape(8, 5)), np.full(4, 0.25)),
        TabularMDP(P[:, :, :4], R, np.full(4, 0.25)),
    ):
        np.testing.assert_allclose(same.P.toarray(), full.P.toarray(), atol=1e-15)
        np.testing.assert_allclose(same.r, (P * R).sum(axis=2), rtol=1e-13)
        np.testing.assert_allclose(same.transition_rewards, R.ravel())
    unpaid = TabularMDP(P[:, :, :4], R[:, :, :4], np.full(4, 0.25))
    np.testing.assert_allclose(unpaid.r, (P * R)[:, :, :4].sum(axis=2))  # termination pays nothing
    assert TabularMDP(P, R[:, :, 0], np.full(4, 0.25)).transition_rewards is None


def test_missing_mass_of_a_rounded_row_is_not_termination():
    P = np.full((1, 3, 1), 1.0) * np.array([0.1 * 3 + 0.7, 1.0, 1 - 1e-15])[None, :, None]
    assert TabularMDP(P, np.zeros((1, 3)), [1.0]).P.toarray()[:, 1].tolist() == [0.0, 0.0, 0.0]


def test_it_cannot_be_changed():
    mdp, _ = random_mdp(0)
    with pytest.raises(AttributeError, match="cannot be changed"):
        mdp.horizon = 3
    with pytest.raises(ValueError, match="read-only"):
        mdp.r[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        mdp.P.data[0] = 1.0


def test_the_users_arrays_stay_theirs():
    P = sparse.csr_array(np.array([[0.5, 0.5], [0.0, 1.0]]))
    R, d0 = np.zeros((1, 2)), np.ones(1)
    mdp = TabularMDP(P, R, d0)
    P.data[0], R[0, 0], d0[0] = 0.4, 1.0, 0.9  # still writable, and no longer looked at
    assert (mdp.P.data[0], mdp.r[0, 0], mdp.d0[0]) == (0.5, 0.0, 1.0)


GOOD = np.array([[[0.5, 0.5], [0.0, 1.0]]])  # one state, two actions


@pytest.mark.parametrize(
    ("P", "R", "d0", "message"),
    [
        ([[[-0.5, 1.5], [0, 1]]], [[0, 0]], [1], "entry -0.5 at state 0, action 0, next state 0"),
        ([[[np.nan, 1], [0, 1]]], [[0, 0]], [1], "entry nan"),
        ([[[0.5, 0.6], [0, 1]]], [[0, 0]], [1], "state 0, action 0 sums to 1.1"),
        ([[[0.5, 0.5], [0, 0.9]]], [[0, 0]], [1], "state 0, action 1 sums to 0.9"),
        ([[[1.2], [0]]], [[0, 0]], [1], "sums to 1.2; it must be at most 1"),
        (sparse.csr_array([[0.5, 0.6], [0, 1]]), [[0, 0]], [1], "sums to 1.1"),
        (sparse.csr_array([[-0.5, 1.5], [0, 1]]), [[0, 0]], [1], "entry -0.5"),
        (sparse.csr_array(np.ones((3, 3))), [[0, 0]], [1], "(S*A, S+1)"),
        (np.ones((2, 2)), [[0, 0]], [1], "P needs shape"),
        (np.ones((2, 2, 5)), [[0, 0]], [1], "P needs shape"),
        (GOOD, [[0.0]], [1], "R needs shape (1, 2)"),
        (GOOD, [[np.nan, 0.0]], [1], "NaN"),
        (GOOD, sparse.csr_array((4, 4)), [1], "A sparse R needs"),
        (GOOD, [[0, 0]], [0.5, 0.5], "d0 needs shape (1,)"),
        (GOOD, [[0, 0]], [0.9], "d0 is not a distribution"),
    ],
)
def test_bad_arrays_are_refused(P, R, d0, message):
    with pytest.raises(MDPError, match=re.escape(message)):
        TabularMDP(P, R, d0)


def test_a_value_that_does_not_exist_names_the_state():
    # 0 -> 1 or 2; 1 ends, 2 stays for ever; nobody reaches 3, which stays for ever too.
    P = np.zeros((4, 1, 5))
    P[0, 0, [1, 2]] = 0.5
    P[1, 0, 4] = P[2, 0, 2] = P[3, 0, 3] = 1.0
    mdp, pi = TabularMDP(P, np.ones((4, 1)), [1.0, 0, 0, 0]), np.ones((4, 1))
    with pytest.raises(MDPError, match="reaches state 2"):
        policy_value(mdp, pi)
    assert policy_value(mdp, pi, gamma=0.5) == pytest.approx(1 + 0.5 * (0.5 + 0.5 * 2))
    assert policy_value(TabularMDP(P, np.ones((4, 1)), [0, 1.0, 0, 0]), pi) == 1.0


def test_bad_policies_and_options_are_refused():
    mdp, pi = random_mdp(0)
    with pytest.raises(PolicyError, match=re.escape("shape (5, 2); this MDP needs (5, 3)")):
        policy_value(mdp, pi[:, :2])
    with pytest.raises(PolicyError, match="state 1 is not a distribution"):
        policy_value(mdp, pi * np.array([1, 2, 1, 1, 1])[:, None])
    with pytest.raises(OptionError, match="horizon"):
        q_values(mdp, pi, 0)
    with pytest.raises(OptionError, match="gamma"):
        gaps(mdp, pi, 3, gamma=1.5)
    with pytest.raises(OptionError, match="horizon"):
        TabularMDP(GOOD, [[0, 0]], [1], horizon=-1)
