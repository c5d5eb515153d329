"""Doubly robust evaluation (Jiang & Li 2016; Thomas & Brunskill 2016) and its state-based form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .log import Array, Drop, Log, Policy, Rows, cumulative, dropped_steps, ratios
from .model import Unseen, fitted_q
from .products import Finished, normalised


def doubly_robust(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop = None,
    gamma: float = 1,
    weighted: bool = False,
    drop_first: bool = True,
    unseen: Unseen = "pool",
    q: Array | Sequence[Array] | None = None,
    finished: Finished = "absorb",
) -> float:
    """sum_i sum_t gamma^t [w_it (r_it - Q_t(s, a)) + w_i,t-1 V_t(s)], w_i,-1 = 1/n.

    `q` is one Q (T, S, A), or one an episode (models fitted on other folds); by default that of the fitted
    model. w_i,t-1 is the very weight of step t-1, normaliser included, so that an exact model of a
    deterministic task telescopes to V_0 under every `finished`. `drop_first=False` keeps the ratio of every
    first step.
    """
    weights = dr_weights(log, pi_e, pi_b, drop, drop_first)
    tables = per_episode(log, fitted_q(log, pi_e, gamma, unseen) if q is None else q)
    before = [1 / log.n] * log.n
    estimate = 0.0
    for t in range(log.horizon):
        now = normalised(log, weights, t, weighted, finished)
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s, a, r = episode[t]
                estimate += gamma**t * (
                    now[i] * (r - tables[i][t, s, a]) + before[i] * value(tables[i], pi_e, t, s)
                )
        before = now
    return estimate


def summed_weights(log: Log, pi_e: Policy, pi_b: Policy) -> Rows:
    """1 + sum_{u<=t} (rho_u - 1) for t = 0..T-1: after its end an episode keeps its last weight."""
    rows = []
    for row in ratios(log, pi_e, pi_b):
        weights = [1 + sum(rho - 1 for rho in row[: t + 1]) for t in range(len(row))]
        rows.append(weights + [weights[-1]] * (log.horizon - len(weights)))
    return rows


def linear(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    gamma: float = 1,
    unseen: Unseen = "pool",
    q: Array | Sequence[Array] | None = None,
) -> float:
    """DM's mean + sum_i sum_t gamma^t (1 + sum_{u<=t} (rho_u - 1)) delta_it / n, the end of a log worth 0."""
    tables, rho = (
        per_episode(log, fitted_q(log, pi_e, gamma, unseen) if q is None else q),
        ratios(log, pi_e, pi_b),
    )
    estimate = 0.0
    for i, episode in enumerate(log.episodes):
        weight = 1.0
        estimate += value(tables[i], pi_e, 0, episode[0][0]) / log.n
        for t, (s, a, r) in enumerate(episode):
            weight += rho[i][t] - 1
            after = value(tables[i], pi_e, t + 1, episode[t + 1][0]) if t + 1 < len(episode) else 0.0
            estimate += gamma**t * weight * (r + gamma * after - tables[i][t, s, a]) / log.n
    return estimate


def dr_weights(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop, drop_first: bool) -> Rows:
    """W_it, with the ratio of step 0 kept when `drop_first` is False."""
    flags = dropped_steps(log, drop)
    if not drop_first:
        flags = [[False, *row[1:]] for row in flags]
    return cumulative(log, pi_e, pi_b, flags)


def per_episode(log: Log, q: Array | Sequence[Array]) -> Sequence[Array]:
    """One Q table an episode."""
    return [q] * log.n if isinstance(q, np.ndarray) else q


def value(q: Array, pi_e: Policy, t: int, s: int) -> float:
    """V_t(s) = sum_a pi_e(a|s) Q_t(s, a)."""
    return float(sum(pi_e[s][a] * q[t, s, a] for a in range(q.shape[2])))
