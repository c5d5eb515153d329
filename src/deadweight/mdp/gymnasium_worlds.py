"""Names under which Gymnasium knows the domains, such as "deadweight/StochasticLift-v0".

Gymnasium knows an environment once it has been registered, and importing deadweight must not import
Gymnasium, which most users never need. So `import deadweight.envs` registers the names; Gymnasium does that
import itself where a name says so: `gymnasium.make("deadweight.envs:deadweight/StochasticLift-v0", size=11)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deadweight.errors import MDPError, MissingExtra
from deadweight.mdp.tabular import TabularMDP

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "deadweight/DeterministicLift-v0": {"domain": "deterministic_lift", "size": 17},
    "deadweight/StochasticLift-v0": {"domain": "stochastic_lift", "size": 11},
    "deadweight/Inventory-v0": {"domain": "inventory"},
    "deadweight/Taxi-v0": {"domain": "taxi"},
}


def register() -> None:
    """Make the domains known to Gymnasium; doing so twice changes nothing."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("Registering environments", "gymnasium") from None
    for name, options in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point="deadweight.mdp.gymnasium_envs:DomainEnv", kwargs=options)


# --------------------------------------------------------------------------------------------------------
# From Gymnasium to an exact MDP: environments that publish their transition table `P`.
#
# `FrozenLake-v1`, `Taxi-v4` and `CliffWalking-v1` do. Their exact values then come from `policy_value`, and
# their exact variances from `deadweight.theory`, instead of from rollouts.


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
        try:
            import gymnasium
        except ImportError:
            raise MissingExtra("Making an environment from its name", "gymnasium") from None
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
