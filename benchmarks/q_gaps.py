"""Q gaps against scipy products: paired timings of `gaps` and of plain loops of `P @ V`.

Each round times the reference, the candidate and the reference again; the ratio of a round is candidate over
the mean of its two references. Run: `python benchmarks/q_gaps.py`.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from deadweight_studies.benchmark.timing import ratio
from scipy import sparse

from deadweight.domains import taxi
from deadweight.mdp.tabular import TabularMDP, gaps


def random_sparse_mdp(n_states: int, n_actions: int, successors: int, seed: int = 0) -> TabularMDP:
    """Every (s, a) leads to `successors` random states and terminates one time in a thousand."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n_states * n_actions), successors)
    columns = rng.integers(n_states, size=rows.size)
    probs = rng.dirichlet(np.ones(successors), n_states * n_actions).ravel()
    moves = sparse.csr_array((0.999 * probs, (rows, columns)), shape=(n_states * n_actions, n_states))
    ends = sparse.csr_array(np.full((n_states * n_actions, 1), 0.001))
    P = sparse.hstack([moves, ends], format="csr")
    return TabularMDP(P, rng.normal(size=(n_states, n_actions)), np.full(n_states, 1 / n_states))


def recursion(mdp: TabularMDP, pi: np.ndarray, horizon: int) -> None:
    """The reference: nothing but Q = r + P @ V and V = sum_a pi Q, step by step."""
    v = np.zeros(mdp.n_states + 1)
    r = mdp.r.ravel()
    for _ in range(horizon):
        q = r + mdp.P @ v
        v[:-1] = (pi * q.reshape(pi.shape)).sum(axis=1)


def bare_products(mdp: TabularMDP, pi: np.ndarray, horizon: int) -> None:
    """What no recursion can do without: the products alone, always with the same V."""
    v = np.full(mdp.n_states + 1, 0.5)
    for _ in range(horizon):
        mdp.P @ v


def main(horizon: int = 1000) -> int:
    """Print quartiles of the ratios; the exit code is 1 when a median against the recursion is above 1.5."""
    cases = {f"{k} random successors": random_sparse_mdp(2000, 6, k) for k in (4, 16, 32)}
    cases["taxi"] = taxi(5, horizon).mdp
    pi = np.random.default_rng(1).dirichlet(np.ones(6), 2000)
    worst = 0.0
    for name, mdp in cases.items():
        for against, reference in (("recursion", recursion), ("bare products", bare_products)):
            measured = ratio(partial(gaps, mdp, pi, horizon), partial(reference, mdp, pi, horizon), rounds=5)
            print(f"{name:21s} against {against:14s} {measured}")
            worst = max(worst, measured.median if reference is recursion else 0.0)
    return int(worst > 1.5)


if __name__ == "__main__":
    sys.exit(main())
