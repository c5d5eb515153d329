"""Which episode each row of a log in memory belongs to, and at which of its steps it was logged."""

from __future__ import annotations

import numpy as np

from deadweight.log.trajectories import Trajectories
from deadweight.typing import IntArray


def episode_of_rows(log: Trajectories) -> IntArray:
    """(steps,) the number of each row's episode.

    >>> log = Trajectories.from_episodes([[(0, 0, 1.0), (1, 0, 0.0)], [(0, 1, 3.0)]])
    >>> episode_of_rows(log).tolist(), step_of_rows(log).tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    return np.repeat(np.arange(log.n_episodes), log.lengths)


def step_of_rows(log: Trajectories) -> IntArray:
    """(steps,) the step of each row within its episode, from 0."""
    steps: IntArray = np.arange(log.n_steps) - np.repeat(log.offsets[:-1], log.lengths)
    return steps
