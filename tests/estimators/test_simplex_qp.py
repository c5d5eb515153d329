"""The simplex programme: by hand, against quadprog, against its own optimality conditions and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from deadweight.estimators import density_ratio as simplex_qp
from deadweight.estimators.density_ratio import (
    SimplexSolution,
    kkt_residual,
    solution_gradient,
    solve_simplex_qp,
)

quadprog = pytest.importorskip("quadprog")

Array = NDArray[np.float64]


def reference(M: Array, ridge: float) -> Array:
    """The same programme by quadprog's dual method on the dense Gram matrix."""
    n = len(M)
    gram = M @ M.T + ridge * np.eye(n)
    scale = gram.max()
    bounds = np.column_stack([np.ones(n), np.eye(n)])
    x: Array = quadprog.solve_qp(gram / scale, np.zeros(n), bounds, np.eye(n + 1)[0], 1)[0]
    return x


def log_matrix(rng: np.random.Generator, states: int, steps: int, spread: float = 1.0) -> tuple[Array, Array]:
    """M and f of a random log: transitions between random states with random ratios, some of them zero."""
    s = np.concatenate([np.arange(states), rng.integers(0, states, steps)])
    successor = rng.integers(0, states, s.size)
    rho = rng.gamma(1.0 / spread, spread, s.size) * (rng.random(s.size) > 0.2)
    f = np.bincount(s, minlength=states) / s.size
    G = np.zeros((states, states))
    np.add.at(G, (s, successor), rho)
    np.add.at(G, (successor, successor), -1.0)
    return G / f[:, None] / 50, f


def crowded_matrix(rng: np.random.Generator, n: int) -> Array:
    """All entries positive: the optimum sits on a small face, so that most bounds are active."""
    M: Array = rng.random((n, n)) * np.linspace(1, 3, n)[:, None]
    return M


def assert_optimal(solution: SimplexSolution, M: Array, ridge: float) -> None:
    assert solution.residual < 1e-9
    assert kkt_residual(csr_array(M), solution.x, solution.multiplier, ridge) < 1e-9
    assert np.array_equal(solution.free, solution.x > 0)
    objective = np.sum((M.T @ solution.x) ** 2) + ridge * np.sum(solution.x**2)
    assert solution.multiplier == pytest.approx(objective, rel=1e-9)


def test_no_transitions_gives_the_uniform_vector() -> None:
    solution = solve_simplex_qp(csr_array((7, 7)), 0.5)
    np.testing.assert_allclose(solution.x, 1 / 7, rtol=1e-14)
    assert solution.multiplier == pytest.approx(0.5 / 7, rel=1e-14)


def test_one_state() -> None:
    assert solve_simplex_qp(csr_array([[3.0]])).x == pytest.approx([1.0])


def test_two_states_by_hand() -> None:
    # H = diag(1 + 1, 4 + 1): x is proportional to (1/2, 1/5), and the minimum is 1 / (1/2 + 1/5).
    solution = solve_simplex_qp(csr_array([[1.0, 0.0], [0.0, 2.0]]), 1.0)
    np.testing.assert_allclose(solution.x, [5 / 7, 2 / 7], rtol=1e-14)
    assert solution.multiplier == pytest.approx(10 / 7, rel=1e-14)


def test_two_states_with_a_bound_by_hand() -> None:
    # Rows (1, 0) and (2, 0): H = [[1 + r, 2], [2, 4 + r]], so the second entry only hurts.
    solution = solve_simplex_qp(csr_array([[1.0, 0.0], [2.0, 0.0]]), 0.1)
    assert solution.x.tolist() == [1.0, 0.0]
    assert solution.free.tolist() == [True, False]
    assert solution.multiplier == pytest.approx(1.1, rel=1e-14)


def test_stationary_density_is_found() -> None:
    P = np.array([[0.9, 0.1], [0.3, 0.7]])
    x = solve_simplex_qp(csr_array(1e4 * (P - np.eye(2)))).x
    np.testing.assert_allclose(x, [0.75, 0.25], rtol=1e-10)


def test_two_recurrent_classes_are_shared_out_by_the_ridge() -> None:
    # Any mixture of the halves is stationary; the ridge takes the one of least norm, however long the log.
    P = np.kron(np.eye(2), np.full((2, 2), 0.5))
    for size in (1e2, 1e5, 1e7):
        x = solve_simplex_qp(csr_array(size * (P - np.eye(4)))).x
        np.testing.assert_allclose(x, 0.25, rtol=1e-9)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), states=st.integers(2, 20), steps=st.integers(0, 300))
def test_agrees_with_quadprog(seed: int, states: int, steps: int) -> None:
    M, f = log_matrix(np.random.default_rng(seed), states, steps)
    solution = solve_simplex_qp(csr_array(M))
    assert_optimal(solution, M, 1e-3)
    expected = reference(M, 1e-3)
    np.testing.assert_allclose(solution.x / f, expected / f, atol=1e-8 * np.max(expected / f))
    rewards = np.linspace(1.0, 2.0, states)
    assert rewards @ solution.x == pytest.approx(rewards @ expected, rel=1e-8)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), ridge=st.sampled_from([1e-3, 1e-1, 10.0]))
def test_dense_rows_with_many_bounds(seed: int, n: int, ridge: float) -> None:
    M = crowded_matrix(np.random.default_rng(seed), n)
    solution = solve_simplex_qp(csr_array(M), ridge)
    assert_optimal(solution, M, ridge)
    np.testing.assert_allclose(solution.x, reference(M, ridge), atol=1e-8)


@pytest.mark.parametrize(("states", "steps"), [(300, 300), (500, 200), (400, 3000)])
def test_sparse_elimination_with_bounds(states: int, steps: int) -> None:
    rng = np.random.default_rng(5)
    s = np.concatenate([np.arange(states), rng.integers(0, states, steps)])
    successor = (s + rng.integers(-4, 6, s.size)) % states
    rho = rng.gamma(0.3, 1 / 0.3, s.size)
    G = csr_array((np.r_[rho, -np.ones(s.size)], (np.r_[s, successor], np.r_[successor, successor])))
    M = G.toarray() / np.bincount(s)[:, None] * s.size / 50
    solution = solve_simplex_qp(csr_array(M))
    assert solution.system.factor.levels
    assert 0 < np.sum(~solution.free) < states
    assert_optimal(solution, M, 1e-3)
    np.testing.assert_allclose(solution.x, reference(M, 1e-3), atol=1e-8)


def test_scaling_M_and_ridge_together_changes_nothing() -> None:
    M, _ = log_matrix(np.random.default_rng(2), 30, 60)
    x = solve_simplex_qp(csr_array(M)).x
    np.testing.assert_allclose(solve_simplex_qp(csr_array(1e3 * M), 1e3).x, x, rtol=1e-9, atol=1e-15)


def test_states_can_be_renumbered() -> None:
    rng = np.random.default_rng(8)
    M, _ = log_matrix(rng, 60, 100, spread=4.0)
    order = rng.permutation(60)
    x = solve_simplex_qp(csr_array(M)).x
    np.testing.assert_allclose(solve_simplex_qp(csr_array(M[np.ix_(order, order)])).x, x[order], atol=1e-12)


def test_a_state_without_ratio_or_arrival_takes_all() -> None:
    # Its row is zero, so it balances any equation; the other rows are eight orders of magnitude larger.
    M = 1e4 * (np.eye(4) - np.full((4, 4), 0.5))
    M[0] = 0.0
    solution = solve_simplex_qp(csr_array(M))
    assert_optimal(solution, M, 1e-3)
    assert solution.x[0] == pytest.approx(1.0, abs=1e-6)


def test_pivoting_alone_reaches_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    M = csr_array(crowded_matrix(np.random.default_rng(3), 25))
    expected = solve_simplex_qp(M)
    assert np.sum(~expected.free) > 5
    monkeypatch.setattr(simplex_qp, "_free_entries", lambda system: np.arange(25) % 2 == 0)
    for patience in (0, 10):
        monkeypatch.setattr(simplex_qp, "PATIENCE", patience)
        np.testing.assert_allclose(solve_simplex_qp(M).x, expected.x, atol=1e-12)


def test_orthogonal_factor_gives_the_same_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    M, _ = log_matrix(np.random.default_rng(4), 50, 80)
    expected = solve_simplex_qp(csr_array(M)).x
    monkeypatch.setattr(simplex_qp, "SMALLEST_PIVOT", np.inf)
    np.testing.assert_allclose(solve_simplex_qp(csr_array(M)).x, expected, atol=1e-12)


def test_matrix_and_array_are_the_same_and_left_alone() -> None:
    M, _ = log_matrix(np.random.default_rng(6), 20, 40)
    given_matrix = csr_matrix(M)
    before = given_matrix.copy()
    np.testing.assert_array_equal(solve_simplex_qp(given_matrix).x, solve_simplex_qp(csr_array(M)).x)
    np.testing.assert_array_equal(before.toarray(), given_matrix.toarray())


@pytest.mark.parametrize("seed", range(6))
def test_gradient_matches_finite_differences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    M, _ = log_matrix(rng, 12, 40, spread=3.0)
    g, direction = rng.normal(size=12), rng.normal(size=(12, 12)) * (M != 0)
    solution = solve_simplex_qp(csr_array(M))
    y = solution_gradient(solution, g)
    exact = -(y @ direction @ (M.T @ solution.x) + solution.x @ direction @ (M.T @ y))
    h = 1e-6 * abs(M).max()
    above, below = (solve_simplex_qp(csr_array(M + e * direction)).x for e in (h, -h))
    assert exact == pytest.approx(g @ (above - below) / (2 * h), rel=1e-4, abs=1e-9)


def test_gradient_with_respect_to_the_ridge_and_of_many_functions() -> None:
    M, _ = log_matrix(np.random.default_rng(9), 15, 30, spread=3.0)
    solution = solve_simplex_qp(csr_array(M))
    y = solution_gradient(solution, np.eye(15))
    np.testing.assert_allclose(y[:, 3], solution_gradient(solution, np.eye(15)[3]), atol=1e-12 * abs(y).max())
    assert np.all(y[~solution.free] == 0)
    above, below = (solve_simplex_qp(csr_array(M), 1e-3 + e).x for e in (1e-6, -1e-6))
    np.testing.assert_allclose(-y.T @ solution.x, (above - below) / 2e-6, atol=1e-5)
