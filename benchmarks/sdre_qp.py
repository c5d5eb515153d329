"""Paired timing of SDRE's programme against quadprog, 2,000 states: `python benchmarks/sdre_qp.py [rounds]`.

quadprog runs on the dense Gram matrix right before and right after each solve; only its own solve is timed.
Both sides use one thread, as quadprog always does, unless OPENBLAS_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import quadprog
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from deadweight.estimators.density_ratio import kkt_residual, solve_simplex_qp

STATES, ACTIONS, SUCCESSORS, RIDGE = 2000, 6, 3, 1e-3
# name: episodes, steps, share of actions that pi_e rules out, successors nearby only
LOGS = {
    "long": (200, 500, 0.0, False),
    "very long": (500, 1000, 0.0, False),
    "short": (150, 60, 0.0, False),
    "zero ratios": (100, 100, 0.6, False),
    "near, bounds": (200, 200, 0.0, True),
    "near, many bounds": (200, 500, 0.7, True),
}


def log_matrix(episodes: int, steps: int, ruled_out: float, near: bool) -> csr_array:
    """M of one random log over its visited states."""
    rng = np.random.default_rng(3)
    low, high = (-20, 21) if near else (0, STATES)
    reach = rng.integers(low, high, (STATES, ACTIONS, SUCCESSORS))
    successors = (np.arange(STATES)[:, None, None] + reach) % STATES
    pi_e = rng.dirichlet(np.ones(ACTIONS), STATES) * (rng.random((STATES, ACTIONS)) >= ruled_out) + 1e-300
    pi_e /= pi_e.sum(axis=1, keepdims=True)
    pi_b = 0.9 * rng.dirichlet(np.ones(ACTIONS), STATES) + 0.1 / ACTIONS
    s = rng.integers(0, STATES, episodes)
    rows, columns, ratios = [], [], []
    for t in range(steps):
        a = np.minimum((rng.random((episodes, 1)) > pi_b[s].cumsum(axis=1)).sum(axis=1), ACTIONS - 1)
        s_next = successors[s, a, rng.integers(0, SUCCESSORS, episodes)] if t < steps - 1 else s
        rows.append(s)
        columns.append(s_next)
        ratios.append(pi_e[s, a] / pi_b[s, a])
        s = s_next
    s, s_next, rho = (np.concatenate(parts) for parts in (rows, columns, ratios))
    where = np.concatenate([s, s_next]), np.concatenate([s_next, s_next])
    G = csr_array((np.concatenate([rho, -np.ones(s.size)]), where), shape=(STATES, STATES))
    visits = np.bincount(s, minlength=STATES)
    seen = np.flatnonzero(visits)
    return csr_array(diags_array(s.size / visits[seen] / 50) @ G[seen][:, seen])


def quadprog_seconds(M: csr_array) -> tuple[float, NDArray[np.float64]]:
    """Time and solution of quadprog; the matrices are made outside the clock."""
    n = M.shape[0]
    gram = (M @ M.T).toarray() + RIDGE * np.eye(n)
    bounds, right = np.column_stack([np.ones(n), np.eye(n)]), np.eye(n + 1)[0]
    start = time.perf_counter()
    x = quadprog.solve_qp(gram, np.zeros(n), bounds, right, 1)[0]
    return time.perf_counter() - start, x


def main(rounds: int) -> None:
    """One line a log: size, active bounds, errors, and the ratio of times."""
    head = f"{'log':18} {'states':>6} {'active':>6} {'KKT':>8} {'residual':>8} {'max |dx|':>8}"
    print(f"{head}  quadprog / ours: median [quartiles]")
    for name, options in LOGS.items():
        M = log_matrix(*options)
        solve_simplex_qp(M)
        ratios = []
        before, x = quadprog_seconds(M)
        for _ in range(rounds):
            start = time.perf_counter()
            solution = solve_simplex_qp(M, RIDGE)
            ours = time.perf_counter() - start
            after, x = quadprog_seconds(M)
            ratios.append((before + after) / 2 / ours)
            before = after
        kkt = kkt_residual(M, solution.x, solution.multiplier, RIDGE)
        low, median, high = np.percentile(ratios, [25, 50, 75])
        print(
            f"{name:18} {M.shape[0]:6} {np.sum(~solution.free):6} {kkt:8.1e} {solution.residual:8.1e} "
            f"{abs(solution.x - x).max():8.1e}  {median:.1f} [{low:.1f}, {high:.1f}]",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
