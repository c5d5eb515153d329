"""Simulation with features: worlds whose state is a row of numbers, all live episodes advancing together.

A `World` says where episodes start and what a step does; `rollout` lets a policy act in it, one vectorised
step after the other, and whoever asked keeps of each step what is needed: all of it for a log, the sum of
rewards for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from deadweight.typing import BoolArray, FloatArray, IntArray

Act = Callable[[FloatArray], Any]
"""From rows of features (m, d) to probabilities (m, A)."""


class World(Protocol):
    """A problem whose state is a row of d numbers."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the d columns."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions."""

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, d) first states."""

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The states that follow, (m, d), the rewards, (m,), and which episodes have ended, (m,)."""


@dataclass(frozen=True, eq=False)
class Steps:
    """One step of the episodes that were alive at time t."""

    t: int
    episodes: IntArray  # (m,) their numbers
    x: FloatArray  # (m, d)
    actions: IntArray  # (m,)
    probs: FloatArray  # (m,) of the actions taken
    rewards: FloatArray  # (m,)
    after: FloatArray  # (m, d)
    ended: BoolArray  # (m,)


def rollout(world: World, act: Act, episodes: int, horizon: int, rng: np.random.Generator) -> Iterator[Steps]:
    """Every step of a policy's episodes until all have ended or the horizon is reached."""
    x = world.start(episodes, rng)
    alive = np.arange(episodes)
    for t in range(horizon):
        table = np.asarray(act(x), dtype=np.float64)
        actions = drawn(table, rng)
        after, rewards, ended = world.step(x, actions, rng)
        yield Steps(t, alive, x, actions, table[np.arange(len(x)), actions], rewards, after, ended)
        alive, x = alive[~ended], after[~ended]
        if not alive.size:
            return


def drawn(table: FloatArray, rng: np.random.Generator) -> IntArray:
    """(m,) an action from each row of probabilities; one of probability 0 never."""
    cdf = np.cumsum(table, axis=1)
    u = rng.random(len(table)) * cdf[:, -1]
    return np.asarray((cdf <= u[:, None]).sum(axis=1))


def returns(world: World, act: Act, episodes: int, horizon: int, rng: np.random.Generator) -> FloatArray:
    """(episodes,) undiscounted returns; nothing else is kept."""
    total = np.zeros(episodes)
    for step in rollout(world, act, episodes, horizon, rng):
        total[step.episodes] += step.rewards
    return total
