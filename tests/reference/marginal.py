"""Estimators that weight by state, not by path: MIS, tabular MIS and conditional importance sampling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Set
from typing import Literal

from .log import ENDS, UNKNOWN, Drop, Log, Policy, cumulative, kept_ratios, ratio, returns


def mis(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None, gamma: float = 1) -> float:
    """sum_t gamma^t sum_s d_t(s) r_t(s), d propagated by ratio-weighted transitions (Xie, Ma & Wang 2019).

    d_{t+1}(s') = sum_s d_t(s) mean over the visits of s at t of k_t 1[s_{t+1} = s']. Mass that terminates is
    gone. A truncated last step with unknown successor enters the mean of the reward, not that of the
    transition. Mass on a state that no episode holds at t earns nothing and goes nowhere.
    """
    k = kept_ratios(log, pi_e, pi_b, drop)
    d = start_distribution(log)
    estimate = 0.0
    for t in range(log.horizon):
        rewards, moves = defaultdict(list), defaultdict(list)
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s, _, r = episode[t]
                rewards[s].append(k[i][t] * r)
                if log.successor(i, t) != UNKNOWN:
                    moves[s].append((k[i][t], log.successor(i, t)))
        estimate += gamma**t * sum(d[s] * sum(values) / len(values) for s, values in rewards.items())
        following: defaultdict[int, float] = defaultdict(float)
        for s, pairs in moves.items():
            for weight, successor in pairs:
                if successor != ENDS:
                    following[successor] += d[s] * weight / len(pairs)
        d = following
    return estimate


def tmis(
    log: Log,
    pi_e: Policy,
    drop: Set[int] | None = None,
    gamma: float = 1,
    unseen_actions: Literal["renormalise", "zero"] = "renormalise",
) -> float:
    """As `mis`, with counts at time t instead of ratios (Yin & Wang 2020); needs no pi_b.

    r_t(s) = sum_a pi_e(a|s) mean reward of (t, s, a), and P_t(.|s) likewise. On a dropped state actions are
    pooled: plain means over (t, s). An action not seen at (t, s) adds nothing ("zero": its probability is
    lost, with the reward and the mass behind it), or the sums are divided by the pi_e mass of the actions
    seen ("renormalise"; 0 when that is 0). `drop` is a set of states; flags a step have no pooled form.
    """
    out = drop or frozenset()
    d = start_distribution(log)
    estimate = 0.0
    for t in range(log.horizon):
        rewards: defaultdict[int, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        moves: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for i, episode in enumerate(log.episodes):
            if t < len(episode):
                s, a, r = episode[t]
                group = -1 if s in out else a  # one pooled pseudo-action on a dropped state
                rewards[s][group].append(r)
                if log.successor(i, t) != UNKNOWN:
                    moves[s][group].append(log.successor(i, t))
        following: defaultdict[int, float] = defaultdict(float)
        for s in rewards:
            share = action_shares(pi_e, s, rewards[s], unseen_actions)
            for a, values in rewards[s].items():
                estimate += gamma**t * d[s] * share[a] * sum(values) / len(values)
            share = action_shares(pi_e, s, moves[s], unseen_actions)
            for a, successors in moves[s].items():
                for successor in successors:
                    if successor != ENDS:
                        following[successor] += d[s] * share[a] / len(successors)
        d = following
    return estimate


def action_shares(pi_e: Policy, s: int, groups: Collection[int], unseen_actions: str) -> dict[int, float]:
    """The weight of each seen action at s: pi_e, renormalised or not; 1 for the pooled pseudo-action."""
    mass = {a: 1.0 if a == -1 else pi_e[s][a] for a in groups}
    total = sum(mass.values()) if unseen_actions == "renormalise" else 1.0
    return {a: ratio(p, total) for a, p in mass.items()}


def cis(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop = None,
    gamma: float = 1,
    given: Literal["state", "reward", "return"] = "state",
) -> float:
    """Conditional importance sampling (Rowland et al. 2020), the expectations being group means.

    "state": (1/n) sum_i sum_t gamma^t k_it r_it * mean of W_{t-1} over the episodes in the same state at t.
    "reward": (1/n) sum_i sum_t gamma^t r_it * mean of W_t over the episodes with the same reward at t;
    algebraically PDIS. "return": (1/n) sum_i G_i * mean of B over the episodes with the same return;
    algebraically IS.
    """
    weights, k = cumulative(log, pi_e, pi_b, drop), kept_ratios(log, pi_e, pi_b, drop)
    groups: defaultdict[tuple[int, float], list[float]] = defaultdict(list)
    entries: list[tuple[tuple[int, float], float]] = []  # group, value that its mean weight multiplies
    for i, episode in enumerate(log.episodes):
        if given == "return":
            total = returns(log, gamma)[i]
            groups[0, total].append(weights[i][-1])
            entries.append(((0, total), total))
            continue
        for t, (s, _, r) in enumerate(episode):
            if given == "state":
                groups[t, s].append(weights[i][t - 1] if t > 0 else 1.0)
                entries.append(((t, s), gamma**t * k[i][t] * r))
            else:
                groups[t, r].append(weights[i][t])
                entries.append(((t, r), gamma**t * r))
    return sum(value * sum(groups[key]) / len(groups[key]) for key, value in entries) / log.n


def start_distribution(log: Log) -> defaultdict[int, float]:
    """d_0: the share of episodes that start in each state."""
    d: defaultdict[int, float] = defaultdict(float)
    for episode in log.episodes:
        d[episode[0][0]] += 1 / log.n
    return d
