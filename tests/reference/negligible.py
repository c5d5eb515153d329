"""Which states may be dropped: the Q gap, the covariance test and the return test."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import fdtrc

from .log import Array, Log, Policy, dropped_steps, ratios, returns
from .model import Unseen, fitted_q
from .windows import covariance, spread

TIE = 1e-12


def q_gaps(q: Array) -> Array:
    """gap(s) = max_t (max_a Q_t(s, a) - min_a Q_t(s, a))."""
    return np.asarray((q.max(axis=2) - q.min(axis=2)).max(axis=0))


def q_gap_set(
    log: Log,
    pi_e: Policy,
    epsilon: float,
    pi_b: Policy | None = None,
    min_visits: int = 0,
    gamma: float = 1,
    unseen: Unseen = "pool",
    q: Array | None = None,
) -> set[int]:
    """States with gap < epsilon, strictly; a never-visited state is among them unless `min_visits` forbids.

    `min_visits=v`: only states where every action with |pi_e - pi_b| > 0.02 was seen at least v times.
    """
    gaps = q_gaps(fitted_q(log, pi_e, gamma, unseen) if q is None else q)
    chosen = {s for s in range(len(gaps)) if gaps[s] < epsilon}
    return chosen if pi_b is None else {s for s in chosen if may_drop(log, pi_e, pi_b, s, min_visits)}


def may_drop(log: Log, pi_e: Policy, pi_b: Policy, s: int, min_visits: int) -> bool:
    """Whether each action on which the policies differ at s was seen there often enough."""
    seen: defaultdict[int, int] = defaultdict(int)
    for episode in log.episodes:
        for state, a, _ in episode:
            seen[a] += state == s
    return all(seen[a] >= min_visits for a in range(len(pi_e[s])) if abs(pi_e[s][a] - pi_b[s][a]) > 0.02)


def covariance_test(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    epsilon: float = 0.01,
    epsilon_s: float = 0.01,
    max_size: int = 2,
    variance: Literal["estimator", "sample"] = "estimator",
    signed: bool = False,
    gamma: float = 1,
) -> set[int]:
    """Exhaustive search over sets of visited states, by size and then lexicographically.

    The search starts from the empty set, with MSE = Var(W G) / n (A = 1, so Cov = 0). A set is rejected if
    |Cov(A, X)| >= epsilon (`signed`: Cov >= epsilon); it is taken if its MSE = Var(X)/n + Cov^2 ("sample":
    Var(X) + Cov^2) is below that of the set held, or below (1 + epsilon_s) times it and the set is larger.
    The MSE held is always that of the set held, so it may rise. Var has ddof 0, Cov ddof 1. "Below" means by
    more than 1e-12 relative, so that equal sets of one size keep the first.

    Never-visited states are no candidates: dropping one changes nothing, and the rule for larger sets would
    take it.
    """
    rho, g = ratios(log, pi_e, pi_b), returns(log, gamma)
    visited = sorted({s for episode in log.episodes for s, _, _ in episode})

    def mse_and_bias(states: tuple[int, ...]) -> tuple[float, float]:
        a, x = [], []
        for i, flags in enumerate(dropped_steps(log, set(states))):
            out = inside = 1.0
            for factor, dropped in zip(rho[i], flags, strict=True):
                if dropped:
                    out *= factor
                else:
                    inside *= factor
            a.append(out)
            x.append(inside * g[i])
        bias = covariance(a, x)
        return spread(x) / (log.n if variance == "estimator" else 1) + bias**2, bias

    held: tuple[int, ...] = ()
    held_mse, _ = mse_and_bias(held)
    for size in range(1, max_size + 1):
        for states in combinations(visited, size):
            mse, bias = mse_and_bias(states)
            if (bias if signed else abs(bias)) >= epsilon:
                continue
            if mse < held_mse * (1 - TIE) or (mse < held_mse * (1 + epsilon_s) and size > len(held)):
                held, held_mse = states, mse
    return set(held)


def return_p_values(log: Log, gamma: float = 1) -> dict[int, float]:
    """p of the one-way ANOVA of return-to-go across actions, for each visited state; nan where it cannot be
    tested.

    The return-to-go of step t is sum_{j >= t} gamma^(j-t) r_j, and all visits of a state enter, whatever
    their t. A state with one action seen, or as many actions as visits (no degrees of freedom within), cannot
    be tested. When all returns of a state are equal up to rounding, p = 1; when they differ between actions
    only, p = 0.
    """
    groups: defaultdict[int, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for episode in log.episodes:
        ahead = 0.0
        for s, a, r in reversed(episode):
            ahead = r + gamma * ahead
            groups[s][a].append(ahead)
    return {s: anova_p(list(by_action.values())) for s, by_action in sorted(groups.items())}


def anova_p(groups: list[list[float]]) -> float:
    """P(F > observed) for one-way ANOVA; see `return_p_values` for the degenerate cases."""
    values = [v for group in groups for v in group]
    between_df, within_df = len(groups) - 1, len(values) - len(groups)
    if between_df < 1 or within_df < 1:
        return float("nan")
    grand = sum(values) / len(values)
    means = [sum(group) / len(group) for group in groups]
    between = sum(len(group) * (mean - grand) ** 2 for group, mean in zip(groups, means, strict=True))
    within = sum((v - mean) ** 2 for group, mean in zip(groups, means, strict=True) for v in group)
    rounding = len(values) * (1e-12 * max(abs(v) for v in values)) ** 2
    if within <= rounding:
        return 1.0 if between <= rounding else 0.0
    return float(fdtrc(between_df, within_df, (between / between_df) / (within / within_df)))


def return_test_set(log: Log, alpha: float = 0.05, gamma: float = 1) -> set[int]:
    """States with p > alpha. A state that cannot be tested is kept: nothing says its actions are alike."""
    return {s for s, p in return_p_values(log, gamma).items() if p > alpha}
