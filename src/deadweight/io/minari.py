"""`from_minari`: a log from a Minari data set with discrete actions.

Observations that are whole numbers become labels of states, those that are rows of numbers become features.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deadweight.errors import DataError, MissingExtra
from deadweight.io.findings import show
from deadweight.log.labels import joined
from deadweight.log.trajectories import Trajectories
from deadweight.policy.row_policies import as_numpy
from deadweight.typing import AnyArray, FloatArray

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
    lengths = [len(one.rewards) for one in episodes]
    if state is None and _are_features(episodes[0].observations):
        seen: list[Any] = [_rows(one.observations, n) for one, n in zip(episodes, lengths, strict=True)]
        states = None
        described: dict[str, Any] = {
            "features": np.concatenate([rows[:-1] for rows in seen]),
            "last_features": np.stack([rows[-1] for rows in seen]),
        }
    else:
        seen = [_states(one.observations, n, state) for one, n in zip(episodes, lengths, strict=True)]
        states = joined([labels[:-1] for labels in seen])
        described = {"next_states": joined([labels[1:] for labels in seen])}
    probs = [_probabilities(one.infos, length) for one, length in zip(episodes, lengths, strict=True)]
    return Trajectories(
        states,
        joined([_actions(one.actions, length) for one, length in zip(episodes, lengths, strict=True)]),
        np.concatenate([np.asarray(one.rewards, dtype=np.float64) for one in episodes]),
        np.concatenate([[0], np.cumsum(lengths)]),
        propensities=None
        if any(p is None for p in probs)
        else np.concatenate([p for p in probs if p is not None]),
        terminated=[bool(one.terminations[-1]) for one in episodes],
        **described,
    )


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


def _are_features(observations: Any) -> bool:
    """Whether observations are numbers that are not all whole."""
    return isinstance(observations, np.ndarray) and observations.dtype.kind == "f"


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
