"""Features: numbers that describe the state of each step, checked where they enter.

A log with features has no labels to group its steps by: every row is a state of its own, visited once, and
so is what follows the last row of an episode that was cut. Whatever is known of such a state is known row
by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import freeze_fields, unmasked
from deadweight.errors import DataError, EstimationError
from deadweight.log.labels import plain
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

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
