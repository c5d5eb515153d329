"""Domains: the four of the paper as exact MDPs (two lifts, inventory, taxi), a ward, and four with features.

The lifts (Section VI.A): a line on which most states move the agent by themselves. Positions -b+1..b-1 with
the bounds -b and b terminal; index = position + b - 1; actions left, right. Only at the start and next to the
bounds does the action decide; everywhere else a lift carries the agent away from the start. Each move costs
1, and the bound pays its own coordinate.

Inventory management (Section VI.B and Appendix E): how much to order against random demand. The state is the
stock, 0..S-1, the action the units ordered, cut to the room left. Demand is Gaussian with mean S/4 and
standard deviation S/6, made whole by rounding or by the ceiling; what is not sold stays. The paper computes
its reference value with the ceiling and simulates with rounding: two MDPs.

The taxi (Section VI.C, after Liu et al. 2018): a grid with passengers at its corners. State index = taxi +
5 * (status + 16 * (length * x + y)): `taxi` is the destination corner of the passenger on board, or 4 when
empty; bit c of `status` says that somebody waits at corner c. Actions: x+1, y+1, x-1, y-1, pick up, drop off.
After every action passengers appear and vanish at the corners. The task never ends.

The ward: a problem that everybody understands, with three new rules and the truth about each. Every day a
patient is stable, frail, feverish or worsening, and is watched or treated. Treating helps the feverish and
the worsening; for the stable and the frail it changes nothing, but the old rule tosses a coin for them as
well. A stay ends at home (worth 1) or in intensive care (worth 0), so that the value of a rule is the share
of patients who go home well. Numbers are made up. Its log can also be written as a hospital would hand it
over, to try commands on: names of its own, German dates, an outcome on the last day of a stay only, and stays
that were still going on when the data were taken.

Example:
  >>> import deadweight as dw
  >>> dw.domains.deterministic_lift(7).true_value
  1.0
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import resources
from io import StringIO
from math import erfc, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import OptionError, PolicyError
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.feature_worlds import cart_pole, continuous_lift, navigation, sepsis_like
from deadweight.mdp.problem import FeatureProblem, Problem, as_policy, simulate, uniform
from deadweight.mdp.tabular import TabularMDP, policy_value
from deadweight.tools.arithmetic import softmax
from deadweight.tools.files import write_text
from deadweight.typing import FloatArray, IntArray

__all__ = [
    "FeatureProblem",
    "Problem",
    "cart_pole",
    "continuous_lift",
    "deterministic_lift",
    "inventory",
    "navigation",
    "sepsis_like",
    "stochastic_lift",
    "taxi",
    "ward",
]

# --- The lifts.

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
    _check_choice("reward", reward, ("exact", "published"), "stochastic_lift(11, ")
    mdp = _lift(size, delta, reversed_pays_bound=reward == "exact")
    pi_e = as_policy(np.tile([delta, 1.0 - delta], (mdp.n_states, 1)), mdp)
    name = f"stochastic lift {size}" + ("" if reward == "exact" else ", published reward")
    return Problem(name, mdp, pi_e, uniform(mdp))


def _check_choice(name: str, value: str, choices: tuple[str, str], call: str) -> None:
    if value not in choices:
        raise OptionError(
            f"{name} must be '{choices[0]}' or '{choices[1]}'; found {value!r}.",
            fix=f"For example {call}{name}='{choices[0]}').",
        )


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


# --- Inventory management, with pi_e by policy gradient as in the paper, or a softened optimum.

EPISODES, BATCH, LEARNING_RATE, SEED = 500, 10, 0.5, 2024
PURCHASE_COST = 2.49
SALE_PRICE = 3.99
HOLDING_COST = 0.03


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
    _check_choice("demand", demand, ("round", "ceil"), "inventory(")
    _check_choice("reward", reward, ("textbook", "published"), "inventory(")
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


# --- The taxi.

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
    """(2000, 6) the trained policy "pi_e" or "pi_b" of the 5 x 5 grid."""
    file = resources.files("deadweight.mdp") / "taxi_policies.npz"
    with resources.as_file(file) as path, np.load(path, allow_pickle=False) as stored:
        probs = stored[name].astype(np.float64)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True), dtype=np.float64)


def corners(length: int) -> tuple[tuple[int, int], ...]:
    """Coordinates of the four corners, in the order of the bits of `status`."""
    far = length - 1
    return ((0, 0), (0, far), (far, 0), (far, far))


def after_action(length: int) -> tuple[IntArray, FloatArray]:
    """The outcomes of each action before passengers come and go.

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
        change = np.array([[1.0 - appear, appear], [vanish, 1.0 - vanish]])
        bit = np.arange(16) >> corner & 1
        table *= change[np.ix_(bit, bit)]
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


# --- The ward.

STATES = ("stable", "frail", "feverish", "worsening")
ACTIONS = ("watch", "treat")
# What follows a day: stable, frail, feverish, worsening, home, intensive care; one row for each action.
NEXT = {
    "stable": ((0.78, 0.0, 0.10, 0.0, 0.12, 0.0), (0.78, 0.0, 0.10, 0.0, 0.12, 0.0)),
    "frail": ((0.15, 0.80, 0.0, 0.05, 0.0, 0.0), (0.15, 0.80, 0.0, 0.05, 0.0, 0.0)),
    "feverish": ((0.30, 0.0, 0.35, 0.35, 0.0, 0.0), (0.55, 0.0, 0.30, 0.15, 0.0, 0.0)),
    "worsening": ((0.0, 0.30, 0.0, 0.35, 0.0, 0.35), (0.0, 0.60, 0.0, 0.25, 0.0, 0.15)),
}
ARRIVALS = (0.2, 0.2, 0.5, 0.1)


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule for the ward: a name, what it does in words, and the probability of treating in each state."""

    name: str
    words: str
    treats: tuple[float, float, float, float]

    @property
    def policy(self) -> TabularPolicy:
        """The rule as a policy, with labels."""
        probs = [[1 - chance, chance] for chance in self.treats]
        return TabularPolicy(probs, states=STATES, actions=ACTIONS)


OLD = Rule("the old rule", "tosses a coin every day", (0.5, 0.5, 0.5, 0.5))
EARLY = Rule("treat early", "treats fever and decline at once, else watches", (0.1, 0.1, 0.9, 0.9))
WAIT = Rule("wait and see", "hardly ever treats", (0.1, 0.1, 0.15, 0.2))
CALM = Rule("calm days", "watches on calm days, else about as before", (0.1, 0.1, 0.55, 0.5))
RULES = (EARLY, WAIT, CALM)


@dataclass(frozen=True, eq=False)
class Ward:
    """The ward: its exact MDP, logs of the old rule, and the truth about any rule."""

    mdp: TabularMDP

    def truth(self, rule: Rule) -> float:
        """The exact share of patients who go home well."""
        return policy_value(self.mdp, np.array(rule.policy.probs))

    def sample(self, patients: int, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log of the old rule in words."""
        log = simulate(self.mdp, np.array(OLD.policy.probs), patients, seed)
        return Trajectories(
            np.array(STATES)[log.states],
            np.array(ACTIONS)[log.actions],
            log.rewards,
            log.offsets,
            propensities=log.propensities,
            terminated=log.terminated,
        )


def ward() -> Ward:
    """A hospital ward with an old rule, `OLD`, and three new ones: `EARLY`, `WAIT` and `CALM`.

    Example:
      >>> from deadweight.domains import EARLY, OLD
      >>> clinic = ward()
      >>> round(clinic.truth(OLD), 3), round(clinic.truth(EARLY), 3)
      (0.758, 0.872)
      >>> clinic.sample(patients=100, seed=0).n_episodes
      100
    """
    moves = np.array([NEXT[state] for state in STATES])  # (S, A, S + 2)
    home, ends = moves[:, :, 4], moves[:, :, 4:].sum(axis=2)
    transitions: FloatArray = np.concatenate([moves[:, :, :4], ends[:, :, None]], axis=2)
    rewards = np.zeros_like(transitions)
    # A stay from here ends in one way only, so that what an end is worth is known.
    rewards[:, :, 4] = np.divide(home, ends, out=np.zeros_like(home), where=ends > 0)
    return Ward(TabularMDP(transitions, rewards, np.array(ARRIVALS)))


LOG = "stays.csv"
COLUMNS = {
    "episode": "stay_id",
    "step": "morning",
    "state": "condition",
    "action": "decision",
    "reward": "went_home",
    "truncated": "still_there",
}
TIME_FORMAT = "%d.%m.%Y %H:%M"
OPENED = datetime(2025, 1, 1, 8, 0)
LONGEST_STAY = 28


def write_ward_files(folder: Path, patients: int, seed: int) -> list[Path]:
    """Write the log, and a policy file for each new rule, and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / LOG]
    write_text(folder / LOG, _lines(patients, seed))
    for rule in RULES:
        rows = [
            f"{state},{action},{probability:g}"
            for state, chance in zip(STATES, rule.treats, strict=True)
            for action, probability in zip(ACTIONS, (1 - chance, chance), strict=True)
        ]
        path = folder / f"{rule.name.replace(' ', '_')}.csv"
        write_text(path, "\n".join(["state,action,prob", *rows]) + "\n")
        written.append(path)
    return written


def _lines(patients: int, seed: int) -> str:
    log = ward().sample(patients, seed)
    arrivals = np.random.default_rng(seed).integers(0, 365, size=patients)
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS.values())
    for i, (start, end) in enumerate(zip(log.offsets[:-1], log.offsets[1:], strict=True)):
        days, cut = min(end - start, LONGEST_STAY), end - start > LONGEST_STAY
        for t in range(days):
            row, last = start + t, t == days - 1
            morning = OPENED + timedelta(days=int(arrivals[i]) + int(t))
            table.writerow(
                [
                    f"S{i:04d}",
                    morning.strftime(TIME_FORMAT),
                    log.state_labels[log.states[row]],
                    log.action_labels[log.actions[row]],
                    f"{log.rewards[row]:g}" if last and not cut else "",
                    "yes" if last and cut else "no",
                ]
            )
    return text.getvalue()
