"""How often doubts about a log are found: `python -m deadweight_studies.doubts 200` prints the table.

Logs of a random problem and of an old policy that looked at more than the state, with and without what the
doubts are about: episodes of one person, conditions that change, copies, a severity that nobody logged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from deadweight.log.trajectories import Trajectories, episode_of_rows
from deadweight.typing import FloatArray
from deadweight.verbs.estimate import evaluate
from deadweight_studies.problems import random_problem

FLAGS = ("confounded-model", "maybe-clustered", "drift", "copies")
EPISODES = 1_000
HORIZON = 3
PI_E = np.tile([0.4, 0.6], (3, 1))

Cell = Callable[[np.random.Generator], tuple[Trajectories, Any, Any]]


def cells() -> dict[str, Cell]:
    """By name, what draws a log with its two policies."""
    problem = random_problem(8, 3, 12, seed=1)

    def changed(shape: Callable[[np.random.Generator, int], FloatArray]) -> Cell:
        def draw(rng: np.random.Generator) -> tuple[Trajectories, Any, Any]:
            log = problem.sample(EPISODES, _seed(rng))
            rewards = log.rewards + rng.normal(size=log.n_steps)
            spread = np.add.reduceat(rewards, log.offsets[:-1]).std()
            each = shape(rng, EPISODES) * spread / log.lengths
            return _paid(log, rewards + each[episode_of_rows(log)]), problem.pi_e, problem.pi_b

        return draw

    def persons(size: int, share: float) -> Cell:
        each = np.sqrt(share / (1 - share))
        return changed(lambda rng, n: each * np.repeat(rng.normal(size=-(-n // size)), size)[:n])

    def copied(share: float) -> Cell:
        def draw(rng: np.random.Generator) -> tuple[Trajectories, Any, Any]:
            log = problem.sample(EPISODES, _seed(rng))
            again = rng.choice(EPISODES, int(share * EPISODES), replace=False)
            return log.select(np.append(np.arange(EPISODES), again)), problem.pi_e, problem.pi_b

        return draw

    return {
        "nothing": changed(lambda rng, n: np.zeros(n)),
        "persons of 5 episodes, intraclass correlation .5": persons(5, 0.5),
        "persons of 5 episodes, .3": persons(5, 0.3),
        "persons of 2 episodes, .3": persons(2, 0.3),
        "returns rise by one standard deviation": changed(lambda rng, n: np.linspace(-0.5, 0.5, n)),
        "returns fall by half of one halfway": changed(lambda rng, n: np.repeat([0.25, -0.25], n // 2)),
        "rewards of the problem alone": copied(0.0),
        "the same, one in twenty copied": copied(0.05),
        "a severity that changes what is done only": lambda rng: severe(rng, 0.0),
        "a severity that pays .3 of a standard deviation": lambda rng: severe(rng, 0.3),
        "a severity that pays one": lambda rng: severe(rng, 1.0),
    }


def severe(rng: np.random.Generator, pays: float) -> tuple[Trajectories, Any, Any]:
    """Three states at random; the old policy acts by a severity, and its probabilities are logged."""
    n = EPISODES
    severity = np.repeat(rng.random(n) < 0.5, HORIZON)
    chance = np.where(severity, 0.8, 0.3)
    states = np.tile(np.arange(HORIZON), n)
    actions = (rng.random(n * HORIZON) < chance).astype(np.int64)
    rewards = states + actions + pays * severity + rng.normal(size=n * HORIZON)
    logged = np.where(actions == 1, chance, 1 - chance)
    log = Trajectories(states, actions, rewards, np.arange(0, n * HORIZON + 1, HORIZON), propensities=logged)
    return log, PI_E, None


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 31))


def _paid(log: Trajectories, rewards: FloatArray) -> Trajectories:
    return Trajectories(log.states, log.actions, rewards, log.offsets, terminated=log.terminated)


def study(runs: int) -> Iterator[str]:
    """The lines of the table: shares of logs with each flag."""
    yield f"| logs of {EPISODES:,} episodes | {' | '.join(FLAGS)} |"
    yield "| --- |" + " ---: |" * len(FLAGS)
    for place, (name, draw) in enumerate(cells().items()):
        found = np.zeros(len(FLAGS))
        for number in range(runs):
            log, pi_e, pi_b = draw(np.random.default_rng([2026, place, number]))
            flags = evaluate(log, pi_e, pi_b, ["BLEND"], background=False).headline.flags
            found += [flag in flags for flag in FLAGS]
        yield f"| {name} | {' | '.join(f'{share:.3f}' for share in found / runs)} |"


if __name__ == "__main__":
    for line in study(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
