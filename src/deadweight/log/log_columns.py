"""The columns of a log, checked where they enter; after that they are trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.basics.arithmetic import frozen
from deadweight.errors import DataError
from deadweight.log.checks import as_numbers, check_log_probabilities, check_probability_column
from deadweight.log.features import Features, checked_features
from deadweight.log.labels import as_column, plain
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

Where = Callable[[int], str]
"""From a row to its episode and step, in words."""


def check_length(name: str, column: AnyArray, n: int) -> None:
    """Refuse a column that does not have one entry for each step."""
    if column.ndim != 1 or len(column) != n:
        raise DataError(
            f"Every column must have one entry for each step: states have {n}, {name} has shape "
            f"{column.shape}.",
            fix=f"Check that {name} is flat and comes from the same rows as the states.",
        )


def checked_rewards(rewards: npt.ArrayLike, n: int, where: Where) -> FloatArray:
    """(n,) finite rewards."""
    column = as_numbers(rewards, "reward", "Convert the rewards to floating-point numbers.")
    check_length("rewards", column, n)
    bad = np.flatnonzero(~np.isfinite(column))
    if bad.size:
        raise DataError(
            f"Rewards must be finite; found {column[bad[0]]} in {where(int(bad[0]))}"
            + (f" and in {bad.size - 1} more rows." if bad.size > 1 else "."),
            fix="Replace missing or infinite rewards, or leave out their episodes.",
        )
    found: FloatArray = frozen(column)
    return found


def checked_probabilities(
    values: npt.ArrayLike | None, name: str, n: int, positive: bool, where: Where
) -> FloatArray | None:
    """(n,) probabilities of the logged actions, above 0 where they divide; None where there are none."""
    if values is None:
        return None
    column = as_numbers(values, name, "For example [0.5, 0.25, 1.0], one for each step.")
    check_length(name, column, n)
    check_log_probabilities(column, name)
    check_probability_column(column, name, positive, where)
    found: FloatArray = frozen(column)
    return found


def checked_ids(behaviour_ids: npt.ArrayLike, n_episodes: int) -> Labels:
    """(n_episodes,) which old policy each episode was made by."""
    ids = as_column(behaviour_ids, "behaviour_id")
    if ids.shape != (n_episodes,):
        raise DataError(
            f"behaviour_ids must name one old policy for each episode ({n_episodes:,}); found {len(ids):,}.",
            fix="Give one id for each episode, not one for each step.",
        )
    labels: Labels = np.empty(len(ids), dtype=object)
    labels[:] = [plain(label) for label in ids]
    found: Labels = frozen(labels)
    return found


def features_of_steps(features: Any, names: Any, last: Any, n_episodes: int, n: int) -> Features | None:
    """Features of n steps, and what follows the last of each episode; None where there are none."""
    if features is None:
        if names is not None or last is not None:
            raise DataError(
                "feature_names and last_features need features; found none.",
                fix="Give them as well: features=X, with one row for each step.",
            )
        return None
    found = checked_features(features, names, last, n_episodes)
    if len(found.values) != n:
        raise DataError(
            f"features must have one row for each step: {n} steps, {len(found.values)} rows of features.",
            fix="Check that features and actions come from the same rows.",
        )
    return found


def last_successors(
    next_states: npt.ArrayLike | None,
    states: AnyArray,
    offsets: IntArray,
    terminated: BoolArray,
    where: Where,
) -> list[Any]:
    """Per episode the logged successor of a truncated last step, or None."""
    if next_states is None:
        return [None] * len(terminated)
    column = as_column(next_states, "next_state")
    check_length("next_states", column, len(states))
    last, is_state = offsets[1:] - 1, _visits_minus_one(states)
    _check_successors(column, states, last, is_state, where)
    return [
        None if ended or _is_unknown(column[row], is_state) else column[row]
        for ended, row in zip(terminated, last, strict=True)
    ]


def _check_successors(
    column: AnyArray, states: AnyArray, last: IntArray, is_state: bool, where: Where
) -> None:
    """Refuse next states within an episode that are not those that follow."""
    inner = np.ones(len(states), dtype=bool)
    inner[last] = False
    rows = np.flatnonzero(inner)
    unequal = rows[column[rows] != states[rows + 1]]
    wrong = [row for row in unequal if not _is_unknown(column[row], is_state)]
    if wrong:
        row = int(wrong[0])
        raise DataError(
            f"next_states must agree with the states that follow; in {where(row)} the next state is "
            f"{plain(column[row])!r} but the following step is in {plain(states[row + 1])!r} "
            f"({len(wrong)} rows like it).",
            fix="Check the order of the steps, or leave next_states out except at truncated last steps.",
        )


def _visits_minus_one(states: AnyArray) -> bool:
    """Whether -1 is a state, and so not a word for nothing."""
    if states.dtype.kind in "iuf":
        return bool((states == -1).any())
    return states.dtype.kind == "O" and any(not isinstance(label, str) and label == -1 for label in states)


def _is_unknown(label: Any, is_state: bool) -> bool:
    """Whether a next state says nothing; `is_state`: whether -1 is a state."""
    return label is None or label != label or (not is_state and not isinstance(label, str) and label == -1)
