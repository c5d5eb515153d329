"""Steps and flags: gaps, late starts, odd step columns, episodes that end in the middle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadweight.doctor.case import Case
from deadweight.errors import how_many
from deadweight.io.findings import Check, Found, show

SECONDS_SINCE_1970 = 1e8  # a step count this high is a clock


def gaps(case: Case) -> Found | None:
    """Steps that are not there."""
    table = case.table
    if table.steps.are_times or _clock(case) or table.steps.values.dtype.kind == "f":
        return None
    after = table.inner[1][~table.in_sequence]
    if not after.size:
        return None
    return Found(
        f"Steps should follow each other; {how_many(len(after), 'gap')} in {table.episodes(after)}, the "
        f"first before {table.where(int(np.sort(after)[0]))}. The steps on both sides will count as "
        "neighbours.",
        "Log every step, or make sure that rows were not filtered away; renumber the steps if the numbers "
        "mean something else.",
        np.sort(after),
    )


def late_start(case: Case) -> Found | None:
    """Episodes whose first step is not that of the others, or above 1."""
    table = case.table
    if table.steps.are_times or _clock(case):
        return None
    rows = table.order[table.offsets[:-1]]
    first = table.steps.values[rows]
    usual = min(first.min(), 1)
    late = first > usual
    if not late.any():
        return None
    return Found(
        f"Episodes should begin at step {show(usual)}; found a later start in "
        f"{how_many(int(late.sum()), 'episode')} of {len(first):,}, for example "
        f"{table.where(int(rows[late][0]))}: is the beginning missing?",
        "Log episodes from their first step; one that begins in the middle is evaluated as if it began "
        "there.",
        np.sort(rows[late]),
    )


def negative_steps(case: Case) -> Found | None:
    """Steps below zero."""
    rows = np.flatnonzero(case.table.steps.values < 0)
    if not rows.size or case.table.steps.are_times:
        return None
    return Found(
        f"Steps usually count from 0 or 1; found {show(case.table.steps.values[rows[0]])} in "
        f"{case.table.rows(rows)}.",
        "Check that negative steps are not a code for something else; they are sorted before step 0.",
        rows,
    )


def times(case: Case) -> Found | None:
    """Dates, times or seconds since 1970 instead of a count."""
    if not (case.table.steps.are_times or _clock(case)):
        return None
    return Found(
        f"{case.table.called('step')} holds times. They order the rows, but gaps cannot be seen, and time "
        "that passes between two steps is not discounted.",
        "Nothing to do if the order is all that matters; else number the steps.",
    )


def fractions(case: Case) -> Found | None:
    """Steps such as 0.5."""
    values = case.table.steps.values
    rows = np.flatnonzero(values != np.floor(values))
    if not rows.size:
        return None
    return Found(
        f"Steps should be whole numbers; found {show(values[rows[0]])} in {case.table.rows(rows)}.",
        "They are used as they sort; number the steps if they are something else than a count.",
        rows,
    )


def both_flags(case: Case) -> Found | None:
    """Ended and cut at once."""
    table, last = case.table, case.table.last_rows
    rows = np.sort(last[table.flags("terminated").values[last] & table.flags("truncated").values[last]])
    if not rows.size:
        return None
    return Found(
        f"An episode ends or is cut; both flags are set on {how_many(len(rows), 'last row')}, first "
        f"{table.rows(rows)}. They count as ended.",
        "Set truncated only where the log stops although the task goes on.",
        rows,
    )


def no_flag(case: Case) -> Found | None:
    """Neither ended nor cut."""
    table, last = case.table, case.table.last_rows
    flagged = table.flags("terminated").values[last] | table.flags("truncated").values[last]
    rows = np.sort(last[~flagged])
    if not rows.size:
        return None
    return Found(
        f"Neither flag is set at the end of {how_many(len(rows), 'episode')}, first {table.rows(rows)}. "
        "That counts as cut.",
        "Set terminated where the task was over, truncated where the log stops.",
        rows,
    )


def flag_missing(name: str) -> Callable[[Case], Found | None]:
    """A last row without a flag."""

    def run(case: Case) -> Found | None:
        table, last = case.table, case.table.last_rows
        rows = np.sort(last[table.flags(name).missing[last]])
        if not rows.size:
            return None
        return Found(
            f"{table.called(name)} is empty on the last row of {how_many(len(rows), 'episode')}, first "
            f"{table.rows(rows)}. That counts as False.",
            "Fill in the flag on the last row of every episode.",
            rows,
        )

    return run


def _clock(case: Case) -> bool:
    return bool(np.abs(case.table.steps.values).min() >= SECONDS_SINCE_1970)


ORDERED = ("episode", "step")
CHECKS: tuple[Check[Case], ...] = (
    Check("DW221", "warning", "Steps missing in between", ORDERED, gaps),
    Check("DW222", "warning", "Episodes that begin late", ORDERED, late_start),
    Check("DW223", "info", "Times as steps", ORDERED, times),
    Check("DW224", "warning", "Steps that are not whole numbers", ORDERED, fractions),
    Check(
        "DW227",
        "warning",
        "Terminated and truncated at once",
        (*ORDERED, "terminated", "truncated"),
        both_flags,
    ),
    Check(
        "DW228", "warning", "Neither terminated nor truncated", (*ORDERED, "terminated", "truncated"), no_flag
    ),
    *(
        Check("DW229", "warning", "No flag on the last row", (*ORDERED, n), flag_missing(n))
        for n in ("terminated", "truncated")
    ),
    Check("DW230", "warning", "Negative steps", ORDERED, negative_steps),
)
