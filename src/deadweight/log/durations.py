r"""Durations: rows that take time of their own, and what a discount makes of them.

A row may be an option, or a visit that lasts. With a discount below 1 it counts

.. math:: \gamma^{\text{time elapsed before it}}

and what follows it counts gamma to the power of its duration as much as it does. Without a discount durations
change nothing. A log *by its durations* has rewards that are discounted already, so that everything which
only adds rewards up takes no notice; what fits a model asks for the rewards as they were paid, and for the
discount of each row. Rows that stand for others as well (`question.cut_weights`) count more in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.errors import DataError
from deadweight.log.checks import as_numbers
from deadweight.typing import FloatArray, IntArray


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
