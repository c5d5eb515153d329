"""`record`: a log from a policy acting in a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import DataError, MissingExtra, OptionError, PolicyError
from deadweight.log.labels import plain
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy
from deadweight.typing import FloatArray

Acting = Callable[[Any], npt.ArrayLike]


def record(
    env: Any,
    policy: TabularPolicy | npt.ArrayLike | Acting,
    episodes: int,
    seed: int | None = None,
    *,
    max_steps: int | None = None,
) -> Trajectories:
    """Let a policy act and log what happens, with the probability of every action.

    Args:
      env: a Gymnasium environment with discrete observations and actions, or its id.
      policy: (S, A) table, TabularPolicy, or a function from an observation to (A,) probabilities.
      episodes: how many.
      seed: of the environment and of the actions.
      max_steps: cut episodes here, for environments without a time limit of their own.

    Example:
      >>> log = record("FrozenLake-v1", np.full((16, 4), 0.25), episodes=3, seed=0)
      >>> log.n_episodes, float(log.propensities[0])
      (3, 0.25)
    """
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("Recording from an environment", "gymnasium") from None
    if episodes < 1:
        raise OptionError(f"episodes must be at least 1; found {episodes}.")
    world = gymnasium.make(env) if isinstance(env, str) else env
    try:
        return _record(world, _actor(world, policy), episodes, np.random.default_rng(seed), seed, max_steps)
    finally:
        if isinstance(env, str):
            world.close()


def _record(
    env: Any, act: Acting, episodes: int, rng: np.random.Generator, seed: int | None, max_steps: int | None
) -> Trajectories:
    steps: list[tuple[Any, Any, float]] = []
    propensities: list[float] = []
    followers: list[Any] = []
    offsets, terminated = [0], []
    for i in range(episodes):
        state = plain(env.reset(seed=seed if i == 0 else None)[0])
        ended = cut = False
        while not (ended or cut):
            probs = _checked(act(state), env, state)
            action = int(rng.choice(len(probs), p=probs))
            observation, reward, ended, cut, _ = env.step(action)
            steps.append((state, action, float(reward)))
            propensities.append(float(probs[action]))
            state = plain(observation)
            followers.append(state)
            cut = cut or len(steps) - offsets[-1] == max_steps
        offsets.append(len(steps))
        terminated.append(bool(ended))
    return Trajectories(
        [step[0] for step in steps],
        [step[1] for step in steps],
        [step[2] for step in steps],
        offsets,
        propensities=propensities,
        terminated=terminated,
        next_states=_agreeing(followers, [step[0] for step in steps], offsets),
    )


def _agreeing(followers: list[Any], states: list[Any], offsets: list[int]) -> list[Any]:
    """The state after each step; inside an episode it is the next step's."""
    last = {offset - 1 for offset in offsets[1:]}
    return [followers[t] if t in last else states[t + 1] for t in range(len(states))]


def _actor(env: Any, policy: TabularPolicy | npt.ArrayLike | Acting) -> Acting:
    for name, space in (("observations", env.observation_space), ("actions", env.action_space)):
        if type(space).__name__ != "Discrete":
            raise DataError(
                f"Recording needs discrete {name}; found {space}.",
                fix="Wrap the environment so that it numbers them (gymnasium.ObservationWrapper, "
                "ActionWrapper).",
            )
    if callable(policy):
        return policy
    table = policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy)
    labels = range(table.n_states) if table.state_labels is None else table.state_labels
    rows = {plain(label): row for label, row in zip(labels, table.probs, strict=True)}

    def act(state: Any) -> FloatArray:
        if state not in rows:
            raise PolicyError(
                f"The policy has {table.n_states} states and none is state {state!r}, where it has to act.",
                fix="Give it a row for every state of the environment.",
            )
        return np.asarray(rows[state])

    return act


def _checked(probs: npt.ArrayLike, env: Any, state: Any) -> FloatArray:
    values = np.asarray(probs, dtype=np.float64)
    if values.shape != (env.action_space.n,) or not (values >= 0).all() or abs(values.sum() - 1) > 1e-6:
        raise PolicyError(
            f"In state {state!r} the policy must give {env.action_space.n} probabilities that sum to 1; "
            f"found shape {values.shape}, sum {values.sum():.6g}."
        )
    return np.asarray(values / values.sum())
