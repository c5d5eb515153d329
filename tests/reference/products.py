"""Trajectory-wise and per-decision importance sampling, the naive average, and Kish's sample size."""

from __future__ import annotations

from typing import Literal

from .log import Drop, Log, Policy, Rows, cumulative, ratio, returns

Finished = Literal["absorb", "leave", "survivors"]


def behaviour(log: Log, gamma: float = 1) -> float:
    """The mean return of the log."""
    return sum(returns(log, gamma)) / log.n


def episode_weights(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None) -> list[float]:
    """B_i: the product of the kept ratios of episode i."""
    return [row[-1] for row in cumulative(log, pi_e, pi_b, drop)]


def is_(
    log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None, gamma: float = 1, weighted: bool = False
) -> float:
    """(1/n) sum_i B_i G_i; weighted: sum_i B_i G_i / sum_i B_i."""
    weights = episode_weights(log, pi_e, pi_b, drop)
    total = sum(b * g for b, g in zip(weights, returns(log, gamma), strict=True))
    return ratio(total, sum(weights)) if weighted else total / log.n


def normalised(log: Log, weights: Rows, t: int, weighted: bool, finished: Finished) -> list[float]:
    """What multiplies the step-t value of each episode: W_it / n, or W_it over the normaliser of step t.

    "absorb" divides by the sum over all episodes, "leave" by the sum over those that have a step t,
    "survivors" by the same and multiplies by their share. Without self-normalisation the divisor is n.
    """
    if not weighted:
        return [row[t] / log.n for row in weights]
    members = [finished == "absorb" or len(episode) > t for episode in log.episodes]
    total = sum(row[t] for row, member in zip(weights, members, strict=True) if member)
    w = [ratio(row[t], total) if member else 0 for row, member in zip(weights, members, strict=True)]
    return [sum(members) * v / log.n for v in w] if finished == "survivors" else w


def per_decision(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop = None,
    gamma: float = 1,
    weighted: bool = False,
    finished: Finished = "absorb",
) -> float:
    """sum_t gamma^t sum_i w_it r_it, with w_it = W_it / n or W_it / sum_j W_jt."""
    weights = cumulative(log, pi_e, pi_b, drop)
    estimate: float = 0
    for t in range(log.horizon):
        w = normalised(log, weights, t, weighted, finished)
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                estimate += gamma**t * w[i] * episode[t][2]
    return estimate


def kish(weights: list[float]) -> float:
    """(sum w)^2 / sum w^2, or 0 when all weights are 0."""
    return ratio(sum(weights) ** 2, sum(w * w for w in weights))


def ess(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None) -> float:
    """Kish's effective sample size of the B_i."""
    return kish(episode_weights(log, pi_e, pi_b, drop))


def ess_steps(
    log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None, finished: Finished = "absorb"
) -> list[float]:
    """Kish's effective sample size of the W_it at each t, over the episodes in the normaliser of step t."""
    weights = cumulative(log, pi_e, pi_b, drop)
    rows = list(zip(weights, log.episodes, strict=True))
    return [
        kish([row[t] for row, episode in rows if finished == "absorb" or len(episode) > t])
        for t in range(log.horizon)
    ]
