"""Gymnasium: our domains as its environments, and its tables as exact MDPs.

Importing this module registers the domains, under names such as "deadweight/StochasticLift-v0";

    gymnasium.make("deadweight.envs:deadweight/StochasticLift-v0", size=11)

imports it by itself. It needs the extra `gymnasium`, so nothing else of the package imports it.

`FrozenLake-v1`, `Taxi-v4` and `CliffWalking-v1` publish their transition table `P`: their exact values then
come from `policy_value`, and their exact variances from `deadweight.theory`, instead of from rollouts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deadweight import domains
from deadweight.errors import MDPError, MissingExtra
from deadweight.mdp.problem import RowSampler
from deadweight.mdp.tabular import TabularMDP

try:
    import gymnasium
except ImportError:
    raise MissingExtra("Registering environments", "gymnasium") from None

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "deadweight/DeterministicLift-v0": {"domain": "deterministic_lift", "size": 17},
    "deadweight/StochasticLift-v0": {"domain": "stochastic_lift", "size": 11},
    "deadweight/Inventory-v0": {"domain": "inventory"},
    "deadweight/Taxi-v0": {"domain": "taxi"},
}


class DomainEnv(gymnasium.Env[np.int64, np.int64]):
    """One of the four domains, with states and actions as integers.

    Args:
      domain: name of a function of `deadweight.domains`.
      render_mode: always None: there is nothing to see.
      **options: its arguments, such as `size=11` or `horizon=250`.

    The episode ends when the MDP terminates (the observation is then the state it left) and is truncated at
    the MDP's horizon. `info["prob"]` is the probability of the transition that happened.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, domain: str, render_mode: str | None = None, **options: Any) -> None:
        self.problem = getattr(domains, domain)(**options)
        self.render_mode = render_mode
        mdp = self.problem.mdp
        self.observation_space = gymnasium.spaces.Discrete(mdp.n_states)
        self.action_space = gymnasium.spaces.Discrete(mdp.n_actions)
        self._start = RowSampler(mdp.d0, np.array([0, mdp.n_states]))
        self._move = RowSampler(mdp.P.data, mdp.P.indptr)
        self._state, self._steps = -1, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Draw a first state."""
        super().reset(seed=seed)
        self._state = int(self._start.draw(np.zeros(1, dtype=np.int64), self.np_random)[0])
        self._steps = 0
        return np.int64(self._state), {"prob": float(self.problem.mdp.d0[self._state])}

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Draw a transition."""
        mdp = self.problem.mdp
        row = self._state * mdp.n_actions + int(action)
        entry = int(self._move.draw(np.array([row]), self.np_random)[0])
        paid = mdp.r.ravel()[row] if mdp.transition_rewards is None else mdp.transition_rewards[entry]
        following = int(mdp.P.indices[entry])
        self._steps += 1
        terminated = following == mdp.n_states
        if not terminated:
            self._state = following
        truncated = not terminated and self._steps == mdp.horizon
        return np.int64(self._state), float(paid), terminated, truncated, {"prob": float(mdp.P.data[entry])}


def register() -> None:
    """Make the domains known to Gymnasium; doing so twice changes nothing."""
    for name, options in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point="deadweight.envs:DomainEnv", kwargs=options)


def mdp_from_gymnasium(env: Any, horizon: int | None = None, d0: Any = None) -> TabularMDP:
    """The MDP of a Gymnasium environment with a transition table.

    The table is `P[s][a] = [(probability, next state, reward, terminated), ...]`. Entries that repeat a next
    state add up (their rewards average); those flagged terminated lead to termination, wherever they say
    they go.

    Args:
      env: the environment, or its name.
      horizon: None takes the environment's time limit, if it has one.
      d0: (S,) distribution of the first state; None takes the environment's `initial_state_distrib`.

    Example:
      >>> mdp_from_gymnasium("CliffWalking-v1")
      TabularMDP(48 states, 4 actions, 192 transitions, until termination)
    """
    if isinstance(env, str):
        env = gymnasium.make(env)
    table = getattr(env.unwrapped, "P", None)
    if table is None:
        raise MDPError(
            f"{env} has no transition table P.",
            fix="Only environments with a table can be read exactly; record episodes from others.",
        )
    start = getattr(env.unwrapped, "initial_state_distrib", None) if d0 is None else d0
    if start is None:
        raise MDPError(f"{env} does not say where episodes start.", fix="Pass d0, one probability a state.")
    limit = getattr(env.spec, "max_episode_steps", None) if horizon is None else horizon
    return _from_table(table, int(env.observation_space.n), int(env.action_space.n), start, limit)


def _from_table(table: Any, S: int, A: int, d0: Any, horizon: int | None) -> TabularMDP:
    from scipy import sparse

    entries = [
        (s * A + a, S if terminated else int(following), float(probability), float(reward))
        for s in range(S)
        for a in range(A)
        for probability, following, reward, terminated in table[s][a]
        if probability > 0
    ]
    row, column, probs, rewards = (np.array(values) for values in zip(*entries, strict=True))
    shape = (S * A, S + 1)
    P = sparse.csr_array((probs, (row, column)), shape=shape)
    paid = sparse.csr_array((probs * rewards, (row, column)), shape=shape)
    P.sum_duplicates()
    paid.sum_duplicates()  # the same places in the same order: both were built from them
    R = sparse.csr_array((paid.data / P.data, P.indices, P.indptr), shape=shape)
    return TabularMDP(P, R, d0, horizon)


register()


__all__ = ["ENVIRONMENTS", "DomainEnv", "mdp_from_gymnasium", "register"]
