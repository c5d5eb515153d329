"""Where the steps of a log stand in the table that it was read from.

`read` sorts rows by episode and step, and users have what they give row by row beside their table. So a log
remembers the table's order, also when some of its episodes are selected, and what is given is matched by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import frozen
from deadweight.typing import IntArray


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table that the steps of a log are, and the episodes that its episodes are.

    Attributes:
      rows: (steps,) row of the table, from 0.
      episodes: (n,) number among the episodes of the whole table, in the order in which `read` has them.
      n_rows, n_episodes: of the whole table.
    """

    rows: IntArray
    episodes: IntArray
    n_rows: int
    n_episodes: int

    @classmethod
    def whole(cls, rows: IntArray, n_rows: int, n_episodes: int) -> TableRows:
        """Those of a log as it was read: all rows of its table, or those that were not left out."""
        return cls(frozen(rows), frozen(np.arange(n_episodes)), n_rows, n_episodes)

    @property
    def order(self) -> tuple[IntArray, IntArray]:
        """The steps and the episodes of the log, sorted as in the table."""
        return np.argsort(self.rows, kind="stable"), np.argsort(self.episodes, kind="stable")

    def select(self, steps: IntArray, episodes: IntArray) -> TableRows:
        """Those of some episodes, whose steps these are."""
        rows, numbers = frozen(self.rows[steps]), frozen(self.episodes[episodes])
        return TableRows(rows, numbers, self.n_rows, self.n_episodes)


def places(wanted: IntArray, total: int, length: int) -> IntArray | None:
    """Where each of some rows is found in what was given for so many; None where the length fits neither.

    What has a row for each of the `total` of the whole is taken by number; what has a row for each of those
    that are wanted has them in the order of their numbers.

    >>> wanted = np.array([5, 2, 3])
    >>> places(wanted, 9, 9).tolist(), places(wanted, 9, 3).tolist(), places(wanted, 9, 4)
    ([5, 2, 3], [2, 0, 1], None)
    """
    if length == total:
        return wanted
    return _ranks(wanted) if length == len(wanted) else None


def places_among(wanted: IntArray, own: IntArray) -> IntArray | None:
    """Where each of some rows is found among those that something was made for; None where one is not.

    A row that it has several times, from an episode that was selected twice, fits only the same selection.

    >>> places_among(np.array([5, 2]), np.array([2, 3, 5])).tolist()
    [2, 0]
    >>> places_among(np.array([5, 5, 2]), np.array([2, 5, 5])).tolist()
    [1, 2, 0]
    >>> places_among(np.array([5, 2]), np.array([2, 3, 4])) is None
    True
    """
    order = np.argsort(own, kind="stable")
    ordered = own[order]
    if np.array_equal(ordered, np.sort(wanted)):
        return np.asarray(order[_ranks(wanted)])
    at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    fits = np.array_equal(ordered[at], wanted) and bool((ordered[1:] > ordered[:-1]).all())
    return np.asarray(order[at]) if fits else None


def _ranks(numbers: IntArray) -> IntArray:
    ranks = np.empty_like(numbers)
    ranks[np.argsort(numbers, kind="stable")] = np.arange(len(numbers))
    return ranks
