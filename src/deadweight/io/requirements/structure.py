"""Every step of an episode stands in one row, and next_state says what the next row says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadweight.errors import how_many
from deadweight.io.findings import Check, Found, show
from deadweight.io.table import LogTable
from deadweight.typing import BoolArray, IntArray


def restarted(table: LogTable) -> Found | None:
    """Several episodes under one id: the steps run up, start again at the first, and run up again."""
    again = _restarting_rows(table)
    if not again.size:
        return None
    ids = "Make the ids unique, for example by joining them with a user, a site or a date."
    twice = identical_rows(table) is not None
    return Found(
        f"Every episode needs an id of its own; there are several under {table.episodes(again)}: steps start "
        f"again in {table.rows(again)}"
        + (", and these rows are equal to earlier ones in every column." if twice else "."),
        f"If rows were written twice, remove duplicates, for example with .drop_duplicates(). If not: {ids}"
        if twice
        else ids,
        again,
        ("step",),
    )


def identical_rows(table: LogTable) -> Found | None:
    """A step that stands twice in the table, the same in every column."""
    first, second = table.repeated
    same = np.ones(len(first), dtype=bool)
    for name in table.names:
        same &= _equal(table, name, first, second)
    rows = np.sort(second[same])
    if not rows.size or not same.all():
        return None
    return Found(
        f"Every step must occur once; found {how_many(len(rows), 'row')} equal to another in every column "
        f"of the log, first {table.rows(rows)}.",
        "Remove duplicates, for example with .drop_duplicates() or SELECT DISTINCT; check the join that "
        "made them.",
        rows,
        ("step",),
    )


def repeated_steps(table: LogTable) -> Found | None:
    """Two rows for one step that say different things."""
    first, second = table.repeated
    if not first.size:
        return None
    rows = np.unique(np.concatenate([first, second]))
    return Found(
        f"Every step must occur once; found several rows for a step in {table.episodes(second)}: for "
        f"example rows {first[0]:,} and {second[0]:,} are both step {show(table.steps.values[first[0]])}.",
        "Keep one row for each step, or give the episodes ids of their own.",
        rows,
        ("step",),
    )


def next_state_of_other_type(table: LogTable) -> Found | None:
    """next_state in another type than state, so that nothing can be compared."""
    if table.next_labels is not None and not table.kinds("next_state"):
        return None
    kinds = table.kinds("next_state") or [str(table.arrow("next_state").type)]
    return Found(
        f"{table.called('next_state')} must hold the same labels as {table.called('state')}, which has "
        f"type {table.arrow('state').type}; found {', '.join(kinds)}.",
        "Convert both to text, or both to whole numbers; leave next_state empty where it is unknown.",
        columns=("next_state",),
    )


def next_state_disagrees(table: LogTable) -> Found | None:
    """A next_state that is not the state of the next row. Across a gap in the steps it need not be."""
    both, n = table.next_labels, table.n_rows
    if both is None:
        return None
    first, second = (rows[table.in_sequence] for rows in table.inner)
    known = ~both.missing[n + first]
    wrong = known & (both.values[n + first] != both.values[second])
    rows = np.sort(first[wrong])
    if not rows.size:
        return None
    row, after = int(first[wrong][0]), int(second[wrong][0])
    return Found(
        f"next_state must be the state of the following step; {show(both[n + row])} in {table.where(row)} "
        f"is followed by state {show(both[after])} in row {after:,} ({how_many(len(rows), 'row')} like it).",
        "Check the order of the steps and the ids; or leave next_state empty except at truncated last steps.",
        rows,
        ("next_state",),
    )


def several_behaviours(table: LogTable) -> Found | None:
    """An episode that was made by more than one old policy, or of which some rows do not say by which."""
    column = table.labels("behaviour_id")
    first, second = table.inner
    rows = np.sort(second[(column.values[first] != column.values[second]) | column.missing[second]])
    rows = np.union1d(rows, np.flatnonzero(column.missing))
    if not rows.size:
        return None
    row = int(rows[0])
    found = "no id" if column.missing[row] else f"another id, {show(column[row])},"
    return Found(
        f"{table.called('behaviour_id')} must name one old policy for all rows of an episode; found {found} "
        f"in {table.rows(rows)}.",
        "Write the same id in every row of an episode; where the policy changed within it, say "
        "behaviour_prob for each row instead, and leave the ids out.",
        rows,
        ("behaviour_id",),
    )


def ends_inside(name: str) -> Callable[[LogTable], Found | None]:
    """An episode that goes on after its end. A flag that stands in all its rows is that of the episode."""

    def run(table: LogTable) -> Found | None:
        flags = table.flags(name).values[table.order]
        early = inner_flags(flags, table.offsets)
        rows = np.sort(table.order[early])
        if not rows.size:
            return None
        return Found(
            f"{table.called(name)} must be true in the last row of an episode only, or in all of its rows; "
            f"it is true before the last row of {table.episodes(rows)}: in {table.rows(rows)}.",
            "Where two episodes share an id, give each an id of its own; leave out rows that follow the end "
            "(padding). Else correct the flags: one a row, which counts on the last row of an episode.",
            rows,
            (name,),
        )

    return run


def inner_flags(flags: BoolArray, offsets: IntArray) -> BoolArray:
    """(rows,) which flags are set before the last row of an episode whose rows do not all have them.

    >>> inner_flags(np.array([True, False, True, True, False, True]), np.array([0, 2, 4, 6]))
    array([ True, False, False, False, False, False])
    """
    set_in = np.add.reduceat(flags, offsets[:-1], dtype=np.int64)
    early = flags & np.repeat(set_in < np.diff(offsets), np.diff(offsets))
    early[offsets[1:] - 1] = False
    return early


def _restarting_rows(table: LogTable) -> IntArray:
    """Rows where an episode begins anew, in episodes that are whole runs of ascending steps."""
    if not table.repeated[0].size:
        return np.empty(0, dtype=np.int64)
    by_episode = np.argsort(table.episode_keys, kind="stable")  # the user's row order within episodes
    episode, step = table.episode_keys[by_episode], table.steps.values[by_episode]
    new = np.concatenate([[True], episode[1:] != episode[:-1]])
    number = np.cumsum(new) - 1
    lowest = np.minimum.reduceat(step, np.flatnonzero(new))
    falls = np.concatenate([[False], step[1:] <= step[:-1]]) & ~new
    starts = falls & (step == lowest[number])
    n_falls, n_starts = np.bincount(number, falls), np.bincount(number, starts)
    firsts = np.bincount(number, step == lowest[number])  # in any order: no first step twice, no second run
    longest = np.bincount(number) > 2 * n_starts  # a single step repeated is a duplicate, not an episode
    whole: BoolArray = (n_falls == n_starts) & (n_starts > 0) & (firsts == n_starts + 1) & longest
    return np.sort(by_episode[starts & whole[number]])


def _equal(table: LogTable, name: str, first: IntArray, second: IntArray) -> BoolArray:
    import pyarrow.compute as pc

    column = table.arrow(name)
    if not len(first):
        return np.zeros(0, dtype=bool)
    try:
        one, other = column.take(first), column.take(second)
        both_null = pc.and_(pc.is_null(one), pc.is_null(other))
        return np.asarray(pc.or_(pc.fill_null(pc.equal(one, other), False), both_null))
    except NotImplementedError:  # nested values
        return np.array(
            [column[int(i)].as_py() == column[int(j)].as_py() for i, j in zip(first, second, strict=True)]
        )


ORDERED = ("episode", "step")
CHECKS: tuple[Check[LogTable], ...] = (
    Check("DW201", "error", "Several episodes under one id", ORDERED, restarted),
    Check("DW202", "error", "Rows that repeat another", ORDERED, identical_rows),
    Check("DW203", "error", "Several rows for one step", ORDERED, repeated_steps),
    Check(
        "DW204",
        "error",
        "next_state and state of different types",
        ("state", "next_state"),
        next_state_of_other_type,
    ),
    Check(
        "DW205",
        "error",
        "next_state is not the state that follows",
        (*ORDERED, "state", "next_state"),
        next_state_disagrees,
    ),
    Check(
        "DW206",
        "error",
        "Several old policies in one episode",
        (*ORDERED, "behaviour_id"),
        several_behaviours,
    ),
    Check(
        "DW225",
        "error",
        "Episodes that go on after they terminated",
        (*ORDERED, "terminated"),
        ends_inside("terminated"),
    ),
    Check(
        "DW226",
        "error",
        "Episodes that go on after they were truncated",
        (*ORDERED, "truncated"),
        ends_inside("truncated"),
    ),
)
