"""Small logs and models for the tests of `improve`."""

from __future__ import annotations

import numpy as np

from deadweight import TabularMDP, Trajectories
from deadweight.mdp.problem import simulate

# Two states, two actions: in state 0 action 1 pays more at once, in state 1 action 0 does.
P = np.array([[[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]], [[0.3, 0.3, 0.4], [0.1, 0.7, 0.2]]])
R = np.array([[0.0, 1.0], [0.5, -0.5]])
PI_B = np.array([[0.7, 0.3], [0.4, 0.6]])


def mdp(horizon: int | None = None) -> TabularMDP:
    return TabularMDP(P, R, [0.5, 0.5], horizon)


def log(episodes: int = 200, seed: int = 0, horizon: int | None = None) -> Trajectories:
    return simulate(mdp(horizon), PI_B, episodes, seed)


def bandit(good: int, bad: int, pays: float = 1.0) -> Trajectories:
    """One state, one step: action 1 pays so much and action 0 nothing, with a little noise."""
    noise = np.random.default_rng(0).normal(scale=0.1, size=good + bad)
    episodes = [[("here", "new", pays + noise[k])] for k in range(good)]
    episodes += [[("here", "old", noise[good + k])] for k in range(bad)]
    order = np.random.default_rng(1).permutation(good + bad)
    return Trajectories.from_episodes([episodes[k] for k in order])
