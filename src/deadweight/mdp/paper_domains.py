"""The lift domains (Section VI.A of the paper): a line on which most states move the agent by themselves.

Positions -b+1..b-1 with the bounds -b and b terminal; index = position + b - 1; actions left, right. Only
at the start and next to the bounds does the action decide; everywhere else a lift carries the agent away from
the start. Each move costs 1, and the bound pays its own coordinate.
"""

from __future__ import annotations

from importlib import resources
from math import erfc, sqrt
from typing import Any

import numpy as np

from deadweight.errors import OptionError, PolicyError
from deadweight.mdp.problem import Problem, as_policy, simulate, softmax, uniform
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import FloatArray, IntArray

LIFT_REWARD = -1.0


def deterministic_lift(size: int) -> Problem:
    """The lift without noise: pi_e always goes right (value 1), pi_b tosses a coin (value -b - 1).

    Args:
      size: number of positions, bounds included: odd, at least 5; b = size // 2.

    Example:
      >>> deterministic_lift(17).behaviour_value
      -9.0
    """
    mdp = _lift(size, delta=0.0, reversed_pays_bound=True)
    pi_e = as_policy(np.tile([0.0, 1.0], (mdp.n_states, 1)), mdp)
    return Problem(f"deterministic lift {size}", mdp, pi_e, uniform(mdp))


def stochastic_lift(size: int, delta: float = 0.05, reward: str = "exact") -> Problem:
    """The lift in which every move is reversed with probability delta, and so is pi_e's choice.

    Args:
      size: number of positions, bounds included: odd, at least 5.
      delta: probability of a reversed move, and of pi_e going left.
      reward: "exact" pays every arrival at a bound its coordinate; "published" pays -1 for a reversed move
        into a bound, as the reference values of the paper do.

    Example:
      >>> [round(stochastic_lift(7, reward=reward).true_value, 10) for reward in ("exact", "published")]
      [-1.0496521162, -0.9932554494]
    """
    if not 0.0 <= delta < 1.0:
        raise OptionError(
            f"delta must be a probability below 1; found {delta!r}.",
            fix="For example stochastic_lift(11, delta=0.05).",
        )
    if reward not in ("exact", "published"):
        raise OptionError(
            f"reward must be 'exact' or 'published'; found {reward!r}.",
            fix="For example stochastic_lift(11, reward='exact').",
        )
    mdp = _lift(size, delta, reversed_pays_bound=reward == "exact")
    pi_e = as_policy(np.tile([delta, 1.0 - delta], (mdp.n_states, 1)), mdp)
    name = f"stochastic lift {size}" + ("" if reward == "exact" else ", published reward")
    return Problem(name, mdp, pi_e, uniform(mdp))


def _lift(size: int, delta: float, reversed_pays_bound: bool) -> TabularMDP:
    if size != int(size) or size < 5 or size % 2 == 0:
        raise OptionError(
            f"The size of a lift is odd and at least 5; found {size!r}.",
            fix="The paper uses 7, 9, 11, 13, 15 and 17.",
        )
    b = int(size) // 2
    n = 2 * b - 1
    P = np.zeros((n, 2, n + 1))
    R = np.zeros_like(P)
    for position in range(-b + 1, b):
        s = position + b - 1
        lifted = position != 0 and abs(position) != b - 1
        for action, direction in enumerate((-1, 1)):
            intended = int(np.sign(position)) if lifted else direction
            for step, probability in ((intended, 1.0 - delta), (-intended, delta)):
                end = position + step
                target = n if abs(end) == b else end + b - 1
                paid = abs(end) == b and (reversed_pays_bound or step == intended)
                P[s, action, target] += probability
                R[s, action, target] = end if paid else LIFT_REWARD
    d0 = np.zeros(n)
    d0[b - 1] = 1.0
    return TabularMDP(P, R, d0)


# --------------------------------------------------------------------------------------------------------
# Evaluation policies for inventory management: policy gradient as in the paper, and a softened optimum.

EPISODES = 500
BATCH = 10
LEARNING_RATE = 0.5
SEED = 2024


def policy_gradient(mdp: TabularMDP) -> FloatArray:
    r"""A softmax policy after 500 episodes of REINFORCE, in batches of 10; (S, A).

    .. math:: \theta \mathrel{+}= \alpha \sum_t A_t \nabla \log \pi_\theta(a_t | s_t)

    A_t is the return to go less its mean over the batch at the same step, in units of its standard
    deviation. The paper's own policy was not published; this one is the same for everybody.

    Reference: Williams (1992).
    """
    rng = np.random.default_rng(SEED)
    theta = np.zeros(mdp.r.shape)
    for _ in range(EPISODES // BATCH):
        probs = softmax(theta)
        log = simulate(mdp, probs, BATCH, rng)
        rewards = log.rewards.reshape(BATCH, -1)
        to_go = rewards[:, ::-1].cumsum(axis=1)[:, ::-1]
        advantage = to_go - to_go.mean(axis=0)
        advantage /= advantage.std() + 1e-12
        pair = log.states * mdp.n_actions + log.actions
        push = np.bincount(pair, advantage.ravel(), theta.size).reshape(theta.shape)
        gradient = push - probs * push.sum(axis=1, keepdims=True)
        theta += LEARNING_RATE * gradient / BATCH
    return softmax(theta)


def softened_optimal(mdp: TabularMDP, greed: float = 0.8) -> FloatArray:
    """The greedy policy of Q* at the first step, with probability `greed`, else a uniform action; (S, A)."""
    v = np.zeros(mdp.n_states + 1)
    q = mdp.r
    for _ in range(mdp.horizon or 1):
        q = mdp.r + np.asarray(mdp.P @ v).reshape(mdp.r.shape)
        v[:-1] = q.max(axis=1)
    greedy = np.eye(mdp.n_actions)[q.argmax(axis=1)]
    return np.asarray(greed * greedy + (1.0 - greed) / mdp.n_actions, dtype=np.float64)


# --------------------------------------------------------------------------------------------------------
# Inventory management (Section VI.B and Appendix E of the paper): how much to order against random demand.
#
# The state is the stock, 0..S-1, the action the units ordered, cut to the room left. Demand is Gaussian with
# mean S/4 and standard deviation S/6, made whole by rounding or by the ceiling; what is not sold stays.
# The paper computes its reference value with the ceiling and simulates with rounding: two MDPs.

PURCHASE_COST = 2.49
SALE_PRICE = 3.99
HOLDING_COST = 0.03
POLICIES = {"policy-gradient": policy_gradient, "softened-optimal": softened_optimal}


def inventory(
    S: int = 10,
    demand: str = "round",
    reward: str = "textbook",
    horizon: int = 100,
    *,
    pi_e: Any = "policy-gradient",
) -> Problem:
    """Inventory management with a uniform behaviour policy.

    Args:
      S: number of stock levels, 0..S-1.
      demand: "round" or "ceil", how Gaussian demand becomes whole units.
      reward: "textbook" pays for the units sold; "published" repeats the paper's expected reward, which takes
        the probabilities of the next stock (under "ceil") for those of the demand.
      horizon: steps of an episode.
      pi_e: "policy-gradient" (500 seeded episodes, as in the paper), "softened-optimal", or a policy: a
        `TabularPolicy`, an (S, S) array, or the path of an .npy file.

    Example:
      >>> problem = inventory(pi_e="softened-optimal")
      >>> round(problem.true_value, 4), round(problem.behaviour_value, 4)
      (349.4761, 335.6075)
    """
    if int(S) != S or S < 2:
        raise OptionError(
            f"S, the number of stock levels, must be at least 2; found {S!r}.",
            fix="For example inventory(10).",
        )
    if demand not in ("round", "ceil"):
        raise OptionError(
            f"demand must be 'round' or 'ceil'; found {demand!r}.",
            fix="For example inventory(demand='round').",
        )
    if reward not in ("textbook", "published"):
        raise OptionError(
            f"reward must be 'textbook' or 'published'; found {reward!r}.",
            fix="For example inventory(reward='textbook').",
        )
    if isinstance(pi_e, str) and pi_e not in POLICIES and not pi_e.endswith(".npy"):
        raise OptionError(
            f"pi_e must be 'policy-gradient', 'softened-optimal', an .npy file or a policy; found {pi_e!r}.",
            fix="For example inventory(pi_e='softened-optimal').",
        )
    mdp = _inventory(int(S), demand, reward, horizon)
    probs = POLICIES[pi_e](mdp) if isinstance(pi_e, str) and pi_e in POLICIES else pi_e
    return Problem(f"inventory {S}, {demand}, {reward}", mdp, as_policy(probs, mdp), uniform(mdp))


def _inventory(S: int, demand: str, reward: str, horizon: int) -> TabularMDP:
    stock, order = np.indices((S, S))
    ordered = np.minimum(order, S - 1 - stock)
    available = stock + ordered  # (S, A)
    P = _leftover(S, demand)[available]
    cost = PURCHASE_COST * ordered + HOLDING_COST * available
    left = np.arange(S)
    if reward == "textbook":
        R = SALE_PRICE * (available[:, :, None] - left) - cost[:, :, None]
    else:
        R = SALE_PRICE * (_leftover(S, "ceil")[available] @ left) - cost
    return TabularMDP(P, R, np.eye(S)[0], horizon)


def _leftover(S: int, demand: str) -> FloatArray:
    """Row y: the distribution of the stock left from y units after one step's demand, (S, S)."""
    # Demand d covers what is at most d + 1/2 when rounded, at most d under the ceiling.
    edge = np.arange(S) + (0.5 if demand == "round" else 0.0)
    above = np.array([0.5 * erfc((x - S / 4) / (S / 6) / sqrt(2)) for x in edge])  # P(demand > d)
    exactly = -np.diff(above, prepend=1.0)
    table = np.zeros((S, S))
    for y in range(S):
        table[y, 1 : y + 1] = exactly[:y][::-1]
        table[y, 0] = 1.0 - table[y, 1:].sum()
    return table


# --------------------------------------------------------------------------------------------------------
# The taxi domain (Section VI.C of the paper, after Liu et al. 2018): a grid with passengers at its corners.
#
# State index = taxi + 5 * (status + 16 * (length * x + y)): `taxi` is the destination corner of the
# passenger on board, or 4 when empty; bit c of `status` says that somebody waits at corner c. Actions: x+1,
# y+1, x-1, y-1, pick up, drop off. After every action passengers appear and vanish at the corners. The task
# never ends.

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
            fix="Pass pi_e and pi_b, for example from deadweight_studies.taxi_training.train(length).",
        )
    policies = {
        name: as_policy(shipped_policy(name) if policy is None else policy, mdp)
        for name, policy in given.items()
    }
    return Problem(f"taxi {length}, H = {horizon}", mdp, policies["pi_e"], policies["pi_b"])


def shipped_policy(name: str) -> FloatArray:
    """The trained policy "pi_e" or "pi_b" of the 5 x 5 grid, (2000, 6)."""
    file = resources.files("deadweight.mdp") / "taxi_policies.npz"
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
