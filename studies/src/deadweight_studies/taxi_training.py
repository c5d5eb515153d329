"""Q-learning for taxi: how the policies that come with the package were made.

As for the paper's policies: step size .01, discount .99, softmax exploration at temperature 2, blocks of
5,000 steps from a fresh start, 50 blocks an iteration. pi_b is the policy after iteration 19, pi_e after
20. `python -m deadweight_studies.taxi_training FILE` trains both (about five million steps) and writes them.

Reference: Watkins & Dayan (1992).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from math import exp
from pathlib import Path

import numpy as np

from deadweight import domains
from deadweight.domains import N_ACTIONS, after_action, status_changes
from deadweight.tools.arithmetic import softmax
from deadweight.tools.files import write_whole
from deadweight.typing import FloatArray

STEP_SIZE = 0.01
DISCOUNT = 0.99
TEMPERATURE = 2.0
SEED = 2024


def train(
    length: int = 5,
    iterations: Sequence[int] = (19, 20),
    blocks: int = 50,
    steps: int = 5_000,
    seed: int = SEED,
) -> list[FloatArray]:
    """Softmax policies of the learnt Q after the given iterations, each (S, 6).

    Args:
      length: side of the grid.
      iterations: after which iterations (counted from 1) to take the policy.
      blocks, steps: blocks an iteration, and steps a block; each block starts afresh.
      seed: of the whole training.

    Example:
      >>> pi_b, pi_e = train(length=2, iterations=(1, 2), blocks=1, steps=100)
      >>> pi_e.shape
      (320, 6)
    """
    rng = np.random.default_rng(seed)
    q = np.zeros((80 * length * length, N_ACTIONS)).tolist()
    # exp(Q / temperature) beside Q: a step changes one entry, and choosing needs all six.
    weights = np.ones((80 * length * length, N_ACTIONS)).tolist()
    world = _World(length)
    taken = {}
    for iteration in range(1, max(iterations) + 1):
        for _ in range(blocks):
            _run_block(q, weights, world, steps, rng)
        if iteration in iterations:
            taken[iteration] = softmax(np.array(q) / TEMPERATURE)
    return [taken[iteration] for iteration in iterations]


class _World:
    """The exact domain as plain lists, which single steps read faster than arrays."""

    def __init__(self, length: int) -> None:
        result, rewards = after_action(length)
        self.length = length
        self.result = result.tolist()
        self.rewards = rewards.tolist()
        self.status_cdf = status_changes().cumsum(axis=1)

    def start(self, rng: np.random.Generator) -> int:
        """An empty taxi anywhere, any passengers waiting."""
        return 4 + 5 * int(rng.integers(16 * self.length * self.length))


def _run_block(
    q: list[list[float]], weights: list[list[float]], world: _World, steps: int, rng: np.random.Generator
) -> None:
    """One block of Q-learning, in place."""
    choice = rng.random(steps).tolist()
    destination = rng.integers(3, size=steps).tolist()
    # For each step, where each of the 16 sets of waiting passengers would turn to.
    turns = (world.status_cdf[None] <= rng.random((steps, 1, 1))).sum(axis=2).tolist()
    result, rewards = world.result, world.rewards
    state = world.start(rng)
    for t in range(steps):
        row = weights[state]
        left = choice[t] * sum(row)
        action = 0
        while action < 5 and left >= row[action]:
            left -= row[action]
            action += 1
        middle = result[state][action][destination[t]]
        status = middle // 5 % 16
        following = middle + 5 * (turns[t][status] - status)
        values = q[state]
        target = rewards[state][action] + DISCOUNT * max(q[following])
        values[action] += STEP_SIZE * (target - values[action])
        row[action] = exp(values[action] / TEMPERATURE)
        state = following


def main(arguments: Sequence[str]) -> int:
    """Train both policies and write them to the given file, by default the one in the package."""
    default = Path(domains.__file__).parent / "mdp" / "taxi_policies.npz"
    path = Path(arguments[0]) if arguments else default
    pi_b, pi_e = train()
    rounded = partial(np.savez_compressed, pi_b=pi_b.astype(np.float32), pi_e=pi_e.astype(np.float32))
    write_whole(path, rounded)
    sys.stdout.write(f"Wrote {path}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
