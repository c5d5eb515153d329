"""Episodes as nested lists: flat columns of them, as `Trajectories` takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deadweight.errors import DataError
from deadweight.log.labels import as_column
from deadweight.typing import AnyArray

Nested = Sequence[Sequence[tuple[Any, Any, float]]]


def flat_columns(
    episodes: Nested,
    next_states: Sequence[Sequence[Any]] | None,
    propensities: Sequence[Sequence[float]] | None,
) -> dict[str, Any]:
    """Lists of (state, action, reward), one list an episode, as arguments of `Trajectories`."""
    if len(episodes) == 0:
        raise DataError("A log needs at least one episode; found none.", fix="Pass a list of episodes.")
    lengths = [len(episode) for episode in episodes]
    for name, nested in (("next_states", next_states), ("propensities", propensities)):
        if nested is not None and [len(one) for one in nested] != lengths:
            raise DataError(
                f"{name} must be a list of lists with one entry for each step, like the episodes.",
                fix=f"Give {name} the same nesting as the episodes.",
            )
    _check_steps(episodes)
    steps = [step for episode in episodes for step in episode]
    return {
        "states": as_column([step[0] for step in steps], "state"),
        "actions": as_column([step[1] for step in steps], "action"),
        "rewards": np.array([step[2] for step in steps], dtype=object),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]),
        "propensities": None if propensities is None else [p for one in propensities for p in one],
        "next_states": None if next_states is None else _flatten_labels(next_states),
    }


def _check_steps(episodes: Nested) -> None:
    for i, episode in enumerate(episodes):
        for t, step in enumerate(episode):
            if not isinstance(step, (tuple, list, np.ndarray)) or len(step) != 3:
                raise DataError(
                    f"A step must be (state, action, reward); found {step!r} in episode {i}, step {t}.",
                    fix="Propensities and next states have arguments of their own.",
                )


def _flatten_labels(nested: Sequence[Sequence[Any]]) -> AnyArray:
    """A column of labels in which None marks what is unknown, whatever the other labels are."""
    flat = [label for one in nested for label in one]
    column = np.empty(len(flat), dtype=object)
    column[:] = flat
    return column
