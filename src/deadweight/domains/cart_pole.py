"""Cart-pole in numpy, many carts at once: the equations of Gymnasium's CartPole-v1.

A cart on a rail is pushed left or right to keep a pole upright. Each step pays 1; the episode ends when
the pole leans more than 12 degrees or the cart leaves the rail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.domains.feature_problem import FeatureProblem, Logistic
from deadweight.typing import BoolArray, FloatArray, IntArray

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
MOMENT = POLE_MASS * HALF_LENGTH
FORCE = 10.0
SECONDS = 0.02
MOST_ANGLE = 12 * 2 * np.pi / 360
MOST_POSITION = 2.4


@dataclass(frozen=True)
class CartPole:
    """The world: see the module."""

    feature_names: tuple[str, ...] = ("position", "velocity", "angle", "spin")
    action_names: tuple[str, ...] = ("left", "right")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """Almost at rest."""
        return rng.uniform(-0.05, 0.05, (episodes, 4))

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """One step of Euler's method; nothing is random."""
        _, velocity, angle, spin = x.T
        cos, sin = np.cos(angle), np.sin(angle)
        pushed = (FORCE * (2.0 * action - 1.0) + MOMENT * np.square(spin) * sin) / TOTAL_MASS
        turn = (GRAVITY * sin - cos * pushed) / (
            HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * np.square(cos) / TOTAL_MASS)
        )
        speed_up = pushed - MOMENT * turn * cos / TOTAL_MASS
        after = x + SECONDS * np.column_stack([velocity, speed_up, spin, turn])
        ended = (np.abs(after[:, 0]) > MOST_POSITION) | (np.abs(after[:, 2]) > MOST_ANGLE)
        return after, np.ones(len(x)), ended


def cart_pole(horizon: int = 100) -> FeatureProblem:
    """Balancing a pole; pi_e follows the pole more closely than pi_b, both with some chance.

    Args:
      horizon: steps at which episodes are cut.

    Example:
      >>> cart_pole().sample(episodes=5, seed=0).feature_names
      ('position', 'velocity', 'angle', 'spin')
    """
    pi_e = Logistic(((0.0, 0.1), (0.0, 0.2), (0.0, 8.0), (0.0, 1.2)), (0.0, 0.0))
    pi_b = Logistic(((0.0, 0.1), (0.0, 0.2), (0.0, 5.0), (0.0, 0.8)), (0.0, 0.0))
    return FeatureProblem("cart-pole", CartPole(), pi_e, pi_b, horizon)
