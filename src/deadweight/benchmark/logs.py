"""Logs for timings: uniform states and actions, so that nothing is easier than it would be in earnest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.trajectories import Trajectories
from deadweight.typing import BoolArray, FloatArray

N_STATES, N_ACTIONS = 50, 4


@dataclass(frozen=True, eq=False)
class Setting:
    """A log with two policies and a state mask."""

    log: Trajectories
    pi_e: FloatArray
    pi_b: FloatArray
    mask: BoolArray


def setting(episodes: int, horizon: int) -> Setting:
    """Episodes of equal length, 50 states, 4 actions, policies that differ moderately."""
    rng = np.random.default_rng(0)
    steps = episodes * horizon
    log = Trajectories(
        rng.integers(N_STATES, size=steps),
        rng.integers(N_ACTIONS, size=steps),
        rng.normal(size=steps),
        np.arange(0, steps + 1, horizon),
    )
    pi_e, pi_b = (rng.dirichlet(np.full(N_ACTIONS, 20.0), N_STATES) for _ in range(2))
    return Setting(log, pi_e, pi_b, rng.random(N_STATES) < 0.5)
