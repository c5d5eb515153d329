"""Estimates of a log whose episodes have multiplicities, for derivatives by them.

Every count and every sum takes episode i with weight omega_i, so that n is their sum. A central difference by
one omega_i, times n, is the full influence of that episode: through the sums and through the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .log import ENDS, UNKNOWN, Array, Drop, Log, Policy, Rows, cumulative, dropped_steps, ratio, returns
from .model import Unseen, q_values

Omega = Sequence[float]


def influence(estimate: Callable[[Omega], float], n: int, step: float = 1e-5) -> Array:
    """(n,) n times the derivative of the estimate by each episode's weight, at weights 1."""
    found = np.empty(n)
    for i in range(n):
        up, down = np.ones(n), np.ones(n)
        up[i] += step
        down[i] -= step
        found[i] = n * (estimate(up) - estimate(down)) / (2 * step)
    return found


def model(log: Log, pi_e: Policy, omega: Omega, unseen: Unseen = "pool") -> tuple[Array, Array, Array]:
    """P, r and d0 as in `model.fit_model`, each episode with its weight; "pool" and "terminate" only."""
    n_states, n_actions = len(pi_e), len(pi_e[0])
    moves = np.zeros((n_states, n_actions, n_states + 1))
    total, visits = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions))
    d0 = np.zeros(n_states)
    for i, episode in enumerate(log.episodes):
        d0[episode[0][0]] += omega[i] / sum(omega)
        for t, (s, a, r) in enumerate(episode):
            total[s, a] += omega[i] * r
            visits[s, a] += omega[i]
            after = log.successor(i, t)
            if after != UNKNOWN:
                moves[s, a, n_states if after == ENDS else after] += omega[i]
    P, reward = np.zeros_like(moves), np.zeros_like(total)
    for s in range(n_states):
        for a in range(n_actions):
            if visits[s, a] > 0:
                reward[s, a] = total[s, a] / visits[s, a]
            elif unseen == "pool" and visits[s].sum() > 0:
                reward[s, a] = total[s].sum() / visits[s].sum()
            if moves[s, a].sum() > 0:
                P[s, a] = moves[s, a] / moves[s, a].sum()
            elif unseen == "pool" and moves[s].sum() > 0:
                P[s, a] = moves[s].sum(axis=0) / moves[s].sum()
            else:
                P[s, a, n_states] = 1
    return P, reward, d0


def values(
    log: Log, pi_e: Policy, omega: Omega, gamma: float, unseen: Unseen = "pool", steps: int | None = None
) -> tuple[Array, Array]:
    """Q (T, S, A) and V (T, S) of that model, solved over `steps`, the log's longest episode by default."""
    P, r, _ = model(log, pi_e, omega, unseen)
    return q_values(P, r, pi_e, log.horizon if steps is None else steps, gamma)


def direct(
    log: Log, pi_e: Policy, omega: Omega, gamma: float, unseen: Unseen = "pool", steps: int | None = None
) -> float:
    """DM."""
    return float(model(log, pi_e, omega, unseen)[2] @ values(log, pi_e, omega, gamma, unseen, steps)[1][0])


def slot(omega: Omega, w: Sequence[float], y: Sequence[float], weighted: bool) -> float:
    """The weighted mean of y, or its mean with weights, of episodes with multiplicities."""
    top = sum(o * u * v for o, u, v in zip(omega, w, y, strict=True))
    if not weighted:
        return top / sum(omega)
    return ratio(top, sum(o * u for o, u in zip(omega, w, strict=True)))


def corrected(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop,
    omega: Omega,
    gamma: float,
    weighted: bool,
    whole: bool,
) -> float:
    """C-SIS and C-WSIS (`whole`), C-SPDIS and C-WSPDIS."""
    Q, _ = values(log, pi_e, omega, gamma)
    weights, flags = cumulative(log, pi_e, pi_b, drop), dropped_steps(log, drop)
    found = 0.0
    if whole:
        found = slot(omega, [row[-1] for row in weights], returns(log, gamma), weighted)
    for t in range(log.horizon):
        before = [row[t - 1] if t else 1.0 for row in weights]
        paid, lost = [0.0] * log.n, [0.0] * log.n
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s = episode[t][0]
                paid[i] = episode[t][2]
                if flags[i][t]:
                    lost[i] = sum((pi_e[s][a] - pi_b[s][a]) * Q[t, s, a] for a in range(Q.shape[2]))
        if not whole:
            found += gamma**t * slot(omega, [row[t] for row in weights], paid, weighted)
        found += gamma**t * slot(omega, before, lost, weighted)
    return found


def doubly_robust(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop,
    omega: Omega,
    gamma: float,
    weighted: bool,
    folds: int = 0,
    weights: Rows | None = None,
) -> float:
    """DR, WDR, DRSIS, WDRSIS; with `folds` each episode with the model of the episodes of other folds.

    `weights` after each step; None: the products of kept ratios.
    """
    weights = cumulative(log, pi_e, pi_b, drop) if weights is None else weights
    tables = [values(log, pi_e, omega, gamma)] * log.n
    if folds:
        without = [
            values(log, pi_e, [o if i % folds != k else 0.0 for i, o in enumerate(omega)], gamma)
            for k in range(folds)
        ]
        tables = [without[i % folds] for i in range(log.n)]
    found = 0.0
    for t in range(log.horizon):
        surprise, baseline = [0.0] * log.n, [0.0] * log.n
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s, a, r = episode[t]
                surprise[i], baseline[i] = r - tables[i][0][t, s, a], tables[i][1][t, s]
        before = [row[t - 1] if t else 1.0 for row in weights]
        found += gamma**t * slot(omega, [row[t] for row in weights], surprise, weighted)
        found += gamma**t * slot(omega, before, baseline, weighted)
    return found


def windowed(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    omega: Omega,
    gamma: float,
    window: int,
    state_ratios: Array,
    alive: Array,
) -> float:
    """Win_k with state ratios (T, S) and shares alive (T,) that do not move with the episodes' weights."""
    Q, V = values(log, pi_e, omega, gamma)
    ahead = np.concatenate([V, np.zeros((1, V.shape[1]))])
    found = direct(log, pi_e, omega, gamma)
    for t in range(log.horizon):
        w, y = [0.0] * log.n, [0.0] * log.n
        for i, episode in enumerate(log.episodes):
            if t >= len(episode):
                continue
            after = log.successor(i, t)
            if after == UNKNOWN and t + 1 < log.horizon:
                continue
            s, a, r = episode[t]
            w[i] = window_weight(episode, t, pi_e, pi_b, window, state_ratios)
            y[i] = r + (gamma * ahead[t + 1, after] if after >= 0 else 0.0) - Q[t, s, a]
        found += gamma**t * alive[t] * slot(omega, w, y, True)
    return found


def window_weight(
    episode: Sequence[tuple[int, int, float]],
    t: int,
    pi_e: Policy,
    pi_b: Policy,
    window: int,
    state_ratios: Array,
) -> float:
    """mu_b(s_b) rho_b ... rho_t with b = max(0, t - k + 1)."""
    begin = max(0, t - window + 1)
    weight = float(state_ratios[begin, episode[begin][0]])
    for s, a, _ in episode[begin : t + 1]:
        weight *= pi_e[s][a] / pi_b[s][a]
    return weight
