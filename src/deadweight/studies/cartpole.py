"""A pole on a cart, seen through fifty cells: a task whose labels hide what matters.

Positions, speeds and angles are continuous; the log shows only which of fifty cells they lie in, and both
policies act on that cell. Weights are right, and every model of the cells is wrong: what follows depends on
where in its cell the cart stands. The truth comes from simulating the new policy, not from a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy
from deadweight.typing import FloatArray, IntArray

CELLS, STEPS = 50, 60
TRUTH_EPISODES = 40_000
# What a direction costs or earns when a policy leans towards it: position, speed, angle, angular speed.
LEANING = np.array([0.1, 0.3, 6.0, 1.5])


@dataclass(frozen=True)
class BinnedCartpole:
    """The task with the policies of a seed; it offers what a `StudyProblem` does.

    Attributes:
      name: how tables call it.
      episodes: size of a log.
      seed: of cells and policies.
    """

    name: str = "cartpole in 50 cells"
    episodes: int = 400
    seed: int = 21

    @cached_property
    def centres(self) -> FloatArray:
        """(cells, 4) by k-means on what a coin-tossing policy meets."""
        rng = np.random.default_rng(self.seed)
        met = _simulate(200, np.full((1, 2), 0.5), np.zeros((1, 4)), rng)[4]
        found = met[rng.choice(len(met), CELLS, replace=False)]
        for _ in range(15):
            nearest = _cells(met, found)
            for cell in range(CELLS):
                if (nearest == cell).any():
                    found[cell] = met[nearest == cell].mean(axis=0)
        return found

    @property
    def pi_e(self) -> TabularPolicy:
        """Leans the way that holds the pole up."""
        return self._policy(1.0)

    @property
    def pi_b(self) -> TabularPolicy:
        """Leans that way less."""
        return self._policy(0.35)

    def _policy(self, strength: float) -> TabularPolicy:
        right = 1.0 / (1.0 + np.exp(-strength * (self.centres @ LEANING)))
        right = 0.05 + 0.9 * right
        return TabularPolicy(np.column_stack([1.0 - right, right]))

    @cached_property
    def values(self) -> tuple[float, float]:
        """Mean return of the new and of the old policy, by simulation."""
        found = []
        for k, policy in enumerate((self.pi_e, self.pi_b)):
            rng = np.random.default_rng([self.seed, k])
            lengths = _simulate(TRUTH_EPISODES, policy.probs, self.centres, rng)[3]
            found.append(float(lengths.mean()))
        return found[0], found[1]

    def sample(self, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log of the old policy: one for every step that the pole stands, sixty at most."""
        rng = np.random.default_rng(seed)
        states, actions, propensities, lengths, _ = _simulate(
            self.episodes, self.pi_b.probs, self.centres, rng
        )
        alive = np.arange(STEPS) < lengths[:, None]
        return Trajectories(
            states[alive],
            actions[alive],
            np.ones(int(lengths.sum())),
            np.concatenate([[0], np.cumsum(lengths)]),
            propensities=propensities[alive],
            time_limit=STEPS,
        )


def _simulate(
    episodes: int, probs: FloatArray, centres: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray, IntArray, FloatArray]:
    """Cells, actions and propensities (episodes, steps), lengths, and all positions that were met."""
    x = rng.uniform(-0.05, 0.05, size=(episodes, 4))
    states, actions = (np.zeros((episodes, STEPS), dtype=np.int64) for _ in range(2))
    propensities, alive = np.ones((episodes, STEPS)), np.ones(episodes, dtype=bool)
    lengths, met = np.zeros(episodes, dtype=np.int64), []
    for t in range(STEPS):
        met.append(x[alive])
        states[:, t] = _cells(x, centres)
        actions[:, t] = rng.random(episodes) < probs[states[:, t], 1]
        propensities[:, t] = probs[states[:, t], actions[:, t]]
        lengths += alive
        x = _step(x, actions[:, t])
        alive &= (np.abs(x[:, 0]) < 2.4) & (np.abs(x[:, 2]) < 0.2095)
    return states, actions, propensities, lengths, np.concatenate(met)


def _cells(x: FloatArray, centres: FloatArray) -> IntArray:
    """(m,) the nearest centre."""
    distance = np.square(centres).sum(axis=1) - 2.0 * x @ centres.T
    nearest: IntArray = distance.argmin(axis=1)
    return nearest


def _step(x: FloatArray, actions: IntArray) -> FloatArray:
    """One fiftieth of a second: a cart of 1 kg, a pole of 0.1 kg and half a metre, a push of 10 N."""
    position, speed, angle, turning = x.T
    force = np.where(actions == 1, 10.0, -10.0)
    sine, cosine = np.sin(angle), np.cos(angle)
    pushed = (force + 0.05 * np.square(turning) * sine) / 1.1
    spin = (9.8 * sine - cosine * pushed) / (0.5 * (4.0 / 3.0 - 0.1 * np.square(cosine) / 1.1))
    drive = pushed - 0.05 * spin * cosine / 1.1
    return np.column_stack(
        [position + 0.02 * speed, speed + 0.02 * drive, angle + 0.02 * turning, turning + 0.02 * spin]
    )
