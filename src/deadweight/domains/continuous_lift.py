"""The lift without a grid: a line on which the action decides only around the start.

The position is a number between -b and b. Within one step of the start the agent moves where it wants;
everywhere else the lift carries it away from the start. Moves have length 1 and Gaussian noise. Each costs 1,
and a bound pays its own coordinate. (In the lifts of the paper the action decides next to the bounds as well:
with these policies the weights would then have no variance.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.domains.feature_problem import FeatureProblem, Logistic
from deadweight.errors import OptionError
from deadweight.typing import BoolArray, FloatArray, IntArray

STEP_REWARD = -1.0
NEAR_START = 1.0


@dataclass(frozen=True)
class ContinuousLift:
    """The world: see the module."""

    bound: float
    noise: float
    feature_names: tuple[str, ...] = ("position",)
    action_names: tuple[str, ...] = ("left", "right")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """Around the middle."""
        return rng.uniform(-0.5, 0.5, (episodes, 1))

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """A move of about 1, where the lift goes or where the agent wants."""
        position = x[:, 0]
        lifted = np.abs(position) > NEAR_START
        direction = np.where(lifted, np.sign(position), 2.0 * action - 1.0)
        after = position + direction + self.noise * rng.standard_normal(len(x))
        ended = np.abs(after) >= self.bound
        rewards = np.where(ended, np.sign(after) * self.bound, STEP_REWARD)
        return after[:, None], rewards, ended


def continuous_lift(bound: float = 6.0, noise: float = 0.3, horizon: int = 100) -> FeatureProblem:
    """A lift whose states are positions on a line; pi_e goes right four times in five, pi_b tosses a coin.

    Args:
      bound: distance of both bounds from the middle, at least 3.
      noise: standard deviation of a move.
      horizon: steps at which episodes are cut; hardly any lasts so long.

    Example:
      >>> log = continuous_lift().sample(episodes=10, seed=0)
      >>> log.feature_names
      ('position',)
    """
    if not bound >= 3.0:
        raise OptionError(
            f"The bound of a continuous lift is at least 3; found {bound!r}.",
            fix="For example continuous_lift(bound=5).",
        )
    if not noise >= 0.0:
        raise OptionError(
            f"noise is a standard deviation, at least 0; found {noise!r}.",
            fix="For example continuous_lift(noise=0.1).",
        )
    world = ContinuousLift(float(bound), float(noise))
    pi_e = Logistic(((0.0, 0.0),), (0.0, float(np.log(4.0))))
    pi_b = Logistic(((0.0, 0.0),), (0.0, 0.0))
    return FeatureProblem(f"continuous lift {bound:g}", world, pi_e, pi_b, horizon)
