"""Stationary density-ratio estimation (Liu et al. 2018), tabular, in every published and repaired form."""

from __future__ import annotations

from typing import Literal

import numpy as np
import quadprog

from .log import Array, Drop, Log, Policy, Rows, dropped_steps, kept_ratios, ratio, ratios

Mode = Literal["published", "corrected", "literal", "episodic", "policy-renewal", "policy-horizon", "policy"]
REGULARISER = 0.001
SCALE = 50.0


def sdre(
    log: Log,
    pi_e: Policy,
    pi_b: Policy,
    drop: Drop = None,
    mode: Mode = "policy",
    n_states: int | None = None,
) -> float:
    """H sum(w k r) / sum(w k), or one of its variants. gamma is 1 throughout; H = T, the longest episode.

    - "published": w from the full ratios, whatever is dropped; k = 1 on dropped steps of the estimate only.
    - "corrected": the same w, and w k = 1 on dropped steps.
    - "literal": (1/n) sum r w with w = 1 on dropped steps; no action ratio, no normaliser, no H.
    - "episodic": an episode's last step leads to its own start; sum(w k r) / sum(w k 1[last step]), w from
      the full ratios.
    - "policy-renewal", "policy-horizon": "episodic" and "published" with k in place of rho in w as well.
      "policy" is the first when all episodes terminate, the second when none does.

    Each step is one transition, the last included. Except in the renewal forms the last step leads to its
    logged successor if the episode was cut and there is one, else to its own state.
    """
    if mode == "policy":
        mode = "policy-renewal" if all(log.ended(i) for i in range(log.n)) else "policy-horizon"
    renewal = mode in ("episodic", "policy-renewal")
    k = kept_ratios(log, pi_e, pi_b, drop)
    in_density = k if mode.startswith("policy") else ratios(log, pi_e, pi_b)
    w = density_ratio(log, in_density, n_states or len(pi_e), renewal)
    dropped = dropped_steps(log, drop)

    numerator = denominator = 0.0
    for i, episode in enumerate(log.episodes):
        for t, (s, _, r) in enumerate(episode):
            if mode == "literal":
                weight = 1.0 if dropped[i][t] else w[s]
            elif mode == "corrected":
                weight = 1.0 if dropped[i][t] else w[s] * k[i][t]
            else:
                weight = w[s] * k[i][t]
            numerator += weight * r
            if not renewal or t == len(episode) - 1:
                denominator += weight
    if mode == "literal":
        return float(numerator / log.n)
    return float(ratio(numerator, denominator) * (1 if renewal else log.horizon))


def density_ratio(log: Log, k: Rows, n_states: int, renewal: bool) -> Array:
    """w = x / f over the states, 0 where a state was never the current one.

    f is the share of the steps that are in a state: current states alone are counted, not half current and
    half next. Ghat[s, s'] += k and Ghat[s', s'] -= 1 a transition; M = diag(1/f) Ghat / 50; x minimises x'(M
    M' + 0.001 I)x over the simplex of the states with f > 0. A successor that is never current has no row;
    its column stays, since mass that flows there is an imbalance like any other.
    """
    G = np.zeros((n_states, n_states))
    f = np.zeros(n_states)
    for i, episode in enumerate(log.episodes):
        for t, (s, _, _) in enumerate(episode):
            following = log.successor(i, t)
            if t == len(episode) - 1:
                if renewal:
                    following = episode[0][0]
                elif following < 0:
                    following = s
            G[s, following] += k[i][t]
            G[following, following] -= 1
            f[s] += 1
    f /= f.sum()
    visited = np.flatnonzero(f)
    M = G[visited] / f[visited, None] / SCALE
    w = np.zeros(n_states)
    w[visited] = simplex_minimum(M @ M.T + REGULARISER * np.eye(len(visited))) / f[visited]
    return w


def simplex_minimum(A: Array) -> Array:
    """argmin x'Ax over x >= 0, sum x = 1."""
    n = len(A)
    constraints = np.column_stack([np.ones(n), np.eye(n)])
    bounds = np.concatenate([[1.0], np.zeros(n)])
    x: Array = quadprog.solve_qp(A, np.zeros(n), constraints, bounds, 1)[0]
    return x
