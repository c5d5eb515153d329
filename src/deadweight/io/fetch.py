"""Fetching a part: its row groups, cut on the borders of episodes.

An episode that goes on in the next row group is put together in a small log of its own, so that all the
others stay where the decoder has left them.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.io.columns import to_numpy
from deadweight.io.findings import LogProblem
from deadweight.io.parquet import ParquetFiles
from deadweight.io.part_ids import check_ids, scattered
from deadweight.io.part_log import CommonLabels, checked_log, in_common_labels, in_part, part_table, plain_log
from deadweight.io.parts import Part
from deadweight.io.table import LogTable
from deadweight.log.table_rows import TableRows
from deadweight.log.trajectories import Trajectories
from deadweight.typing import Labels


@dataclass(frozen=True, eq=False)
class Fetched:
    """The rows of a part as decoded, not yet looked at."""

    table: Any
    tail: Any  # the rest of its last episode; None if there is none


def fetch(files: ParquetFiles, part: Part) -> Fetched:
    """The rows of a part."""
    return Fetched(files.table(part), files.tail(part))


def logs_of(
    fetched: Fetched, files: ParquetFiles, part: Part, labels: CommonLabels, check: bool
) -> list[Trajectories]:
    """The logs of a part.

    Args:
      fetched: its rows.
      files, part: where it is.
      labels: of all parts.
      check: look at the values, not only at the order of the rows.
    """
    check_ids(fetched.table, part, place(files, part))
    if labels.plain:
        # A reward that is no number is passed over unless values are looked at, and may have to be mended.
        check = check or files.mending.of_rewards
        pieces = _plain_pieces(fetched.table, fetched.tail, part, labels, check)
        if pieces is not None:
            return pieces
    return [_whole(files, part, labels, fetched)]


def whole_part(files: ParquetFiles, part: Part, labels: CommonLabels | None) -> Trajectories:
    """A part as one log, after all checks; in labels of its own where those of all parts are not known."""
    fetched = fetch(files, part)
    check_ids(fetched.table, part, place(files, part))
    return _whole(files, part, labels, fetched)


def only_part(files: ParquetFiles, part: Part) -> Trajectories:
    """The log of a single part, which knows the rows of its files that its steps came from."""
    log = copy(whole_part(files, part, None))
    # Row groups have been put in the order of their episodes; users count as in the files.
    rows = files.rows_of(part)
    log._table_rows = TableRows.whole(rows[log.rows], len(rows), log.n_episodes)
    return log


def check_order(files: ParquetFiles, part: Part, fetched: Fetched) -> None:
    """Refuse a part whose episodes are not where the plan has them; only their column is looked at."""
    import pyarrow as pa

    check_ids(fetched.table, part, place(files, part))
    tail = fetched.tail
    _own_rows(files, part, fetched.table if tail is None else pa.concat_tables([fetched.table, tail]))


def first_table(files: ParquetFiles, part: Part, states: Labels) -> LogTable:
    """The rows of the first part as a table, for whoever wants to look at them before a log is made."""
    import pyarrow as pa

    fetched = fetch(files, part)
    tables = [fetched.table] if fetched.tail is None else [fetched.table, fetched.tail]
    return part_table(pa.concat_tables(tables), files.names, files.mending, states)


def _plain_pieces(
    table: Any, tail: Any, part: Part, labels: CommonLabels, check: bool
) -> list[Trajectories] | None:
    """The part's own episodes, and the one with a tail; None where rows or columns need a closer look."""
    import pyarrow as pa

    episode = table["episode"]
    if episode.null_count or not pa.types.is_integer(episode.type):
        return None
    ids = episode.chunk(0).to_numpy() if episode.num_chunks == 1 else episode.to_numpy()
    lo = 0 if part.after is None else int(np.searchsorted(ids, part.after, side="right"))
    hi = len(ids) if tail is None else int(np.searchsorted(ids, part.last))
    # The search is right if rows ascend; that they do, also at the cuts, is seen here and in `plain_log`.
    if not (ids[:lo] == part.after).all() or (hi > lo and tail is not None and ids[hi - 1] >= part.last):
        return None
    if hi > lo > 0 and ids[lo] <= part.after:
        return None
    whole = part.after is None and tail is None
    tables = [table.slice(lo, hi - lo)] if hi > lo else []
    if tail is not None:
        tables.append(pa.concat_tables([table.slice(hi), tail]))
    pieces = []
    for some in tables:
        log = plain_log(some, labels, check, sort=whole)
        if log is None:
            return None
        pieces.append(log)
    return pieces if tail is None or pieces[-1].n_episodes == 1 else None


def _whole(files: ParquetFiles, part: Part, labels: CommonLabels | None, fetched: Fetched) -> Trajectories:
    import pyarrow as pa

    table, tail = fetched.table, fetched.tail
    own = _own_rows(files, part, table if tail is None else pa.concat_tables([table, tail]))
    where = place(files, part)
    try:
        log = checked_log(own, files.names, files.mending, labels)
    except LogProblem as error:
        raise in_part(error, where) from None
    return log if labels is None else in_common_labels(log, labels, where)


def _own_rows(files: ParquetFiles, part: Part, table: Any) -> Any:
    """The table without the rest of the episode that the part before has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if part.after is None:
        return table
    episode = table["episode"]
    others = to_numpy(pc.equal(episode, pa.scalar(part.after, episode.type)), False)
    number = int(np.count_nonzero(others))
    if not others[:number].all():
        # The part before has read on only as far as its last episode went on without a break.
        raise scattered(place(files, part))
    return table.slice(number)


def place(files: ParquetFiles, part: Part) -> str:
    """Which row groups of which files these are."""
    places = [
        f"{files.paths[file]!r}, row group {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")
        for file, numbers in part.groups
    ]
    return places[0] + (f" to {places[-1]}" if len(places) > 1 else "")
