"""What dropping does to the estimand, and the estimators that add it back."""

from __future__ import annotations

from .log import Array, Drop, Log, Policy, cumulative, dropped_steps
from .model import Unseen, fitted_q
from .products import Finished, is_, normalised, per_decision
from .robust import per_episode


def missing_advantage(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop,
    gamma: float = 1,
    weighted: bool = False,
    unseen: Unseen = "pool",
    q: Array | None = None,
    finished: Finished = "absorb",
) -> float:
    """m = sum_t gamma^t sum_i w_i,t-1 1[dropped] delta_t(s_it), the negative of the estimated bias.

    delta_t(s) = sum_a (pi_e - pi_b)(a|s) Q_t(s, a), with Q of the model fitted under pi_e; w_i,t-1 = W_i,t-1
    / n, or self-normalised over the episodes at each t. Under "leave" and "survivors" those are the episodes
    that have a step t, as the sum does.
    """
    weights, flags = cumulative(log, pi_e, pi_b, drop), dropped_steps(log, drop)
    before = [[1.0, *row[:-1]] for row in weights]
    tables = per_episode(log, fitted_q(log, pi_e, gamma, unseen) if q is None else q)
    m = 0.0
    for t in range(log.horizon):
        w = normalised(log, before, t, weighted, finished)
        for i, episode in enumerate(log.episodes):
            if t < len(episode) and flags[i][t]:
                m += gamma**t * w[i] * advantage(tables[i], pi_e, pi_b, t, episode[t][0])
    return m


def advantage(q: Array, pi_e: Policy, pi_b: Policy, t: int, s: int) -> float:
    """delta_t(s) = sum_a (pi_e(a|s) - pi_b(a|s)) Q_t(s, a)."""
    return float(sum((pi_e[s][a] - pi_b[s][a]) * q[t, s, a] for a in range(q.shape[2])))


def corrected_is(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop,
    gamma: float = 1,
    weighted: bool = False,
    unseen: Unseen = "pool",
    q: Array | None = None,
) -> float:
    """C-SIS = SIS + m; weighted, C-WSIS = WSIS + the same sum with self-normalised weights."""
    m = missing_advantage(log, pi_e, pi_b, drop, gamma, weighted, unseen, q)
    return is_(log, pi_e, pi_b, drop, gamma, weighted) + m


def corrected_per_decision(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop,
    gamma: float = 1,
    weighted: bool = False,
    unseen: Unseen = "pool",
    q: Array | None = None,
    finished: Finished = "absorb",
) -> float:
    """C-SPDIS = SPDIS + m; weighted, C-WSPDIS = WSPDIS + the same sum with self-normalised weights."""
    m = missing_advantage(log, pi_e, pi_b, drop, gamma, weighted, unseen, q, finished)
    return per_decision(log, pi_e, pi_b, drop, gamma, weighted, finished) + m
