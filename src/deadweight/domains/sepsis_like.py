"""A sepsis-like simulator: patients in six numbers, three treatments, and few moments at which they matter.

Nothing in it is medical knowledge. Lactate falls by itself while it is low; above 2 fluids help, and below a
mean arterial pressure of 65 vasopressors do; elsewhere treatments change next to nothing. Every step a
patient may die, the more probably the higher the lactate and the lower the pressure, or be discharged when
both are good. Discharge pays 1, death 0, and so does being still there at the horizon.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.domains.feature_problem import FeatureProblem, Logistic
from deadweight.typing import BoolArray, FloatArray, IntArray

FEATURES = ("lactate", "map", "heart_rate", "oxygen", "creatinine", "age")
FLUIDS, VASOPRESSOR = 1, 2
HIGH_LACTATE = 2.0
LOW_PRESSURE = 65.0


@dataclass(frozen=True)
class SepsisLike:
    """The world: see the module."""

    feature_names: tuple[str, ...] = FEATURES
    action_names: tuple[str, ...] = ("watch", "fluids", "vasopressor")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """On admission."""
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
        """Four hours."""
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
