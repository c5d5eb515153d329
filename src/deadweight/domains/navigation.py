"""Navigation with a belt: a walk across a square whose middle carries the walker whatever it does.

Walkers start in the south-west corner of a square of side 10 and want to reach the north-east corner. The
middle of the square, 3 <= y < 7, is a belt that runs north: on it the action is without effect. Steps have
length 1 and Gaussian noise, walls stop them. Each costs 1, and the goal pays 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.domains.feature_problem import FeatureProblem, Logistic
from deadweight.typing import BoolArray, FloatArray, IntArray

SIDE = 10.0
BELT = (3.0, 7.0)
GOAL = 7.5
GOAL_REWARD = 10.0
STEP_REWARD = -1.0
MOVES = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])


@dataclass(frozen=True)
class Navigation:
    """The world: see the module."""

    noise: float
    feature_names: tuple[str, ...] = ("x", "y")
    action_names: tuple[str, ...] = ("north", "east", "south", "west")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """In the south-west corner."""
        return rng.uniform(0.0, 2.0, (episodes, 2))

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """A step, or a ride on the belt."""
        on_belt = (x[:, 1] >= BELT[0]) & (x[:, 1] < BELT[1])
        move = np.where(on_belt[:, None], MOVES[0], MOVES[action])
        after = np.clip(x + move + self.noise * rng.standard_normal(x.shape), 0.0, SIDE)
        ended: BoolArray = np.all(after > GOAL, axis=1)
        return after, np.where(ended, GOAL_REWARD, STEP_REWARD), ended


def navigation(noise: float = 0.4, horizon: int = 30) -> FeatureProblem:
    """A walk to a far corner over a belt; pi_e heads for the goal more often than pi_b.

    Args:
      noise: standard deviation of a step in each direction.
      horizon: steps at which episodes are cut.

    Example:
      >>> problem = navigation()
      >>> problem.sample(episodes=10, seed=0).n_actions
      4
    """
    towards = ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
    pi_e = Logistic(towards, (1.4, 1.4, 0.0, 0.0))
    pi_b = Logistic(towards, (0.7, 0.7, 0.0, 0.0))
    return FeatureProblem("navigation with a belt", Navigation(float(noise)), pi_e, pi_b, horizon)
