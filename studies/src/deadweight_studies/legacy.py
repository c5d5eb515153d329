"""Logs from numpy's legacy random stream: the very episodes behind the paper's tables.

The deterministic lift seeds every episode on its own; taxi seeds a run and draws actions and environment
from one stream. numpy promises that stream for ever, so the same seeds give the same episodes. For logs
that need not match the paper, `Problem.sample` is the better way.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from deadweight.domains import (
    APPEAR,
    DROP_OFF,
    EMPTY,
    N_ACTIONS,
    PICK_UP,
    VANISH,
    after_action,
    corners,
    deterministic_lift,
)
from deadweight.errors import PolicyError
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import FloatArray, IntArray

WORDS_A_STEP = 10  # one uniform for the action and one for each corner, two words each


def lift_log(size: int, run: int, episodes: int = 1000) -> Trajectories:
    """Run `run` of the deterministic lift: episode k has seed 1000 * run + k and one uniform a step.

    The action is right when the uniform is at least one half.

    Example:
      >>> lift_log(7, run=0, episodes=2).lengths
      array([3, 3])
    """
    mdp = deterministic_lift(size).mdp
    seeds = 1000 * run + np.arange(episodes)
    stream = np.random.RandomState()
    steps = 16
    while True:
        uniforms = np.empty((episodes, steps))
        for row, seed in zip(uniforms, seeds.tolist(), strict=True):
            stream.seed(seed)
            row[:] = stream.random_sample(steps)
        states, lengths = _follow(mdp, (uniforms >= 0.5).astype(np.int64))
        if (lengths <= steps).all():
            break
        steps *= 2  # a few episodes are longer: the same seeds, drawn further
    within = np.arange(steps) < lengths[:, None]
    actions = (uniforms >= 0.5).astype(np.int64)[within]
    pair = states[within] * 2 + actions
    rewards = mdp.r.ravel()[pair]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Trajectories(states[within], actions, rewards, offsets, np.full(pair.size, 0.5))


def _follow(mdp: TabularMDP, actions: Any) -> tuple[Any, Any]:
    """States (n, steps) that the deterministic moves pass through, and lengths (steps + 1: not over yet)."""
    moves = mdp.P.indices.reshape(mdp.n_states, mdp.n_actions)  # one entry a row
    moves = np.vstack([moves, np.full((1, mdp.n_actions), mdp.n_states)])  # the end stays the end
    states = np.empty((actions.shape[0], actions.shape[1] + 1), dtype=np.int64)
    states[:, 0] = mdp.d0.argmax()
    for t in range(actions.shape[1]):
        states[:, t + 1] = moves[states[:, t], actions[:, t]]
    ended = states == mdp.n_states
    lengths = np.where(ended.any(axis=1), ended.argmax(axis=1), states.shape[1])
    return states[:, :-1], lengths


def taxi_log(pi: Any, seed: int, episodes: int = 100, horizon: int = 50, length: int = 5) -> Trajectories:
    """Taxi rollouts of one policy from one legacy seed, environment and actions sharing the stream.

    Args:
      pi: a `TabularPolicy` or (S, 6) probabilities.
      seed: run k of the paper has seed k, for the behaviour rollouts and again for the target rollouts.
      episodes, horizon: rollouts and steps of each.
      length: side of the grid.

    The draws are those of `RandomState`: `randint` masks one 32-bit word (again while it is too large),
    `rand` takes two words, `choice` is one `rand` against the cumulative probabilities. They are read here
    from a block of words, since a call for each would cost 50 times as much.
    """
    probs = np.asarray(getattr(pi, "probs", pi), dtype=np.float64)
    if probs.shape != (80 * length * length, N_ACTIONS):
        raise PolicyError(
            f"A taxi policy needs shape {(80 * length * length, N_ACTIONS)}; found {probs.shape}.",
            fix="For example taxi(5), whose policies have shape (2000, 6).",
        )
    states, actions, last = _taxi_rollouts(probs, seed, episodes, horizon, length)
    _, rewards = after_action(length)
    following = np.append(states[1:], -1)
    following[horizon - 1 :: horizon] = last
    return Trajectories(
        states,
        actions,
        rewards[states, actions],
        np.arange(0, episodes * horizon + 1, horizon),
        probs[states, actions],
        terminated=np.zeros(episodes, dtype=bool),
        next_states=following,
    )


def _taxi_rollouts(
    probs: FloatArray, seed: int, episodes: int, horizon: int, length: int
) -> tuple[IntArray, IntArray, IntArray]:
    """States and actions of all steps, and the state after each rollout."""
    cdf = probs.cumsum(axis=1)
    cdf_of = (cdf / cdf[:, -1:]).tolist()
    corner_of = {length * x + y: corner for corner, (x, y) in enumerate(corners(length))}
    moved = (after_action(length)[0][::80, :PICK_UP, 0] // 80).tolist()  # cell and move to cell
    # Destinations and rejected words take less than a word a step: the margin covers them many times over.
    words = np.random.RandomState(seed).randint(
        2**32, size=episodes * (horizon * (WORDS_A_STEP + 1) + 50) + 1000, dtype=np.uint32
    )
    uniform, stay, appear = _read_ahead(words)
    low_bits = (words & np.uint32(255)).tolist()

    def randint(at: int, n: int) -> tuple[int, int]:
        mask = (1 << (n - 1).bit_length()) - 1
        while low_bits[at] & mask >= n:
            at += 1
        return low_bits[at] & mask, at + 1

    at = 0
    states, actions, last = [], [], []
    for _ in range(episodes):
        x, at = randint(at, length)
        y, at = randint(at, length)
        status, at = randint(at, 16)
        cell, on_board = length * x + y, EMPTY
        for _ in range(horizon):
            state = on_board + 5 * (status + 16 * cell)
            action = bisect_right(cdf_of[state], uniform[at])
            states.append(state)
            actions.append(action)
            at += 2
            if action < PICK_UP:
                cell = moved[cell][action]
            elif action == DROP_OFF:
                on_board = EMPTY
            elif cell in corner_of and status >> corner_of[cell] & 1:
                corner = corner_of[cell]
                status -= 1 << corner
                on_board, at = randint(at, 4)
                while on_board == corner:
                    on_board, at = randint(at, 4)
            status = status & stay[at] | ~status & appear[at]
            at += 8
        last.append(on_board + 5 * (status + 16 * cell))
    return np.array(states), np.array(actions), np.array(last)


def _read_ahead(words: Any) -> tuple[list[float], list[int], list[int]]:
    """At every position of the stream: the uniform read there, and who stays or appears at the corners."""
    high, low = words[:-1] >> np.uint32(5), words[1:] >> np.uint32(6)
    uniform = (high * 67108864.0 + low) / 9007199254740992.0
    n = uniform.size - 6
    stay, appear = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
    for corner in range(4):
        drawn = uniform[2 * corner : 2 * corner + n]
        stay |= (drawn >= VANISH[corner]).astype(np.uint8) << np.uint8(corner)
        appear |= (drawn < APPEAR[corner]).astype(np.uint8) << np.uint8(corner)
    return uniform.tolist(), stay.tolist(), appear.tolist()
