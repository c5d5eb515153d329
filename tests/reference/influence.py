"""Standard errors from per-episode influence values, with the model's Q taken as given.

Every product estimator is a sum of slots c * (sum_i w_i y_i) / norm, with norm = n or sum_i w_i. Episode i
moves a slot by c w_i y_i in the first case (its own term) and by c n w_i (y_i - y) / sum_j w_j in the second,
y being the slot's weighted mean. The standard error is the deviation (ddof 1) of an episode's total over the
slots, divided by sqrt(n). Ended episodes are absorbed: they stay in the slots with their last weight and y =
0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from .corrected import advantage
from .log import Array, Drop, Log, Policy, cumulative, dropped_steps, ratio, returns
from .model import Unseen, fitted_q
from .robust import dr_weights, per_episode, value

Slot = tuple[float, list[float], list[float]]  # c, w_i, y_i


def std_error(slots: Sequence[Slot], weighted: bool) -> float:
    """Deviation of the influence values over sqrt(n)."""
    n = len(slots[0][1])
    psi = [0.0] * n
    for c, w, y in slots:
        total = sum(w)
        mean = ratio(sum(u * v for u, v in zip(w, y, strict=True)), total)
        for i in range(n):
            psi[i] += c * n * ratio(w[i] * (y[i] - mean), total) if weighted else c * w[i] * y[i]
    centre = sum(psi) / n
    return sqrt(sum((p - centre) ** 2 for p in psi) / (n - 1) / n)


def is_slots(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None, gamma: float = 1) -> list[Slot]:
    """One slot: the whole weight and the return."""
    return [(1.0, [row[-1] for row in cumulative(log, pi_e, pi_b, drop)], returns(log, gamma))]


def per_decision_slots(
    log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None, gamma: float = 1
) -> list[Slot]:
    """One slot a step: W_t and r_t."""
    weights = cumulative(log, pi_e, pi_b, drop)
    return [
        (gamma**t, [row[t] for row in weights], [e[t][2] if t < len(e) else 0.0 for e in log.episodes])
        for t in range(log.horizon)
    ]


def doubly_robust_slots(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop = None,
    gamma: float = 1,
    drop_first: bool = True,
    unseen: Unseen = "pool",
    q: Array | Sequence[Array] | None = None,
) -> list[Slot]:
    """Two slots a step: W_t and r_t - Q_t; W_{t-1} and V_t."""
    weights = dr_weights(log, pi_e, pi_b, drop, drop_first)
    tables = per_episode(log, fitted_q(log, pi_e, gamma, unseen) if q is None else q)
    slots: list[Slot] = []
    for t in range(log.horizon):
        surprise, baseline = [0.0] * log.n, [0.0] * log.n
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s, a, r = episode[t]
                surprise[i] = r - float(tables[i][t, s, a])
                baseline[i] = value(tables[i], pi_e, t, s)
        slots.append((gamma**t, [row[t] for row in weights], surprise))
        slots.append((gamma**t, [row[t - 1] if t else 1.0 for row in weights], baseline))
    return slots


def correction_slots(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop,
    gamma: float = 1,
    unseen: Unseen = "pool",
    q: Array | None = None,
) -> list[Slot]:
    """One slot a step: W_{t-1} and delta_t on dropped steps. Added to those of the base estimator."""
    weights, flags = cumulative(log, pi_e, pi_b, drop), dropped_steps(log, drop)
    tables = per_episode(log, fitted_q(log, pi_e, gamma, unseen) if q is None else q)
    slots: list[Slot] = []
    for t in range(log.horizon):
        y = [
            advantage(tables[i], pi_e, pi_b, t, episode[t][0]) if t < len(episode) and flags[i][t] else 0.0
            for i, episode in enumerate(log.episodes)
        ]
        slots.append((gamma**t, [row[t - 1] if t else 1.0 for row in weights], y))
    return slots
