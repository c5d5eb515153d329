"""Parts: which row groups of a set of Parquet files are read together, and which episodes are cut where.

Row groups are put in the order of their episodes. If they do not overlap, except that an episode may go on
from one into the next, a part is a run of row groups without the rest of the previous part's last episode
and with the rest of its own. All of this is known from the bounds of each row group: nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

# Rows of a part. What is held at a time is a part for each thread or worker, at some 50 bytes a row.
PART_ROWS = 1 << 20


@dataclass(frozen=True)
class RowGroup:
    """A row group: its file and number, its rows, and its smallest and largest episode."""

    file: int
    number: int
    rows: int
    low: Any
    high: Any


@dataclass(frozen=True)
class Part:
    """A run of whole episodes.

    Attributes:
      groups: (file, row groups) to read.
      tail: (file, row group, whether it has nothing else), in order, at whose beginning the last episode
        goes on.
      after: episodes up to this one belong to the part before; None if it shares none.
      last: the last episode, where there is a tail.
      rows: how many its own row groups have.
      beyond: rows of further row groups that have nothing but its last episode.
      low, high: smallest and largest episode of its row groups, as their footers say.
      share: (i, n) where episodes were dealt out to n parts by a hash, and this is part i.
    """

    groups: tuple[tuple[int, tuple[int, ...]], ...]
    tail: tuple[tuple[int, int, bool], ...] = ()
    after: Any = None
    last: Any = None
    rows: int = 0
    beyond: int = 0
    low: Any = None
    high: Any = None
    share: tuple[int, int] | None = None

    @property
    def all_rows(self) -> int:
        """Those of its own row groups, and of further ones."""
        return self.rows + self.beyond


def in_order(groups: Sequence[RowGroup]) -> list[RowGroup] | None:
    """The row groups in the order of their episodes; None if they overlap by more than one episode.

    >>> groups = [RowGroup(1, 0, 5, 7, 9), RowGroup(0, 0, 5, 1, 4), RowGroup(0, 1, 5, 4, 7)]
    >>> [(group.file, group.number) for group in in_order(groups)]
    [(0, 0), (0, 1), (1, 0)]
    >>> in_order([RowGroup(0, 0, 5, 1, 4), RowGroup(0, 1, 5, 3, 7)]) is None
    True
    """
    ordered = sorted(groups, key=lambda group: (group.low, group.high, group.file, group.number))
    return ordered if all(one.high <= other.low for one, other in pairwise(ordered)) else None


def cut(ordered: Sequence[RowGroup], part_rows: int = PART_ROWS) -> list[Part]:
    """Parts of at most `part_rows` rows, or of one row group where that has more.

    >>> groups = [RowGroup(0, 0, 5, 1, 4), RowGroup(0, 1, 5, 4, 7), RowGroup(1, 0, 5, 7, 9)]
    >>> [part.groups for part in cut(groups, 12)]
    [((0, (0, 1)),), ((1, (0,)),)]
    >>> cut(groups, 12)[0].tail, cut(groups, 12)[1].after
    (((1, 0, False),), 7)
    """
    parts: list[Part] = []
    before: Any = None
    for lo, hi in _runs(ordered, part_rows):
        last = ordered[hi - 1].high
        rows = sum(group.rows for group in ordered[lo:hi])
        tail = []
        for group in ordered[hi:]:
            if group.low != last:
                break
            tail.append((group.file, group.number, group.high == last))
        after = before if lo > 0 and ordered[lo].low == before else None
        if after is not None and last == after:  # it all belongs to the last episode of the part before
            parts[-1] = replace(parts[-1], beyond=parts[-1].beyond + rows)
            continue
        own = _by_file(ordered[lo:hi])
        ends = last if tail else None
        parts.append(Part(own, tuple(tail), after, ends, rows, low=ordered[lo].low, high=last))
        before = last
    return parts


def _runs(ordered: Sequence[RowGroup], part_rows: int) -> Iterator[tuple[int, int]]:
    lo = rows = 0
    for i, group in enumerate(ordered):
        if i > lo and rows + group.rows > part_rows:
            yield lo, i
            lo, rows = i, 0
        rows += group.rows
    yield lo, len(ordered)


def _by_file(groups: Sequence[RowGroup]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Row groups that follow each other in one file are read together."""
    runs: list[tuple[int, list[int]]] = []
    for group in groups:
        if runs and runs[-1][0] == group.file:
            runs[-1][1].append(group.number)
        else:
            runs.append((group.file, [group.number]))
    return tuple((file, tuple(numbers)) for file, numbers in runs)
