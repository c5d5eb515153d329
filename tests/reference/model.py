"""The fitted tabular model, its Q-values under the evaluation policy, and the direct method."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .log import ENDS, UNKNOWN, Array, Log, Policy

Unseen = Literal["pool", "terminate", "mean"]
SMOOTHING = 1e-9


def fit_model(log: Log, n_states: int, n_actions: int, unseen: Unseen = "pool") -> tuple[Array, Array, Array]:
    """P (S, A, S+1) with termination in the last column, r (S, A), d0 (S,), pooled over time.

    A truncated last step without a logged successor gives its reward, but no transition. So rewards and
    transitions have counts of their own, and a pair may have a reward mean and no transition.

    A pair without reward: "pool" the mean reward of all steps in the state, "terminate" 0, "mean" the plain
    mean over seen pairs of r(s, a). A pair without transition: "pool" the state's successors over all
    actions, "terminate" the end. "mean" adds 1e-9 to each of the S + 1 successor counts of *every* pair, so a
    pair without transition goes everywhere alike. Under "pool" a state without any reward has reward 0,
    without any transition it ends.
    """
    transitions = np.zeros((n_states, n_actions, n_states + 1))
    total = np.zeros((n_states, n_actions))
    visits = np.zeros((n_states, n_actions))
    d0 = np.zeros(n_states)
    for i, episode in enumerate(log.episodes):
        d0[episode[0][0]] += 1 / log.n
        for t, (s, a, r) in enumerate(episode):
            total[s, a] += r
            visits[s, a] += 1
            successor = log.successor(i, t)
            if successor != UNKNOWN:
                transitions[s, a, n_states if successor == ENDS else successor] += 1

    if unseen == "mean":
        transitions += SMOOTHING
    seen_means = [total[s, a] / visits[s, a] for s, a in np.argwhere(visits > 0)]
    P = np.zeros_like(transitions)
    reward = np.zeros_like(total)
    for s in range(n_states):
        for a in range(n_actions):
            if visits[s, a] > 0:
                reward[s, a] = total[s, a] / visits[s, a]
            elif unseen == "mean":
                reward[s, a] = sum(seen_means) / len(seen_means)
            elif unseen == "pool" and visits[s].sum() > 0:
                reward[s, a] = total[s].sum() / visits[s].sum()

            if transitions[s, a].sum() > 0:
                P[s, a] = transitions[s, a] / transitions[s, a].sum()
            elif unseen == "pool" and transitions[s].sum() > 0:
                P[s, a] = transitions[s].sum(axis=0) / transitions[s].sum()
            else:
                P[s, a, n_states] = 1
    return P, reward, d0


def q_values(P: Array, r: Array, pi_e: Policy, horizon: int, gamma: float = 1) -> tuple[Array, Array]:
    """Q (T, S, A) and V (T, S): Q_t = r + gamma P V_{t+1}, V_t = sum_a pi_e Q_t, V_T = 0."""
    n_states, n_actions = r.shape
    Q, V = np.zeros((horizon, n_states, n_actions)), np.zeros((horizon + 1, n_states))
    for t in reversed(range(horizon)):
        for s in range(n_states):
            for a in range(n_actions):
                ahead = sum(P[s, a, s2] * V[t + 1, s2] for s2 in range(n_states))
                Q[t, s, a] = r[s, a] + gamma * ahead
            V[t, s] = sum(pi_e[s][a] * Q[t, s, a] for a in range(n_actions))
    return Q, V[:horizon]


def fitted_q(log: Log, pi_e: Policy, gamma: float = 1, unseen: Unseen = "pool") -> Array:
    """Q (T, S, A) of the model fitted on the log, over the log's horizon."""
    P, r, _ = fit_model(log, len(pi_e), len(pi_e[0]), unseen)
    return q_values(P, r, pi_e, log.horizon, gamma)[0]


def direct(log: Log, pi_e: Policy, gamma: float = 1, unseen: Unseen = "pool") -> float:
    """sum_s d0(s) V_0(s): the fitted model's own value."""
    P, r, d0 = fit_model(log, len(pi_e), len(pi_e[0]), unseen)
    return float(d0 @ q_values(P, r, pi_e, log.horizon, gamma)[1][0])
