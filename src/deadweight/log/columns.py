"""The columns of a log, checked where they enter; after that they are trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import DataError, EstimationError
from deadweight.log.checks import as_numbers, check_log_probabilities, check_probability_column
from deadweight.log.labels import as_column, plain
from deadweight.tools.arithmetic import freeze_fields, frozen, unmasked
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

# --------------------------------------------------------------------------------------------------------
# Features: numbers that describe the state of each step, checked where they enter.
#
# A log with features has no labels to group its steps by: every row is a state of its own, visited once, and
# so is what follows the last row of an episode that was cut. Whatever is known of such a state is known row
# by row.

# The squares of larger numbers leave the range of doubles.
LARGEST = 1e100
FIX_CELL = "Fill in or leave out such values before; a feature is a finite number in every row."


@dataclass(frozen=True, eq=False)
class Features:
    """What describes the states of a log.

    Attributes:
      values: (steps, d).
      last: (n, d) what follows the last row of each episode; NaN where nobody knows.
      names: (d,) of the columns.
    """

    values: FloatArray
    last: FloatArray
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        freeze_fields(self)

    @property
    def known_last(self) -> BoolArray:
        """(n,) where it is known what follows."""
        return np.asarray(np.isfinite(self.last).all(axis=1))

    def select(self, rows: IntArray, episodes: IntArray) -> Features:
        """Of some episodes, whose rows these are."""
        return Features(self.values[rows], self.last[episodes], self.names)


def checked_features(features: Any, names: Sequence[str] | None, last: Any, n_episodes: int) -> Features:
    """Features as a matrix of finite numbers with names; an error names row and column of what is not.

    Args:
      features: (steps, d), an array or a table whose columns have names.
      names: of the columns; None takes those of the table, or x0, x1, ...
      last: (n, d) what follows each episode; a row of NaN, or None for all, means that nobody knows.
      n_episodes: n.
    """
    own = getattr(features, "columns", None) if names is None else names
    matrix = _matrix(features, "features")
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(
            f"features must have a row for each step and a column for each feature; found shape "
            f"{matrix.shape}.",
            fix="For a single feature pass values[:, None].",
        )
    width = matrix.shape[1]
    called = tuple(f"x{j}" for j in range(width)) if own is None else tuple(str(name) for name in own)
    if len(called) != width or len(set(called)) != width:
        raise DataError(
            f"feature_names must name each of the {width} features once; found {len(called)} names, "
            f"{len(set(called))} of them different.",
            fix="Pass one name for each column of features.",
        )
    values = _numbers(matrix, called, "features")
    _refuse(~(np.abs(values) <= LARGEST), values, called, "features")
    if last is None:
        after: FloatArray = np.full((n_episodes, width), np.nan)
    else:
        after = _checked_last(_matrix(last, "last_features"), called, n_episodes)
    return Features(values, after, called)


def _checked_last(last: AnyArray, names: tuple[str, ...], n_episodes: int) -> FloatArray:
    if last.shape != (n_episodes, len(names)):
        raise DataError(
            f"last_features must have a row for each of the {n_episodes} episodes and a column for each of "
            f"the {len(names)} features; found shape {last.shape}.",
            fix="Give what follows each episode's last step; a row of NaN where nobody knows.",
        )
    values = _numbers(last, names, "last_features")
    unknown = np.isnan(values)
    partly = np.asarray(unknown.any(axis=1) & ~unknown.all(axis=1))
    _refuse((np.abs(values) > LARGEST) | (unknown & partly[:, None]), values, names, "last_features")
    return values


def first_odd_row(rows: Iterable[Any]) -> tuple[int, int, int]:
    """How many values the first row has, which row is the first that has not as many, and how many it has.

    >>> first_odd_row([[1, 2], [3, 4], [5]])
    (2, 2, 1)
    """
    widths = [np.size(row) for row in rows]
    odd = next((i for i, width in enumerate(widths) if width != widths[0]), 0)
    return widths[0], odd, widths[odd]


def _matrix(given: Any, what: str) -> AnyArray:
    """An array of what was given, whose cells are what they were: one text does not make text of all."""
    try:
        found = np.asarray(unmasked(given))
    except ValueError:  # rows of different lengths
        width, odd, other = first_odd_row(given)
        raise DataError(
            f"{what} must have as many columns in every row; row 0 has {width} and row {odd} has {other}.",
            fix="Give every row a value for each feature; fill in or leave out what is missing.",
        ) from None
    return np.array(given, dtype=object) if found.dtype.kind in "US" else found


def _numbers(matrix: AnyArray, names: tuple[str, ...], what: str) -> FloatArray:
    """The matrix as numbers; None counts as missing."""
    if matrix.dtype.kind in "biuf":
        return matrix.astype(np.float64)
    values = np.empty(matrix.shape)
    for (row, column), cell in np.ndenumerate(matrix):
        try:
            if isinstance(cell, str | bytes) or np.iscomplexobj(cell):
                raise TypeError
            values[row, column] = np.nan if cell is None or _is_missing(cell) else float(cell)
        except (TypeError, ValueError):
            raise DataError(
                f"{what} must be numbers; found {plain(cell)!r} in row {row}, column {names[column]!r}.",
                fix="Turn categories into numbers first, such as one column of 0 and 1 for each; a label "
                "for each state goes into states.",
            ) from None
    return values


def _is_missing(cell: Any) -> bool:
    """Whether it is what pandas writes where there is no value; comparing it gives no answer."""
    return type(cell).__name__ == "NAType"


def _refuse(bad: BoolArray, values: FloatArray, names: tuple[str, ...], what: str) -> None:
    if not bad.any():
        return
    cells = np.argwhere(bad)
    row, column = (int(i) for i in cells[0])
    value = values[row, column]
    found = "nothing (NaN)" if np.isnan(value) else f"{value}"
    size = f" of at most {LARGEST:g} in size" if np.isfinite(value) else ""
    more = f" ({len(cells)} such cells)" if len(cells) > 1 else ""
    raise DataError(
        f"{what} must be finite numbers{size}; found {found} in row {row}, column {names[column]!r}{more}.",
        fix=FIX_CELL,
    )


WITHOUT_LABELS = (
    "Use what needs no labels, such as WPDIS, WSPDIS, C-WSPDIS, WDR or WDRSIS, and one flag for each step "
    "for a drop. Cutting features into bins to have labels is not safe."
)


def require_labels(log: Any, what: str, fix: str = WITHOUT_LABELS) -> None:
    """Refuse a log whose steps cannot be grouped by state: the one place where labels are asked for."""
    if log.has_states:
        return
    raise EstimationError(
        f"{what} needs a label for each state, and policies that depend on nothing else; here every step has "
        "features, or probabilities, of its own.",
        fix=fix,
    )


# --------------------------------------------------------------------------------------------------------

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


# --------------------------------------------------------------------------------------------------------
# Durations: rows that take time of their own, and what a discount makes of them.
#
# A row may be an option, or a visit that lasts. With a discount below 1 it counts
#
# .. math:: \gamma^{\text{time elapsed before it}}
#
# and what follows it counts gamma to the power of its duration as much as it does. Without a discount
# durations change nothing. A log *by its durations* has rewards that are discounted already, so that
# everything which only adds rewards up takes no notice; what fits a model asks for the rewards as they were
# paid, and for the discount of each row. Rows that stand for others as well (`question.cut_weights`) count
# more in the same way.


@dataclass(frozen=True, eq=False)
class Standing:
    """For how many rows each row stands, in a log of which episodes were cut: its own and those not seen.

    Attributes:
      rows: (steps,) one over the chance that the row's episode was not cut before the row.
      outcomes: (steps,) the same for what follows a row, where the log says it.
    """

    rows: FloatArray
    outcomes: FloatArray

    def select(self, rows: IntArray) -> Standing:
        """Of some of the rows."""
        return Standing(self.rows[rows], self.outcomes[rows])


@dataclass(frozen=True, eq=False)
class Discounting:
    """What each row of a log counts, by its durations or by the rows that it stands for.

    Attributes:
      rewards: (steps,) as they were paid.
      before: (steps,) gamma to the power of the time that has passed before the row, times the number of rows
        that it stands for.
      during: (steps,) gamma to the power of the duration of the row; None without durations.
      standing: for how many rows each row stands, where episodes were cut; None for itself only.
    """

    rewards: FloatArray
    before: FloatArray
    during: FloatArray | None = None
    standing: Standing | None = None

    @classmethod
    def of(cls, rewards: FloatArray, durations: FloatArray, offsets: IntArray, gamma: float) -> Discounting:
        """Of a log."""
        return cls(rewards, gamma ** elapsed(durations, offsets), gamma**durations)

    def select(self, rows: IntArray) -> Discounting:
        """Of some of the rows, of whole episodes."""
        during = None if self.during is None else self.during[rows]
        standing = None if self.standing is None else self.standing.select(rows)
        return Discounting(self.rewards[rows], self.before[rows], during, standing)

    def standing_for(self, standing: Standing) -> Discounting:
        """The same, with rows that stand for others as well."""
        return Discounting(self.rewards, self.before * standing.rows, self.during, standing)


def elapsed(durations: FloatArray, offsets: IntArray) -> FloatArray:
    """(steps,) the time that has passed in an episode before each of its rows.

    >>> elapsed(np.array([2.0, 1.0, 5.0, 1.0]), np.array([0, 3, 4]))
    array([0., 2., 3., 0.])
    """
    # Each episode by itself: a sum over the whole log would lose the digits of the last episodes.
    lengths = np.diff(offsets)
    if not len(lengths) or lengths.max() > len(lengths):
        return _by_episode(durations, offsets)
    return _by_step(durations, offsets[:-1], lengths)


def _by_episode(durations: FloatArray, offsets: IntArray) -> FloatArray:
    found = np.zeros(len(durations))
    for lo, hi in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        np.cumsum(durations[lo : hi - 1], out=found[lo + 1 : hi])
    return found


def _by_step(durations: FloatArray, starts: IntArray, lengths: IntArray) -> FloatArray:
    """The same additions in the same order, of many episodes at a time."""
    found = np.zeros(len(durations))
    order = np.argsort(-lengths, kind="stable")
    longest_first, starts = lengths[order], starts[order]
    for t in range(1, int(longest_first[0])):
        at = starts[: np.searchsorted(-longest_first, -t)] + t  # of those that have more than t rows
        found[at] = found[at - 1] + durations[at - 1]
    return found


def checked_durations(durations: Any, n: int, where: Callable[[int], str]) -> FloatArray:
    """Durations as numbers above 0, one a step."""
    column = as_numbers(durations, "duration", "For example [1.0, 2.5, 1.0], one for each step.")
    if column.shape != (n,):
        raise DataError(
            f"durations must have one entry for each step ({n:,}); found shape {column.shape}.",
            fix="Give one duration for each step, or leave durations out.",
        )
    bad = np.flatnonzero(~(np.isfinite(column) & (column > 0)))
    if bad.size:
        raise DataError(
            f"Durations must be finite and above 0; found {column[bad[0]]} in {where(int(bad[0]))}"
            + (f" and in {bad.size - 1:,} more rows." if bad.size > 1 else "."),
            fix="Correct them, or leave durations out: without a discount they change nothing.",
        )
    return column
