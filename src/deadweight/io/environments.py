"""`record`: a log from a policy acting in a Gymnasium environment; `from_minari`: one from a Minari data set.

Observations that are whole numbers become labels of states, those that are rows of numbers become features. A
function of features is called as it is everywhere else, with a matrix, here of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import DataError, MissingExtra, OptionError, PolicyError
from deadweight.io.schema import show
from deadweight.log.labels import joined, plain
from deadweight.log.policies import ONE_BY_ONE, FeaturePolicy, TabularPolicy, as_numpy, classes_of
from deadweight.log.trajectories import Trajectories
from deadweight.typing import AnyArray, FloatArray

Acting = Callable[[Any], npt.ArrayLike]


def record(
    env: Any,
    policy: TabularPolicy | FeaturePolicy | npt.ArrayLike | Acting,
    episodes: int,
    seed: int | None = None,
    *,
    max_steps: int | None = None,
) -> Trajectories:
    """Let a policy act and log what happens, with the probability of every action.

    Args:
      env: a Gymnasium environment with discrete actions, or its id. Discrete observations are the states of
        the log; boxes of numbers are its features.
      policy: (S, A) table, TabularPolicy, or a function from an observation to (A,) probabilities. With
        features: a FeaturePolicy, a function from (m, d) features to (m, A) probabilities or (m,) actions, or
        an object with predict_proba and classes_.
      episodes: how many.
      seed: of the environment and of the actions.
      max_steps: cut episodes here, for environments without a time limit of their own.

    Example:
      >>> log = record("FrozenLake-v1", np.full((16, 4), 0.25), episodes=3, seed=0)
      >>> log.n_episodes, float(log.propensities[0])
      (3, 0.25)
      >>> log = record("CartPole-v1", lambda x: np.full((len(x), 2), 0.5), episodes=3, seed=0)
      >>> log.features.shape == (log.n_steps, 4)
      True
    """
    try:
        import gymnasium
    except ImportError:
        raise MissingExtra("Recording from an environment", "gymnasium") from None
    if episodes < 1:
        raise OptionError(
            f"episodes must be at least 1; found {episodes}.",
            fix="For example record(env, policy, episodes=100, seed=0).",
        )
    world = gymnasium.make(env) if isinstance(env, str) else env
    try:
        described = _are_features(world)
        act = _of_features(policy, world) if described else _of_states(policy, world)
        limits = (max_steps, getattr(getattr(world, "spec", None), "max_episode_steps", None))
        taken = _Record()
        rng = np.random.default_rng(seed)
        for i in range(episodes):
            _episode(world, act, taken, rng, seed if i == 0 else None, max_steps)
        return taken.log(described, min(filter(None, limits), default=None))
    finally:
        if isinstance(env, str):
            world.close()


@dataclass
class _Record:
    """The columns of a log so far, and for each episode how it ended and what came after."""

    states: list[Any] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    propensities: list[float] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])
    terminated: list[bool] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)

    def log(self, described: bool, limit: int | None) -> Trajectories:
        """The log of what happened."""
        columns: dict[str, Any] = {"propensities": self.propensities, "terminated": self.terminated}
        cut = np.diff(self.offsets)[~np.array(self.terminated)]
        time_limit = limit if cut.size and (cut == limit).all() else None
        states = None
        if described:
            columns |= {"features": np.array(self.states), "last_features": np.array(self.after)}
        else:
            states = self.states
            # Inside an episode the state that follows is the next step's.
            following = [*self.states[1:], None]
            for last, state in zip(self.offsets[1:], self.after, strict=True):
                following[last - 1] = state
            columns["next_states"] = following
        return Trajectories(
            states, self.actions, self.rewards, self.offsets, **columns, time_limit=time_limit
        )


def _episode(
    env: Any, act: Acting, taken: _Record, rng: np.random.Generator, seed: int | None, max_steps: int | None
) -> None:
    state = _observed(env.reset(seed=seed)[0])
    ended = cut = False
    while not (ended or cut):
        probs = _checked(act(state), env, state)
        action = int(rng.choice(len(probs), p=probs))
        observation, reward, ended, cut, _ = env.step(action)
        taken.states.append(state)
        taken.actions.append(action)
        taken.rewards.append(float(reward))
        taken.propensities.append(float(probs[action]))
        state = _observed(observation)
        cut = cut or len(taken.states) - taken.offsets[-1] == max_steps
    taken.offsets.append(len(taken.states))
    taken.terminated.append(bool(ended))
    taken.after.append(state)


def _observed(observation: Any) -> Any:
    """A label as a plain value, or features as a flat row of numbers."""
    if isinstance(observation, np.ndarray) and observation.ndim:
        return observation.astype(np.float64).ravel()
    return plain(observation)


def _are_features(env: Any) -> bool:
    """Whether observations are rows of numbers; an error where they are neither that nor labels."""
    for kind, space, allowed in (
        ("observations that are numbers or a box of them", env.observation_space, ("Discrete", "Box")),
        ("discrete actions", env.action_space, ("Discrete",)),
    ):
        if type(space).__name__ not in allowed:
            raise DataError(
                f"Recording needs {kind}; found {space}.",
                fix="Wrap the environment so that it numbers or flattens them (gymnasium.ObservationWrapper, "
                "gymnasium.wrappers.FlattenObservation, ActionWrapper).",
            )
    return type(env.observation_space).__name__ == "Box"


def _of_states(policy: Any, env: Any) -> Acting:
    """A policy over labels as a function of one of them, to probabilities of the environment's actions."""
    if callable(policy):
        acting: Acting = policy
        return acting
    table = policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy)
    labels = range(table.n_states) if table.state_labels is None else table.state_labels
    probs = table.probs
    if table.action_labels is not None:
        size = int(env.action_space.n)
        probs = np.zeros((table.n_states, size))
        probs[:, [_number(label, size) for label in table.action_labels]] = table.probs
    rows = {plain(label): row for label, row in zip(labels, probs, strict=True)}

    def act(state: Any) -> FloatArray:
        if state not in rows:
            raise PolicyError(
                f"The policy has {table.n_states} states and none is state {state!r}, where it has to act.",
                fix="Give it a row for every state of the environment.",
            )
        return np.asarray(rows[state])

    return act


def _of_features(policy: Any, env: Any) -> Acting:
    """A policy over features as a function of one row of them."""
    actions = None
    if hasattr(policy, "predict_proba"):
        f, actions = policy.predict_proba, classes_of(policy, "The policy")
    elif isinstance(policy, FeaturePolicy):
        f, actions = policy.f, policy.actions
    elif callable(policy):
        f = policy
    else:
        raise PolicyError(
            f"Observations are features here, and the policy is none of them: found {type(policy).__name__}.",
            fix="Pass a function from (m, d) features to (m, A) probabilities or (m,) actions.",
        )
    size = int(env.action_space.n)

    def act(x: FloatArray) -> FloatArray:
        try:
            answer = as_numpy(f(x[None]))
        except Exception as error:
            raise PolicyError(
                f"The policy failed on features of shape (1, {len(x)}): {type(error).__name__}: {error}.",
                fix=f"It gets a matrix of features, here of one row. {ONE_BY_ONE}",
            ) from error
        probs = np.zeros(size)
        if answer.ndim == 1 and len(answer) == 1:
            probs[_number(answer[0], size)] = 1.0
            return probs
        if answer.ndim != 2 or len(answer) != 1 or (actions is None and answer.shape[1] != size):
            raise PolicyError(
                f"For (m, d) features a policy returns (m, {size}) probabilities or (m,) actions; for (1, "
                f"{len(x)}) it returned shape {answer.shape}.",
                fix=f"Return one row for each row of features. {ONE_BY_ONE}",
            )
        for place, probability in enumerate(answer[0]):
            probs[place if actions is None else _number(actions[place], size)] = probability
        return probs

    return act


def _number(action: Any, size: int) -> int:
    """The number of an action in the environment."""
    number = plain(action)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < size:
        raise PolicyError(
            f"Actions of this environment are numbers from 0 to {size - 1}; the policy names {number!r}.",
            fix="Let the policy return the environment's numbers of actions.",
        )
    return number


def _checked(probs: npt.ArrayLike, env: Any, state: Any) -> FloatArray:
    values = np.asarray(probs, dtype=np.float64)
    if values.shape != (env.action_space.n,) or not (values >= 0).all() or abs(values.sum() - 1) > 1e-6:
        raise PolicyError(
            f"In state {state!r} the policy must give {env.action_space.n} probabilities that sum to 1; "
            f"found shape {values.shape}, sum {values.sum():.6g}.",
            fix="For example [0.5, 0.5] in an environment with two actions.",
        )
    return np.asarray(values / values.sum())


# --- Minari

PROBABILITIES = ("behaviour_prob", "behavior_prob", "propensity")
"""Where an info holds the behaviour probability. Not `prob`: in Gymnasium that is the transition's."""


def from_minari(name_or_dataset: Any, *, state: Callable[[Any], Any] | None = None) -> Trajectories:
    """A log from a Minari data set on this machine.

    Behaviour probabilities are taken from the infos (`behaviour_prob` or `propensity`) if all episodes have
    them.
    Truncated episodes keep their last observation as the state that would have followed.

    Args:
      name_or_dataset: an id such as "my/lift-v0", or a MinariDataset.
      state: from an episode's observations, T + 1 of them, to as many state labels. Without it observations
        that are not whole numbers are features.

    Example:
      >>> log = from_minari("my/lift-v0")  # doctest: +SKIP
    """
    episodes = list(_load(name_or_dataset).iterate_episodes())
    if not episodes:
        raise DataError(
            "A log needs at least one episode; the data set has none.",
            fix="Take a data set with episodes: `minari list remote` shows some.",
        )
    lengths = [len(episode.rewards) for episode in episodes]
    states, successors = _described(episodes, lengths, state)
    probs = [_probabilities(episode.infos, n) for episode, n in zip(episodes, lengths, strict=True)]
    logged = [p for p in probs if p is not None]
    return Trajectories(
        states,
        joined([_actions(episode.actions, n) for episode, n in zip(episodes, lengths, strict=True)]),
        np.concatenate([np.asarray(episode.rewards, dtype=np.float64) for episode in episodes]),
        np.concatenate([[0], np.cumsum(lengths)]),
        propensities=np.concatenate(logged) if len(logged) == len(probs) else None,
        terminated=[bool(episode.terminations[-1]) for episode in episodes],
        **successors,
    )


def _described(
    episodes: list[Any], lengths: list[int], state: Callable[[Any], Any] | None
) -> tuple[AnyArray | None, dict[str, Any]]:
    """The states' labels and what follows each; or None, and features with those after the last steps."""
    observed = [(episode.observations, n) for episode, n in zip(episodes, lengths, strict=True)]
    first = episodes[0].observations
    if state is None and isinstance(first, np.ndarray) and first.dtype.kind == "f":
        rows = [_rows(observations, n) for observations, n in observed]
        features = np.concatenate([of_episode[:-1] for of_episode in rows])
        return None, {"features": features, "last_features": np.stack([row[-1] for row in rows])}
    labels = [_states(observations, n, state) for observations, n in observed]
    following = joined([of_episode[1:] for of_episode in labels])
    return joined([of_episode[:-1] for of_episode in labels]), {"next_states": following}


def _load(name_or_dataset: Any) -> Any:
    if not isinstance(name_or_dataset, str):
        if not hasattr(name_or_dataset, "iterate_episodes"):
            raise DataError(
                "Expected the id of a Minari data set or a MinariDataset; found "
                f"{type(name_or_dataset).__name__}.",
                fix='For example from_minari("D4RL/minigrid/fourrooms-v0").',
            )
        return name_or_dataset
    try:
        import minari
    except ImportError:
        raise MissingExtra("Reading Minari data sets", "minari") from None
    try:
        return minari.load_dataset(name_or_dataset)
    except (OSError, ValueError, KeyError) as error:
        here = sorted(minari.list_local_datasets())
        raise DataError(
            f"No readable Minari data set {show(name_or_dataset)} on this machine "
            f"({type(error).__name__}); found {', '.join(here) or 'none'}.",
            fix=f"Download it first: minari download {name_or_dataset}",
        ) from None


def _rows(observations: Any, length: int) -> FloatArray:
    """(T + 1, d) the observations of an episode as rows of numbers."""
    values = np.asarray(observations, dtype=np.float64)
    if values.ndim == 0 or len(values) != length + 1:
        raise DataError(
            f"An episode must have {length + 1} observations; found shape {values.shape}.",
            fix="Write the episode anew with minari: one observation more than actions.",
        )
    return values.reshape(length + 1, -1)


def _states(observations: Any, length: int, state: Callable[[Any], Any] | None) -> AnyArray:
    labels = as_numpy(observations if state is None else state(observations))
    if state is None and labels.dtype.kind not in "iub":
        raise DataError(
            f"Observations must be whole numbers; found {type(observations).__name__} of {labels.dtype}.",
            fix="Pass state=, a function from an episode's observations to one label each.",
        )
    return _one_label_each(labels, length + 1, "observations")


def _actions(actions: Any, length: int) -> AnyArray:
    labels = as_numpy(actions)
    if labels.dtype.kind not in "iub":
        raise DataError(
            f"Actions must be discrete; found {type(actions).__name__} of {labels.dtype}.",
            fix="Continuous actions have no ratio of probabilities here: bin them before they are logged.",
        )
    return _one_label_each(labels, length, "actions")


def _one_label_each(labels: AnyArray, length: int, what: str) -> AnyArray:
    if labels.ndim == 0 or len(labels) != length:
        raise DataError(
            f"An episode must have {length} {what}; found shape {labels.shape}.",
            fix="Write the episode anew with minari: one entry for each step.",
        )
    flat = labels.reshape(length, -1)
    if flat.shape[1] == 1:
        return flat[:, 0]
    column = np.empty(length, dtype=object)  # several whole numbers: one label, a tuple
    column[:] = [tuple(row) for row in flat.tolist()]
    return column


def _probabilities(infos: Any, length: int) -> FloatArray | None:
    for key in PROBABILITIES:
        if isinstance(infos, dict) and key in infos:
            values = np.asarray(infos[key], dtype=np.float64).ravel()
            return values[-length:]  # slot 0 of length + 1 is that of reset
    return None
