"""Worlds: where the episodes of an experiment come from, and what their estimates are compared with.

Episodes of the deterministic lift and of taxi come from numpy's legacy random stream, as those behind the
paper's tables: the lift seeds every episode on its own; taxi seeds a run and draws actions and environment
from one stream. numpy promises that stream for ever, so the same seeds give the same episodes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
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
    inventory,
    stochastic_lift,
    taxi,
)
from deadweight.errors import OptionError, PolicyError, did_you_mean
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem
from deadweight.mdp.tabular import TabularMDP, policy_value
from deadweight.theory import cramer_rao
from deadweight.typing import FloatArray, IntArray
from deadweight_studies.reproduction.spec import EXPERIMENTS, INVENTORY_VALUE, LIFT_SIZES, Column, Experiment

# --- Protocols: what the authors' code does, what the equations say, and every step between the two

DISCREPANCIES: Mapping[str, str] = MappingProxyType(
    {
        "D1": "Lift: every size is scored against the value of size 17.",
        "D2": "Stochastic lift: the reference pays -1, not the bound, for a reversed move into a bound.",
        "D3": "INCRIS and the covariance test weigh Var(X) against the squared covariance, not Var(X) / n.",
        "D4": "INCRIS: no limit on the window in the lift domains; the text says 10 everywhere.",
        "D5": "Inventory: the reward takes next-state for demand probabilities; demand is rounded up for the "
        "reference value and rounded in the episodes, so that they belong to different MDPs.",
        "D6": "The doubly robust model takes the cut at the horizon for termination.",
        "D7": "SDRE: longest episode times a mean reward even where episodes terminate; SSDRE keeps w in "
        "dropped states.",
        "D8": "Thresholds of the Q gap are absolute: 50 in inventory management is above every gap and drops "
        "all states.",
        "D9": "WDRSIS never drops the ratio of the first step.",
        "D10": "An unseen action ends the episode with reward 0; the Q test of taxi has yet another model.",
        "D11": "Taxi: the error is that of the reward a step times the squared horizon.",
        "E1": "INCRIS: episodes that have ended enter with A = B = 1.",
        "E2": "Taxi: the reference value is the mean of sampled returns, not the exact one.",
    }
)
"""D1 to D11 change printed numbers or the way to them; E1 and E2 are lesser conventions of the same kind."""

RELATIVE_EPSILON = 0.05
"""Without D8: the threshold as a share of the range of Q at the last step, over the pairs that were seen.

There Q is the mean reward, so the threshold does not grow with the horizon. The range at the first step
would: for taxi with H = 1000 it is 920, made by states that the fitted model cannot leave, and 5 % of it
drops all steps but 3 in 10,000.
"""

BASES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"published": frozenset(DISCREPANCIES), "corrected": frozenset()}
)


@dataclass(frozen=True)
class Protocol:
    """A base, and the switches that are on: `published` has them all, `corrected` none.

    `published-D3-D4` leaves two of them out and `corrected+D1` adds one, so that the effect of each can be
    seen on its own.

    Example:
      >>> without = protocol("published-D3")
      >>> without.has("D3"), without.has("D4"), without.name
      (False, True, 'published-D3')
    """

    base: str
    switches: frozenset[str]

    @property
    def name(self) -> str:
        """The base and what was changed, in order."""
        changed = [
            switch for switch in DISCREPANCIES if (switch in self.switches) != (switch in BASES[self.base])
        ]
        sign = "-" if self.base == "published" else "+"
        return "".join([self.base, *(sign + switch for switch in changed)])

    def has(self, switch: str) -> bool:
        """Whether a switch is on: a quirk of the authors' code is repeated."""
        return switch in self.switches

    @property
    def with_extras(self) -> bool:
        """Whether estimators that the paper left out are made as well."""
        return self.base == "corrected"

    def options(self, experiment: Experiment) -> dict[str, Any]:
        """Options of `deadweight.evaluate`."""
        return {
            "window": None if self.has("D4") and experiment.lift else 10,
            "variance": "sample" if self.has("D3") else "estimator",
            "ended_ratios": "one" if self.has("E1") else "absorb",
            "mode": "published" if self.has("D7") else None,
            "drop_first": not self.has("D9"),
            "unseen": "terminate" if self.has("D10") else "pool",
            "solve": "longest",
        }


PUBLISHED = Protocol("published", BASES["published"])
CORRECTED = Protocol("corrected", BASES["corrected"])


def protocol(name: str) -> Protocol:
    """The protocol of a name such as "published", "corrected", "published-D3" or "corrected+D1+D2"."""
    base, *changes = re.split(r"(?=[+-])", name)
    if base not in BASES:
        raise OptionError(
            f"There is no protocol {name!r}.{did_you_mean(base, BASES)}",
            fix="Use published or corrected, or change switches one by one: published-D3, corrected+D1+D2.",
        )
    switches = set(BASES[base])
    for change in changes:
        sign, switch = change[0], change[1:]
        if switch not in DISCREPANCIES:
            raise OptionError(
                f"There is no discrepancy {switch!r}.", fix=f"They are: {', '.join(DISCREPANCIES)}."
            )
        (switches.add if sign == "+" else switches.discard)(switch)
    return Protocol(base, frozenset(switches))


def touching(experiment: Experiment, column: Column) -> tuple[str, ...]:
    """The discrepancies that bear on a column: what a difference to the paper may come from."""
    name, domain, by_q = column.estimator, experiment.name, column.rule == "q"
    doubly_robust = "DR" in name and "SDRE" not in name
    bearing = {
        "D1": domain == "stochastic-lift",
        "D2": domain == "stochastic-lift",
        "D3": "INCRIS" in name or column.rule == "covariance",
        "D4": "INCRIS" in name and experiment.lift,
        "D5": domain == "inventory",
        "D6": doubly_robust and not experiment.lift,
        "D7": "SDRE" in name,
        "D8": by_q,
        "D9": doubly_robust and "SIS" in name,
        "D10": doubly_robust or (by_q and domain == "taxi"),
        "E1": "INCRIS" in name,
        "E2": domain == "taxi",
    }
    return tuple(switch for switch in DISCREPANCIES if bearing.get(switch))


# --- Worlds

SEED = 2024
TAXI_FILES = ("pi19.npy", "pi18.npy")  # pi_e, pi_b


@dataclass(frozen=True, eq=False)
class World:
    """One setting of an experiment under one protocol.

    Attributes:
      problem: the MDP that episodes come from, with both policies.
      log: the episodes of a run.
      reference: what estimates are compared with, unless the runs themselves give it.
      sampled_return: of the evaluation policy in a run, where the reference is the mean of these.
    """

    problem: Problem
    log: Callable[[int], Trajectories]
    reference: float
    sampled_return: Callable[[int], float] | None = None


@lru_cache(maxsize=8)
def world(experiment: str, setting: int, protocol: Protocol, policies: str | None = None) -> World:
    """The world of a setting; `policies` is a folder with taxi policies, None takes those of the package."""
    if experiment == "taxi":
        return _taxi(setting, protocol, policies)
    makers = {"deterministic-lift": _deterministic, "stochastic-lift": _stochastic, "inventory": _inventory}
    return makers[experiment](setting, protocol)


def seed(experiment: str, setting: int, run: int) -> np.random.SeedSequence:
    """The seed of a run: the same whatever else is run, and under every protocol."""
    return np.random.SeedSequence(SEED, spawn_key=(list(EXPERIMENTS).index(experiment), setting, run))


def _deterministic(size: int, protocol: Protocol) -> World:
    problem = deterministic_lift(size)
    scored = deterministic_lift(LIFT_SIZES[-1] if protocol.has("D1") else size)
    return World(problem, lambda run: lift_log(size, run), scored.true_value)


def _stochastic(size: int, protocol: Protocol) -> World:
    problem = stochastic_lift(size)
    scored = stochastic_lift(
        LIFT_SIZES[-1] if protocol.has("D1") else size, reward="published" if protocol.has("D2") else "exact"
    )
    episodes = EXPERIMENTS["stochastic-lift"].episodes
    return World(
        problem, lambda run: problem.sample(episodes, seed("stochastic-lift", size, run)), scored.true_value
    )


def _inventory(episodes: int, protocol: Protocol) -> World:
    problem = _mismatched_inventory() if protocol.has("D5") else inventory()
    reference = INVENTORY_VALUE if protocol.has("D5") else problem.true_value
    return World(problem, lambda run: problem.sample(episodes, seed("inventory", episodes, run)), reference)


@lru_cache(maxsize=1)
def _mismatched_inventory() -> Problem:
    """The published simulator with a policy whose value in the published reference MDP is the paper's.

    The paper's policy is not public. Ours is trained in the same way and mixed with uniform actions until its
    reference value is the printed one, so that errors are on the paper's scale.
    """
    trained = inventory(demand="round", reward="published").pi_e.probs
    scored = inventory(demand="ceil", reward="published", pi_e=trained).mdp
    low, high = 0.0, 1.0  # share of uniform actions; the value falls with it
    for _ in range(60):
        middle = (low + high) / 2
        above = policy_value(scored, _mixed(trained, middle)) > INVENTORY_VALUE
        low, high = (middle, high) if above else (low, middle)
    return inventory(demand="round", reward="published", pi_e=_mixed(trained, high))


def _mixed(probs: FloatArray, share: float) -> FloatArray:
    mixed: FloatArray = (1.0 - share) * probs + share / probs.shape[1]
    return mixed


def _taxi(horizon: int, protocol: Protocol, policies: str | None) -> World:
    pi_e, pi_b = (None, None) if policies is None else taxi_policies(policies)
    problem = taxi(5, horizon, pi_e=pi_e, pi_b=pi_b)
    episodes = EXPERIMENTS["taxi"].episodes

    def log(run: int) -> Trajectories:
        return taxi_log(problem.pi_b, run, episodes, horizon)

    def sampled_return(run: int) -> float:
        return float(taxi_log(problem.pi_e, run, episodes, horizon).rewards.sum() / episodes)

    return World(problem, log, problem.true_value, sampled_return if protocol.has("E2") else None)


def taxi_policies(folder: str) -> tuple[FloatArray, FloatArray]:
    """Evaluation and behaviour policy of taxi, (2000, 6) each, from pi19.npy and pi18.npy in a folder."""
    policies = []
    for name in TAXI_FILES:
        path = Path(folder) / name
        try:
            probs = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise PolicyError(
                f"No policy could be read from '{path}': {error}.",
                fix="--policies takes a folder with pi18.npy (behaviour) and pi19.npy (evaluation).",
            ) from None
        if probs.shape != (2000, 6):
            raise PolicyError(
                f"A taxi policy needs shape (2000, 6); '{path}' has {probs.shape}.",
                fix="--policies is a folder with pi18.npy and pi19.npy of the published code.",
            )
        policies.append(np.asarray(probs, dtype=np.float64))
    return policies[0], policies[1]


def exact_bound(problem: Problem, episodes: int, pooled: bool) -> float:
    """The Cramer-Rao bound on the variance of an unbiased estimate from so many episodes.

    `pooled`: for a model known to be the same at all times, whose visits add up.
    """
    return cramer_rao(problem.mdp, problem.pi_e, problem.pi_b, homogeneous=pooled) / episodes


# --- Episodes from the legacy stream

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
