"""The taxi domain (Section VI.C of the paper, after Liu et al. 2018): a grid with passengers at its corners.

State index = taxi + 5 * (status + 16 * (length * x + y)): `taxi` is the destination corner of the
passenger on board, or 4 when empty; bit c of `status` says that somebody waits at corner c. Actions: x+1,
y+1, x-1, y-1, pick up, drop off. After every action passengers appear and vanish at the corners. The task
never ends.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np

from deadweight.domains.problem import Problem, as_policy
from deadweight.errors import OptionError, PolicyError
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import FloatArray, IntArray

N_ACTIONS = 6
PICK_UP, DROP_OFF = 4, 5
EMPTY = 4
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))
APPEAR = (0.3, 0.05, 0.1, 0.2)
VANISH = (0.05, 0.1, 0.1, 0.05)
STEP_REWARD, DELIVERY_REWARD = -1.0, 20.0


def taxi(length: int = 5, horizon: int = 50, pi_e: Any = None, pi_b: Any = None) -> Problem:
    """The taxi task on a square grid, cut after `horizon` steps.

    Args:
      length: side of the grid; 5 gives the paper's 2,000 states.
      horizon: steps of an episode.
      pi_e, pi_b: a `TabularPolicy`, an (S, 6) array, or the path of an .npy file. None takes the policies
        that come with the package (length 5): Q-learning after 20 (pi_e) and 19 (pi_b) iterations.

    Example:
      >>> taxi(5, horizon=10).mdp
      TabularMDP(2000 states, 6 actions, 197120 transitions, horizon 10)
    """
    if length != int(length) or length < 2:
        raise OptionError(
            f"The side of the grid must be at least 2; found {length!r}.", fix="For example taxi(5)."
        )
    mdp = _taxi(int(length), horizon)
    given = {"pi_e": pi_e, "pi_b": pi_b}
    if (pi_e is None or pi_b is None) and length != 5:
        raise PolicyError(
            f"The package has taxi policies for length 5 only; found length {length}.",
            fix="Pass pi_e and pi_b, for example from deadweight.domains.taxi_training.train(length).",
        )
    policies = {
        name: as_policy(shipped_policy(name) if policy is None else policy, mdp)
        for name, policy in given.items()
    }
    return Problem(f"taxi {length}, H = {horizon}", mdp, policies["pi_e"], policies["pi_b"])


def shipped_policy(name: str) -> FloatArray:
    """The trained policy "pi_e" or "pi_b" of the 5 x 5 grid, (2000, 6)."""
    file = resources.files("deadweight.domains") / "taxi_policies.npz"
    with resources.as_file(file) as path, np.load(path, allow_pickle=False) as stored:
        probs = stored[name].astype(np.float64)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True), dtype=np.float64)


def corners(length: int) -> tuple[tuple[int, int], ...]:
    """Coordinates of the four corners, in the order of the bits of `status`."""
    far = length - 1
    return ((0, 0), (0, far), (far, 0), (far, far))


def after_action(length: int) -> tuple[IntArray, FloatArray]:
    """What an action does before passengers come and go.

    Returns:
      Resulting state indices (S, 6, 3), where a pick-up has three equally likely destinations and other
      entries repeat one state; rewards (S, 6).
    """
    x, y, status, on_board = np.unravel_index(np.arange(length * length * 80), (length, length, 16, 5))
    S = x.size
    result = np.empty((S, N_ACTIONS, 3), dtype=np.int64)
    rewards = np.full((S, N_ACTIONS), STEP_REWARD)

    def index(x: IntArray, y: IntArray, status: IntArray, on_board: IntArray) -> IntArray:
        return np.ravel_multi_index((x, y, status, on_board), (length, length, 16, 5))

    here = index(x, y, status, on_board)
    for action, (dx, dy) in enumerate(MOVES):
        moved = index(np.clip(x + dx, 0, length - 1), np.clip(y + dy, 0, length - 1), status, on_board)
        result[:, action] = moved[:, None]
    result[:, PICK_UP] = here[:, None]
    result[:, DROP_OFF] = index(x, y, status, np.full(S, EMPTY))[:, None]
    for corner, (cx, cy) in enumerate(corners(length)):
        at = (x == cx) & (y == cy)
        # A pick-up needs only a waiting passenger; it gives an occupied taxi a new destination too.
        picks = at & (status >> corner & 1 == 1)
        destinations = np.array([d for d in range(4) if d != corner])
        without = here[picks] - on_board[picks] - 5 * (1 << corner)
        result[picks, PICK_UP] = without[:, None] + destinations
        rewards[at & (on_board == corner), DROP_OFF] = DELIVERY_REWARD
    return result, rewards


def status_changes() -> FloatArray:
    """Probability (16, 16) of the next set of waiting passengers, each corner on its own."""
    table = np.ones((16, 16))
    for corner, (appear, vanish) in enumerate(zip(APPEAR, VANISH, strict=True)):
        one = np.array([[1.0 - appear, appear], [vanish, 1.0 - vanish]])
        bit = np.arange(16) >> corner & 1
        table *= one[np.ix_(bit, bit)]
    return table


def _taxi(length: int, horizon: int) -> TabularMDP:
    from scipy import sparse

    result, rewards = after_action(length)
    S = rewards.shape[0]
    # Of three equal results one is enough, with all the probability.
    weight = np.where(result[:, :, 0] == result[:, :, 1], 1.0, 1.0 / 3.0)
    used = np.ones(result.shape, dtype=bool)
    used[:, :, 1:] = (weight < 1.0)[:, :, None]
    rows = np.repeat(np.arange(S * N_ACTIONS), used.reshape(-1, 3).sum(axis=1))
    middle = result[used]
    chance = np.broadcast_to(weight[:, :, None], result.shape)[used]
    status = middle // 5 % 16
    columns = (middle - 5 * status)[:, None] + 5 * np.arange(16)
    probs = chance[:, None] * status_changes()[status]
    P = sparse.csr_array(
        (probs.ravel(), (np.repeat(rows, 16), columns.ravel())), shape=(S * N_ACTIONS, S + 1)
    )
    d0 = np.zeros(S)
    d0[EMPTY::5] = 5.0 / S
    return TabularMDP(P, rewards, d0, horizon)
