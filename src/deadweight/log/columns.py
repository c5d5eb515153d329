r"""The columns of a log, checked where they enter; after that they are trusted.

Features are numbers that describe the state of each step. A log with features has no labels to group its
steps by: every row is a state of its own, visited once, and so is what follows the last row of an episode
that was cut. Whatever is known of such a state is known row by row.

Durations: a row may be an option, or a visit that lasts. With a discount below 1 it counts

.. math:: \gamma^{\text{time elapsed before it}}

and what follows it counts gamma to the power of its duration as much as it does. Without a discount durations
change nothing. A log *by its durations* has rewards that are discounted already, so that everything which
only adds rewards up takes no notice; what fits a model asks for the rewards as they were paid, and for the
discount of each row. Rows that stand for others as well (`question.cut_weights`) count more in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from deadweight.errors import (
    DataError,
    DeadweightError,
    EstimationError,
    OptionError,
    SupportError,
    first_few,
)
from deadweight.log.labels import as_column, objects, plain
from deadweight.tools.arithmetic import freeze_fields, frozen, real, unmasked
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

if TYPE_CHECKING:
    from deadweight.log.trajectories import Cuts

Where = Callable[[int], str]
"""From a row to its episode and step, in words."""

# The squares of larger numbers leave the range of doubles.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Features:
    """Numbers that describe the states of a log."""

    values: FloatArray  # (steps, d)
    last: FloatArray  # (n, d) what follows the last row of each episode; NaN where nobody knows
    names: tuple[str, ...]  # (d,) of the columns

    def __post_init__(self) -> None:
        freeze_fields(self)

    @property
    def known_last(self) -> BoolArray:
        """(n,) True where it is known what follows."""
        return np.asarray(np.isfinite(self.last).all(axis=1))

    def select(self, rows: IntArray, episodes: IntArray) -> Features:
        """The features of some episodes, whose rows these are."""
        return Features(self.values[rows], self.last[episodes], self.names)


def features_of_steps(features: Any, names: Any, last: Any, n_episodes: int, n: int) -> Features | None:
    """Features of n steps as finite numbers with names; an error names row and column of what is not.

    Args:
      features: (n, d), an array or a table whose columns have names; None: there are none.
      names: of the columns; None takes those of the table, or x0, x1, ...
      last: (n_episodes, d) what follows each episode; a row of NaN, or None for all: nobody knows.
      n_episodes, n: episodes and steps.
    """
    if features is None:
        if names is not None or last is not None:
            raise DataError(
                "feature_names and last_features need features; found none.",
                fix="Give them as well: features=X, with one row for each step.",
            )
        return None
    given = getattr(features, "columns", None) if names is None else names
    matrix = _matrix(features, "features")
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(
            f"features must have a row for each step and a column for each feature; found shape "
            f"{matrix.shape}.",
            fix="For a single feature pass values[:, None].",
        )
    width = matrix.shape[1]
    called = tuple(f"x{j}" for j in range(width)) if given is None else tuple(str(name) for name in given)
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
    if len(values) != n:
        raise DataError(
            f"features must have one row for each step: {n} steps, {len(values)} rows of features.",
            fix="Check that features and actions come from the same rows.",
        )
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
    """The number of values in the first row, the first row with another number of them, and that number."""
    widths = [np.size(row) for row in rows]
    odd = next((i for i, width in enumerate(widths) if width != widths[0]), 0)
    return widths[0], odd, widths[odd]


def _matrix(given: Any, what: str) -> AnyArray:
    """What was given as an array, whose cells are what they were: one text does not make text of all."""
    try:
        matrix = np.asarray(unmasked(given))
    except ValueError:  # rows of different lengths
        width, odd, length = first_odd_row(given)
        raise DataError(
            f"{what} must have as many columns in every row; row 0 has {width} and row {odd} has {length}.",
            fix="Give every row a value for each feature; fill in or leave out what is missing.",
        ) from None
    return np.array(given, dtype=object) if matrix.dtype.kind in "US" else matrix


def _numbers(matrix: AnyArray, names: tuple[str, ...], what: str) -> FloatArray:
    """The matrix as numbers; None counts as missing."""
    if matrix.dtype.kind in "biuf":
        return matrix.astype(np.float64)
    values = np.empty(matrix.shape)
    for (row, column), cell in np.ndenumerate(matrix):
        try:
            if isinstance(cell, str | bytes) or np.iscomplexobj(cell):
                raise TypeError
            # pandas writes NA where there is no value; comparing it gives no answer
            values[row, column] = np.nan if cell is None or type(cell).__name__ == "NAType" else float(cell)
        except (TypeError, ValueError):
            raise DataError(
                f"{what} must be numbers; found {plain(cell)!r} in row {row}, column {names[column]!r}.",
                fix="Turn categories into numbers first, such as one column of 0 and 1 for each; a label "
                "for each state goes into states.",
            ) from None
    return values


def _refuse(bad: BoolArray, values: FloatArray, names: tuple[str, ...], what: str) -> None:
    if not bad.any():
        return
    cells = np.argwhere(bad)
    row, column = (int(i) for i in cells[0])
    value = values[row, column]
    shown = "nothing (NaN)" if np.isnan(value) else f"{value}"
    size = f" of at most {LARGEST:g} in size" if np.isfinite(value) else ""
    more = f" ({len(cells)} such cells)" if len(cells) > 1 else ""
    raise DataError(
        f"{what} must be finite numbers{size}; found {shown} in row {row}, column {names[column]!r}{more}.",
        fix="Fill in or leave out such values before; a feature is a finite number in every row.",
    )


def require_labels(log: Any, what: str, fix: str = "") -> None:
    """Refuse a log whose steps cannot be grouped by state: the one place where labels are asked for."""
    if not log.has_states:
        raise EstimationError(
            f"{what} needs a label for each state, and policies that depend on nothing else; here every step "
            "has features, or probabilities, of its own.",
            fix=fix
            or "Use what needs no labels, such as WPDIS, WSPDIS, C-WSPDIS, WDR or WDRSIS, and one flag for "
            "each step for a drop. Cutting features into bins to have labels is not safe.",
        )


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
    return np.asarray(frozen(column))


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
    return np.asarray(frozen(column))


def checked_ids(behaviour_ids: npt.ArrayLike, n_episodes: int) -> Labels:
    """(n_episodes,) the old policy that made each episode."""
    ids = as_column(behaviour_ids, "behaviour_id")
    if ids.shape != (n_episodes,):
        raise DataError(
            f"behaviour_ids must name one old policy for each episode ({n_episodes:,}); found {len(ids):,}.",
            fix="Give one id for each episode, not one for each step.",
        )
    return np.asarray(frozen(objects(plain(label) for label in ids)))


def last_successors(
    next_states: npt.ArrayLike | None,
    states: AnyArray,
    offsets: IntArray,
    terminated: BoolArray,
    where: Where,
) -> list[Any]:
    """(n,) the logged successor of each episode's truncated last step, or None."""
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


@dataclass(frozen=True, eq=False)
class Standing:
    """The number of rows that each row stands for, where episodes were cut: its own and those not seen."""

    rows: FloatArray  # (steps,) one over the chance that the row's episode was not cut before the row
    outcomes: FloatArray  # (steps,) the same for what follows a row, where the log says it

    def select(self, rows: IntArray) -> Standing:
        """The numbers of some of the rows."""
        return Standing(self.rows[rows], self.outcomes[rows])


@dataclass(frozen=True, eq=False)
class Discounting:
    """The weight of each row of a log, by its durations or by the rows that it stands for."""

    rewards: FloatArray  # (steps,) as they were paid
    before: FloatArray  # (steps,) gamma ** time passed before the row, times the rows that it stands for
    during: FloatArray | None = None  # (steps,) gamma ** duration of the row; None without durations
    standing: Standing | None = None  # rows that each row stands for, where episodes were cut

    @classmethod
    def of(cls, rewards: FloatArray, durations: FloatArray, offsets: IntArray, gamma: float) -> Discounting:
        """The discounts of a log by its durations."""
        return cls(rewards, gamma ** elapsed(durations, offsets), gamma**durations)

    def select(self, rows: IntArray) -> Discounting:
        """The discounts of some of the rows, of whole episodes."""
        during = None if self.during is None else self.during[rows]
        standing = None if self.standing is None else self.standing.select(rows)
        return Discounting(self.rewards[rows], self.before[rows], during, standing)

    def standing_for(self, standing: Standing) -> Discounting:
        """These discounts, with rows that stand for others as well."""
        return Discounting(self.rewards, self.before * standing.rows, self.during, standing)


def elapsed(durations: FloatArray, offsets: IntArray) -> FloatArray:
    """(steps,) the time that has passed in an episode before each of its rows: 0, d_0, d_0 + d_1, ..."""
    # Each episode by itself: a sum over the whole log would lose the digits of the last episodes.
    lengths = np.diff(offsets)
    if not len(lengths) or lengths.max() > len(lengths):
        return _by_episode(durations, offsets)
    return _by_step(durations, offsets[:-1], lengths)


def _by_episode(durations: FloatArray, offsets: IntArray) -> FloatArray:
    times = np.zeros(len(durations))
    for lo, hi in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        np.cumsum(durations[lo : hi - 1], out=times[lo + 1 : hi])
    return times


def _by_step(durations: FloatArray, starts: IntArray, lengths: IntArray) -> FloatArray:
    """The additions of `_by_episode` in the same order, of many episodes at a time."""
    times = np.zeros(len(durations))
    order = np.argsort(-lengths, kind="stable")
    longest_first, starts = lengths[order], starts[order]
    for t in range(1, int(longest_first[0])):
        at = starts[: np.searchsorted(-longest_first, -t)] + t  # of those that have more than t rows
        times[at] = times[at - 1] + durations[at - 1]
    return times


def checked_durations(durations: Any, n: int, where: Where) -> FloatArray:
    """(n,) durations as numbers above 0."""
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


# --- Probabilities, offsets and ends, each with the remedy.


def as_numbers(values: npt.ArrayLike, what: str, fix: str) -> FloatArray:
    """A new column of numbers; an error where they are none, or complex: a part would be lost."""
    try:
        return real(values)
    except (TypeError, ValueError):
        raise DataError(f"The {what} column must hold numbers; found something else.", fix=fix) from None


def look_like_logs(values: FloatArray) -> bool:
    """Whether the values look like log-probabilities: nothing above zero, something below."""
    return bool(values.size and values.max() <= 0 and values.min() < 0)


def check_log_probabilities(values: FloatArray, name: str, error: type[DeadweightError] = DataError) -> None:
    """Refuse what looks like log-probabilities."""
    finite = values[np.isfinite(values)]
    if look_like_logs(finite):
        raise error(
            f"{name} must be probabilities in (0, 1]; found values from {finite.min():.6g} to "
            f"{finite.max():.6g}, which look like log-probabilities.",
            fix="Pass numpy.exp of them.",
        )


def check_probability_column(values: FloatArray, name: str, positive: bool, where: Where) -> None:
    """Refuse a probability of a step that is NaN, outside [0, 1], or zero where it divides."""
    good = (values >= 0) & (values <= 1 + 1e-9)
    bad = np.flatnonzero(~good)
    if bad.size:
        raise DataError(
            f"{name} must be probabilities in {'(' if positive else '['}0, 1]; found {values[bad[0]]} in "
            f"{where(int(bad[0]))}" + (f" and {bad.size - 1} more rows like it." if bad.size > 1 else "."),
            fix="Log the probability with which the action was chosen.",
        )
    zero = np.flatnonzero(values == 0)
    if positive and zero.size:
        raise SupportError(
            f"{name} is 0 in {where(int(zero[0]))}"
            + (f" and {zero.size - 1} more rows" if zero.size > 1 else "")
            + ", but the action was taken there.",
            fix="A logged action has a positive behaviour probability: correct the column, or estimate it "
            "with deadweight.estimate_behaviour(log).",
        )


def check_offsets(offsets: npt.ArrayLike, n: int) -> IntArray:
    """First rows of the episodes of n steps, then n; an error where they are not that."""
    given = np.asarray(offsets)
    if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) < 2:
        if n == 0:
            raise DataError("A log needs at least one episode; found none.", fix="Check where it comes from.")
        raise DataError(
            f"offsets must be whole numbers, first row of each episode and then the number of steps ({n}); "
            f"found {given.dtype} of shape {given.shape}.",
            fix="For episodes of lengths L, offsets = [0, *cumsum(L)].",
        )
    lengths = np.diff(given.astype(np.int64))
    if given[0] != 0 or given[-1] != n or (lengths < 0).any():
        raise DataError(
            f"offsets must start at 0, never fall, and end at the number of steps ({n}); found "
            f"{given[0]} to {given[-1]}" + (", falling in between." if (lengths < 0).any() else "."),
            fix="For episodes of lengths L, offsets = [0, *cumsum(L)].",
        )
    empty = np.flatnonzero(lengths == 0)
    if empty.size:
        raise DataError(
            f"Every episode needs at least one step; found none in episodes {first_few(empty)}.",
            fix="Leave empty episodes out, or log the step at which they began.",
        )
    return given.astype(np.int64)


def checked_time_limit(steps: int) -> int:
    """The time limit as a positive whole number."""
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise OptionError(
            f"time_limit is a whole number of steps, at least 1, or None; found {steps!r}.",
            fix="Give the number of steps after which episodes were cut.",
        )
    return int(steps)


def within_limit(lengths: IntArray, limit: int) -> BoolArray:
    """(n,) True for the episodes that ended before the time limit."""
    longer = np.flatnonzero(lengths > limit)
    if longer.size:
        raise DataError(
            f"With a time limit of {limit} steps no episode is longer; found {lengths.max()} steps "
            f"({len(longer)} episodes are longer, the first is number {longer[0]}).",
            fix="Give the limit that the log was made with, or None (--time-limit none); or say how each "
            "episode ended.",
        )
    within: BoolArray = lengths < limit
    return within


def limit_by_flags(said: int | None, cuts: Cuts, longest: int, tell: Callable[[str], None]) -> int | None:
    """The time limit of a log whose flags say how its episodes end; they win over what is said beside them.

    Args:
      said: what the user says; None if nothing.
      cuts: what the flags say.
      longest: steps of the longest episode.
      tell: is told what the two contradict each other in, what was taken, and how to say otherwise.
    """
    shown = cuts.limit(longest)
    if said is None:
        return shown
    if said > longest or said == longest == cuts.longest:
        return said  # what was cut before was cut early
    if said < longest:
        what = f"the longest episode has {longest:,} steps"
        way = "Give the limit that the log was made with, or none (--time-limit none)."
    else:
        what = f"no episode of {said:,} steps is flagged as cut there"
        way = (
            "If a limit cut them, say so on their last rows (terminated false, truncated true), or leave the "
            "flags out; if they ended, leave the limit out (--time-limit none)."
        )
    taken = "no time limit is taken" if shown is None else f"{shown:,} steps, where all cut episodes stop"
    tell(f"A time limit of {said:,} steps was said, and {what}. Flags win: {taken}. {way}")
    return shown


def check_terminated(terminated: npt.ArrayLike | None, n_episodes: int, n_steps: int) -> BoolArray:
    """(n,) flags; all True where none are given."""
    if terminated is None:
        return np.ones(n_episodes, dtype=bool)
    flags = np.asarray(terminated)
    if flags.shape != (n_episodes,):
        raise DataError(
            f"terminated must have one flag for each episode ({n_episodes}); found shape {flags.shape}"
            + (" (one for each step)." if flags.shape == (n_steps,) else "."),
            fix="Take the flag of each episode's last step.",
        )
    if flags.dtype == object:  # Python's own True and False, as a column that had a hole holds them
        flags = np.array(flags.tolist())
    if flags.dtype.kind not in "biu" or not np.isin(flags, (0, 1)).all():
        different = dict.fromkeys(map(str, flags.tolist()))
        raise DataError(
            f"terminated must hold True or False; found {first_few(different)}.",
            fix="For example [True, False, True] for three episodes.",
        )
    return flags.astype(bool)
