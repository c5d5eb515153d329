"""Small random logs for the tests of negligible states, and the same logs for the reference."""

from __future__ import annotations

import numpy as np
import reference

import deadweight as dw


def random_policies(rng, n_states, n_actions, kind="soft"):
    """pi_e and pi_b; `kind` "deterministic" gives pi_e one action a state, "zeros" some impossible ones."""
    pi_b = rng.dirichlet(np.full(n_actions, 2.0), n_states)
    pi_e = rng.dirichlet(np.full(n_actions, 2.0), n_states)
    if kind == "deterministic":
        pi_e = np.eye(n_actions)[rng.integers(n_actions, size=n_states)]
    elif kind == "zeros":
        pi_e = np.where(rng.random(pi_e.shape) < 0.3, 0.0, pi_e)
        pi_e[:, 0] += 1e-3
        pi_e /= pi_e.sum(axis=1, keepdims=True)
    elif kind == "same":
        pi_e = pi_b.copy()
    return pi_e, pi_b


def random_episodes(rng, pi_b, n, longest):
    """Episodes of independent states, of one to `longest` steps, with whole rewards."""
    n_states, n_actions = pi_b.shape

    def step():
        s = int(rng.integers(n_states))
        return s, int(rng.choice(n_actions, p=pi_b[s])), float(rng.integers(-1, 3))

    return [[step() for _ in range(rng.integers(1, longest + 1))] for _ in range(n)]


def random_case(seed, n_states, n_actions, n, longest, kind="soft"):
    """Episodes, the log made of them, pi_e and pi_b."""
    rng = np.random.default_rng(seed)
    pi_e, pi_b = random_policies(rng, n_states, n_actions, kind)
    episodes = random_episodes(rng, pi_b, n, longest)
    return episodes, dw.Trajectories.from_episodes(episodes), pi_e, pi_b


def plain(episodes):
    """The log that the reference reads."""
    return reference.Log(episodes)
