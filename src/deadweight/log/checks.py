"""Checks of what logs and policies are made of: probabilities, offsets, ends; each with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deadweight.errors import DataError, DeadweightError, OptionError, SupportError, first_few
from deadweight.tools.arithmetic import unmasked
from deadweight.typing import BoolArray, FloatArray, IntArray


def as_numbers(values: npt.ArrayLike, what: str, fix: str) -> FloatArray:
    """A column of numbers of its own, or an error; complex ones have a part that would be lost."""
    try:
        given = np.asarray(unmasked(values))
        if np.iscomplexobj(given):
            raise TypeError("no imaginary parts")
        return given.astype(np.float64, copy=not isinstance(values, list | tuple))
    except (TypeError, ValueError):
        raise DataError(f"The {what} column must hold numbers; found something else.", fix=fix) from None


def look_like_logs(values: FloatArray) -> bool:
    """Whether these look like log-probabilities: nothing above zero, something below."""
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


def check_probability_column(
    values: FloatArray, name: str, positive: bool, where: Callable[[int], str]
) -> None:
    """Refuse a per-step probability that is NaN, outside [0, 1], or zero where it divides."""
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


@dataclass(frozen=True)
class Cuts:
    """Where episodes stop whose flags say that they were cut; merges.

    Attributes:
      number: cut episodes.
      shortest, longest: their fewest and their most steps; 0 where none was cut.
    """

    number: int
    shortest: int
    longest: int

    @classmethod
    def of(cls, lengths: IntArray) -> Cuts:
        """Of the steps of all cut episodes."""
        if not lengths.size:
            return cls(0, 0, 0)
        return cls(len(lengths), int(lengths.min()), int(lengths.max()))

    def merge(self, other: Cuts) -> Cuts:
        """Of both."""
        if not (self.number and other.number):
            return self if self.number else other
        shortest, longest = min(self.shortest, other.shortest), max(self.longest, other.longest)
        return Cuts(self.number + other.number, shortest, longest)

    def limit(self, longest: int) -> int | None:
        """The time limit that they show: several, and all at the longest length; one is no pattern."""
        return longest if self.number > 1 and self.shortest == longest else None


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
        found = dict.fromkeys(map(str, flags.tolist()))
        raise DataError(
            f"terminated must hold True or False; found {first_few(found)}.",
            fix="For example [True, False, True] for three episodes.",
        )
    return flags.astype(bool)
