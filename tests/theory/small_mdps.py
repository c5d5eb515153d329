"""Small random MDPs, and sums over all of their trajectories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deadweight.mdp.tabular import TabularMDP


def random_mdp(
    seed: int, S: int = 3, A: int = 2, ends: float = 0.2, transition_rewards: bool = True
) -> TabularMDP:
    """Every (s, a) may lead anywhere, and ends with about the given probability."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(S), size=(S, A)) * (1 - ends * rng.uniform(0.5, 1.5, size=(S, A, 1)))
    P = np.concatenate([P, 1 - P.sum(axis=2, keepdims=True)], axis=2)
    R = rng.normal(size=P.shape if transition_rewards else (S, A))
    return TabularMDP(P, R, rng.dirichlet(np.ones(S)))


def random_policy(seed: int, S: int = 3, A: int = 2) -> np.ndarray:
    return np.random.default_rng(1000 + seed).dirichlet(np.full(A, 2.0), S)


def trajectories(
    mdp: TabularMDP, pi: np.ndarray, horizon: int
) -> Iterator[tuple[float, list[tuple[int, int, float]]]]:
    """(probability, [(s, a, r), ...]) of every possible episode of pi, ragged, cut at the horizon."""
    S, A = pi.shape
    P = mdp.P.toarray().reshape(S, A, S + 1)
    R = np.zeros((S * A, S + 1))
    rows = np.repeat(np.arange(S * A), np.diff(mdp.P.indptr))
    R[rows, mdp.P.indices] = mdp.r.ravel()[rows] if mdp.transition_rewards is None else mdp.transition_rewards
    R = R.reshape(P.shape)

    def extend(s: int, probability: float, steps: list) -> Iterator[tuple[float, list]]:
        if s == S or len(steps) == horizon:
            yield probability, steps
            return
        for a in range(A):
            for s_next in range(S + 1):
                chance = probability * pi[s, a] * P[s, a, s_next]
                if chance > 0:
                    yield from extend(s_next, chance, [*steps, (s, a, R[s, a, s_next])])

    for s in range(S):
        if mdp.d0[s] > 0:
            yield from extend(s, mdp.d0[s], [])
