"""Every row has an episode, a step, a state, an action and a reward, each of one readable type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np

from deadweight.errors import how_many
from deadweight.io.findings import Check, Found, show
from deadweight.io.mending import fitting_formats
from deadweight.io.schema import AS_WRITTEN, FLAGS, LABELS
from deadweight.io.table import LogTable
from deadweight.typing import BoolArray

Run = Callable[[LogTable], Found | None]
LARGEST = 1e100
NO_REWARD = "is blank in every row of the log: there is nothing to evaluate."
NAME_THE_REWARD = (
    "Name the column that holds the reward, for example --columns reward=points (in Python "
    "columns={'reward': 'points'}), or fill it in."
)
NO_DURATIONS = (
    "Write how long each row took, in any unit; or give the column another name if it means something else: "
    "only a discount takes notice of durations."
)


def same_label_twice(name: str) -> Run:
    """'1' and 1 in one column."""

    def run(table: LogTable) -> Found | None:
        kinds = table.kinds(name)
        if not {"text", "numbers"} <= set(kinds):
            return None
        column = table.arrow(name)
        text = {column[row].as_py() for row in kinds["text"]}
        rows = np.array([row for row in kinds["numbers"] if column[row].as_py() in text], dtype=np.int64)
        if not rows.size:
            return None
        label = table.shown(name, column[int(rows[0])].as_py())
        return Found(
            f"{table.called(name)} holds {label} both as text and as a number: as a number in "
            f"{table.rows(rows)}.",
            "Convert all of the column to text, or all of it to numbers, for example with .astype(str).",
            rows,
        )

    return run


def several_types(name: str) -> Run:
    """Text and numbers and whatever else in one column of labels."""

    def run(table: LogTable) -> Found | None:
        kinds = table.kinds(name)
        if not kinds:
            return None
        fewest = min(kinds, key=lambda kind: len(kinds[kind]))
        rows = np.array(kinds[fewest], dtype=np.int64)
        counts = ", ".join(f"{kind} ({how_many(len(rows), 'row')})" for kind, rows in kinds.items())
        return Found(
            f"{table.called(name)} must hold labels of one type, text or numbers; found {counts}. "
            f"{fewest[0].upper() + fewest[1:]}: {table.rows(rows)}.",
            "Convert the whole column to one type.",
            rows,
        )

    return run


def nested(name: str) -> Run:
    """A list or a record in each row."""

    def run(table: LogTable) -> Found | None:
        if not table.labels(name).nested:
            return None
        return Found(
            f"{table.called(name)} must hold one label a row; found {show(str(table.arrow(name).type))}.",
            "Encode several features as one label, for example by joining them as text or by clustering.",
        )

    return run


def too_exact(name: str) -> Run:
    """A decimal with more digits than a number has."""

    def run(table: LogTable) -> Found | None:
        column = table.labels(name)
        wrong = [] if column.distinct is None else [v for v in column.distinct if isinstance(v, Decimal)]
        if not wrong:
            return None
        rows = np.flatnonzero(column.has(*wrong))
        return Found(
            f"{table.called(name)} holds {wrong[0]}, which has more digits than a number can hold, in "
            f"{table.rows(rows)}.",
            f"Convert the {name}s to text, or round them.",
            rows,
        )

    return run


def missing_label(name: str) -> Run:
    """A row without a label."""

    def run(table: LogTable) -> Found | None:
        rows = np.flatnonzero(table.labels(name).missing)
        return _missing(table, name, rows) if rows.size else None

    return run


def _missing(table: LogTable, name: str, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Found:
    return Found(
        f"The {name} is needed in every row; {table.called(name)} has none in {table.rows(rows)}.",
        f"Fill in the {name}, or remove the episodes that lack it.",
        rows,
    )


def step_missing(table: LogTable) -> Found | None:
    """A row without a step."""
    rows = np.flatnonzero(table.steps.missing)
    return _missing(table, "step", rows) if rows.size else None


def step_unreadable(table: LogTable) -> Found | None:
    """A step that is neither a number nor a time; where it looks like a date, the way to read it."""
    found = _not_numbers(table, "step", table.steps.unreadable, "a number or a time that orders the rows")
    formats = [] if found is None else fitting_formats(table.arrow("step"))
    if found is None or not formats:
        return found
    said = " or ".join(f"--time-format '{one}'" for one in formats)
    which = " Which comes first, the day or the month? Whoever wrote the table knows." if formats[1:] else ""
    dates = "They look like dates. Say how they are written (time_format in Python)"
    return replace(found, fix=f"{dates}: {said}.{which}")


def episode_open(table: LogTable) -> Found | None:
    """Episodes without any reward, where nobody has said what they are: neither the user nor a flag."""
    missing = table.numbers("reward").missing
    if not missing.any() or (missing.all() and not table.is_part) or not table.unsaid.any():
        return None
    rows = table.unsaid_rows
    return Found(
        f"{table.called('reward')} is blank in every row of {int(table.unsaid.sum()):,} of "
        f"{how_many(len(table.unsaid), 'episode')}: {table.episodes(rows)}. Such an episode is open: nobody "
        "knows yet how it went.",
        "Say what they are: --open cut (they were cut at their last row), --open drop (leave them out) or "
        "--open zero (they ended, and earned nothing); in Python read with open_episodes='cut'.",
        rows,
    )


def reward_missing(table: LogTable) -> Found | None:
    """A row without a reward, or NaN."""
    missing = table.numbers("reward").missing
    if missing.all() and not table.is_part:
        return Found(f"{table.called('reward')} {NO_REWARD}", NAME_THE_REWARD, np.flatnonzero(missing))
    rows = np.flatnonzero(table.blank)
    if not rows.size:
        return None
    return Found(
        _missing(table, "reward", rows).problem,
        "Where a blank means that nothing was earned, say so: --fill-reward 0 (in Python fill_reward=0). "
        "Where the reward is not known, fill it in or remove the episode.",
        rows,
    )


def reward_unreadable(table: LogTable) -> Found | None:
    """A reward that is not a number."""
    return _not_numbers(table, "reward", table.numbers("reward").unreadable, "a number in every row")


def reward_infinite(table: LogTable) -> Found | None:
    """A reward of plus or minus infinity, or so large that sums of squares are."""
    values = table.numbers("reward").values
    rows = np.flatnonzero(np.abs(values) > LARGEST)
    if not rows.size:
        return None
    return Found(
        f"Rewards must be finite and at most {LARGEST:g} in size; {table.called('reward')} has "
        f"{values[rows[0]]} in {table.rows(rows)}.",
        "Replace infinite rewards by the number that they stand for, or remove their episodes.",
        rows,
    )


def duration_missing(table: LogTable) -> Found | None:
    """A row without a duration, where others have one."""
    rows = np.flatnonzero(table.numbers("duration").missing)
    if not rows.size:
        return None
    return Found(_missing(table, "duration", rows).problem, NO_DURATIONS, rows)


def duration_unreadable(table: LogTable) -> Found | None:
    """A duration that is not a number."""
    return _not_numbers(table, "duration", table.numbers("duration").unreadable, "a number in every row")


def duration_not_positive(table: LogTable) -> Found | None:
    """A duration of nothing or less, or without an end."""
    values = table.numbers("duration").values
    rows = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if not rows.size:
        return None
    return Found(
        f"Durations must be finite and above 0; {table.called('duration')} has {values[rows[0]]} in "
        f"{table.rows(rows)}.",
        NO_DURATIONS,
        rows,
    )


def flag_unreadable(name: str) -> Run:
    """A flag that is neither true nor false."""

    def run(table: LogTable) -> Found | None:
        return _not_numbers(table, name, table.flags(name).unreadable, "True or False (or 1 and 0)")

    return run


def _not_numbers(table: LogTable, name: str, unreadable: BoolArray, expected: str) -> Found | None:
    rows = np.flatnonzero(unreadable)
    if not rows.size:
        return None
    example = table.arrow(name)[int(rows[0])].as_py()
    comma = (
        isinstance(example, str) and example.replace(",", ".", 1).replace(".", "", 1).strip("+-").isdigit()
    )
    return Found(
        f"{table.called(name)} must hold {expected}; found {show(example)} in {table.rows(rows)}.",
        "Write numbers with a decimal point, such as 1.5: a comma before three digits may mean thousands."
        if comma
        else f"Correct or convert the {name} column.",
        rows,
    )


CHECKS: tuple[Check[LogTable], ...] = (
    # What a column is made of comes first: an error there keeps the later checks off it.
    *(
        Check("DW309", "error", "The same label as text and as a number", (n,), same_label_twice(n))
        for n in LABELS
    ),
    *(Check("DW310", "error", "Several types in one column", (n,), several_types(n)) for n in LABELS),
    *(Check("DW311", "error", "Several values in one cell", (n,), nested(n)) for n in LABELS),
    *(
        Check("DW313", "error", "Labels of too many digits", (n,), too_exact(n))
        for n in AS_WRITTEN
        if n != "episode"
    ),
    *(
        Check(f"DW30{i}", "error", f"{n.capitalize()}s missing", (n,), missing_label(n))
        for i, n in enumerate(LABELS, 1)
    ),
    Check("DW304", "error", "Steps missing", ("step",), step_missing),
    Check("DW306", "error", "Steps that are not numbers", ("step",), step_unreadable),
    Check("DW317", "error", "Open episodes", ("episode", "step", "reward"), episode_open),
    Check("DW305", "error", "Rewards missing", ("reward",), reward_missing),
    Check("DW307", "error", "Rewards that are not numbers", ("reward",), reward_unreadable),
    Check("DW308", "error", "Infinite rewards", ("reward",), reward_infinite),
    Check("DW314", "error", "Durations missing", ("duration",), duration_missing),
    Check("DW315", "error", "Durations that are not numbers", ("duration",), duration_unreadable),
    Check("DW316", "error", "Durations that are not above 0", ("duration",), duration_not_positive),
    *(Check("DW312", "error", "Flags that are not true or false", (n,), flag_unreadable(n)) for n in FLAGS),
)
