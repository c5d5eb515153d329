"""Worlds: where the episodes of an experiment come from, and what their estimates are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from deadweight.domains import Problem, deterministic_lift, inventory, stochastic_lift, taxi
from deadweight.domains.legacy import lift_log, taxi_log
from deadweight.errors import PolicyError
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import policy_value
from deadweight.studies.reproduction.paper import INVENTORY_VALUE
from deadweight.studies.reproduction.protocols import Protocol
from deadweight.studies.reproduction.spec import EXPERIMENTS, LIFT_SIZES
from deadweight.theory import cramer_rao
from deadweight.typing import FloatArray

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
    found = []
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
        found.append(np.asarray(probs, dtype=np.float64))
    return found[0], found[1]


def exact_bound(problem: Problem, episodes: int, pooled: bool) -> float:
    """The Cramer-Rao bound on the variance of an unbiased estimate from so many episodes.

    `pooled`: for a model known to be the same at all times, whose visits add up.
    """
    return cramer_rao(problem.mdp, problem.pi_e, problem.pi_b, homogeneous=pooled) / episodes
