"""Worlds with features: simulated problems whose states are rows of numbers.

The continuous lift is a line on which the action decides only around the start: within one step of it the
agent moves where it wants; everywhere else the lift carries it away. Positions are numbers between -b and b,
moves have length 1 and Gaussian noise. Each costs 1, and a bound pays its own coordinate. (In the lifts of
the paper the action decides next to the bounds as well: with these policies the weights would then have no
variance.)

Cart-pole has the equations of Gymnasium's CartPole-v1, for many carts at once: a cart on a rail is pushed
left or right to keep a pole upright. Each step pays 1; the episode ends when the pole leans more than 12
degrees or the cart leaves the rail.

Navigation is a walk from the south-west corner of a square of side 10 to the north-east corner. The middle of
the square, 3 <= y < 7, is a belt that runs north: on it the action is without effect. Steps have length 1 and
Gaussian noise, walls stop them. Each costs 1, and the goal pays 10.

The sepsis-like simulator has patients in six numbers, three treatments, and few moments at which they matter.
Nothing in it is medical knowledge. Lactate falls by itself while it is low; above 2 fluids help, and below a
mean arterial pressure of 65 vasopressors do; elsewhere treatments change next to nothing. Every step a
patient may die, the more probably the higher the lactate and the lower the pressure, or be discharged when
both are good. Discharge pays 1, death 0, and so does being still there at the horizon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.errors import OptionError
from deadweight.mdp.problem import FeatureProblem, Logistic
from deadweight.typing import BoolArray, FloatArray, IntArray

LIFT_REWARD = -1.0
NEAR_START = 1.0


@dataclass(frozen=True)
class ContinuousLift:
    """The line of the continuous lift."""

    bound: float
    noise: float
    feature_names: tuple[str, ...] = ("position",)
    action_names: tuple[str, ...] = ("left", "right")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, 1) positions around the middle."""
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
        rewards = np.where(ended, np.sign(after) * self.bound, LIFT_REWARD)
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
    """The cart and its pole."""

    feature_names: tuple[str, ...] = ("position", "velocity", "angle", "spin")
    action_names: tuple[str, ...] = ("left", "right")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, 4) states almost at rest."""
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


SIDE = 10.0
BELT = (3.0, 7.0)
GOAL = 7.5
GOAL_REWARD = 10.0
STEP_REWARD = -1.0
MOVES = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]])


@dataclass(frozen=True)
class Navigation:
    """The square with its belt."""

    noise: float
    feature_names: tuple[str, ...] = ("x", "y")
    action_names: tuple[str, ...] = ("north", "east", "south", "west")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, 2) places in the south-west corner."""
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


FEATURES = ("lactate", "map", "heart_rate", "oxygen", "creatinine", "age")
FLUIDS, VASOPRESSOR = 1, 2
HIGH_LACTATE = 2.0
LOW_PRESSURE = 65.0


@dataclass(frozen=True)
class SepsisLike:
    """The patients."""

    feature_names: tuple[str, ...] = FEATURES
    action_names: tuple[str, ...] = ("watch", "fluids", "vasopressor")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, 6) patients on admission."""
        lactate = np.exp(rng.normal(0.9, 0.5, episodes))
        pressure = rng.normal(70.0, 9.0, episodes)
        heart_rate = rng.normal(95.0, 12.0, episodes)
        oxygen = np.clip(rng.normal(94.0, 3.0, episodes), 70.0, 100.0)
        creatinine = np.exp(rng.normal(0.1, 0.4, episodes))
        age = rng.uniform(30.0, 90.0, episodes)
        return np.column_stack([lactate, pressure, heart_rate, oxygen, creatinine, age])

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Treat the patients for four hours."""
        lactate, pressure, heart_rate, oxygen, creatinine, age = x.T
        needs_fluids, needs_pressor = lactate > HIGH_LACTATE, pressure < LOW_PRESSURE
        noise = rng.standard_normal((len(x), 5))
        fall = np.where(needs_fluids, -0.02 + 0.28 * (action == FLUIDS), 0.06)
        rise = np.where(needs_pressor, -0.5 + 6.0 * (action == VASOPRESSOR) + 1.5 * (action == FLUIDS), 0.5)
        after = np.column_stack(
            [
                np.clip(lactate * np.exp(-fall + 0.12 * noise[:, 0]), 0.3, 20.0),
                np.clip(pressure + rise + 0.1 * (75.0 - pressure) + 2.5 * noise[:, 1], 30.0, 120.0),
                heart_rate + 0.2 * (85.0 + 4.0 * lactate - heart_rate) + 4.0 * noise[:, 2],
                np.clip(oxygen + 0.2 * (96.0 - lactate - oxygen) + noise[:, 3], 70.0, 100.0),
                np.clip(creatinine * np.exp(0.02 * (lactate - 2.0) + 0.05 * noise[:, 4]), 0.2, 10.0),
                age,
            ]
        )
        u = rng.random(len(x))
        danger = -5.6 + 0.6 * after[:, 0] + 0.10 * np.maximum(LOW_PRESSURE - after[:, 1], 0.0)
        dying = 1.0 / (1.0 + np.exp(-(danger + 0.01 * (age - 60.0))))
        well = (after[:, 0] < HIGH_LACTATE) & (after[:, 1] > LOW_PRESSURE)
        died = u < dying
        discharged = ~died & (u > 1.0 - 0.15 * well)
        return after, discharged.astype(np.float64), died | discharged


def sepsis_like(horizon: int = 20) -> FeatureProblem:
    """Patients with lactate, pressure and four more numbers; pi_e treats those in need more readily.

    Args:
      horizon: steps at which episodes are cut.

    Example:
      >>> problem = sepsis_like()
      >>> problem.sample(episodes=5, seed=0).feature_names[:2]
      ('lactate', 'map')
    """
    # Columns: watch, fluids, vasopressor; rows as in FEATURES.
    zero = (0.0, 0.0, 0.0)
    pi_e = Logistic(((0.0, 0.9, 0.0), (0.0, 0.0, -0.12), zero, zero, zero, zero), (0.0, -1.2, 8.0))
    pi_b = Logistic(
        ((0.0, 0.3, 0.0), (0.0, 0.0, -0.05), (0.0, 0.01, 0.01), zero, zero, zero), (0.0, -1.5, 1.8)
    )
    return FeatureProblem("sepsis-like", SepsisLike(), pi_e, pi_b, horizon)
