"""Problem: an exact MDP with the two policies of an off-policy question, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import PolicyError
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.simulate import simulate
from deadweight.mdp.tabular import TabularMDP, policy_table, policy_value
from deadweight.policy.policies import TabularPolicy
from deadweight.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Problem:
    """What is the value of pi_e, seen through episodes of pi_b?

    Attributes:
      name: how reports call it.
      mdp: the exact MDP; its horizon is the problem's.
      pi_e, pi_b: evaluation and behaviour policy.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> problem = deterministic_lift(7)
      >>> problem.true_value, problem.behaviour_value
      (1.0, -4.0)
      >>> problem.sample(episodes=100, seed=0).n_episodes
      100
    """

    name: str
    mdp: TabularMDP
    pi_e: TabularPolicy
    pi_b: TabularPolicy

    @property
    def horizon(self) -> int | None:
        """Steps at which episodes are cut; None when they run until they terminate."""
        return self.mdp.horizon

    @cached_property
    def true_value(self) -> float:
        """The exact value of pi_e, undiscounted."""
        return policy_value(self.mdp, self.pi_e)

    @cached_property
    def behaviour_value(self) -> float:
        """The exact value of pi_b, undiscounted."""
        return policy_value(self.mdp, self.pi_b)

    def sample(self, episodes: int = 1000, seed: int | np.random.SeedSequence = 0) -> Trajectories:
        """A log of pi_b with its propensities."""
        return simulate(self.mdp, self.pi_b, episodes, seed)


def as_policy(policy: Any, mdp: TabularMDP) -> TabularPolicy:
    """A `TabularPolicy`, an (S, A) array or the path of an .npy file, as a policy of this MDP.

    States get their index as label, so that a short log that leaves out most of them is still read right.
    """
    if isinstance(policy, str | Path):
        path = Path(policy)
        try:
            policy = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise PolicyError(
                f"No policy could be read from '{path}': {error}.", fix="Give an .npy file of shape (S, A)."
            ) from None
    probs = policy_table(policy, mdp)
    if isinstance(policy, TabularPolicy) and policy.state_labels is not None:
        return policy
    return TabularPolicy(probs, states=range(mdp.n_states))


def uniform(mdp: TabularMDP) -> TabularPolicy:
    """Every action equally often."""
    return as_policy(np.full(mdp.r.shape, 1.0 / mdp.n_actions), mdp)


def softmax(logits: FloatArray) -> FloatArray:
    """exp(logits) with rows summing to 1."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float64)
