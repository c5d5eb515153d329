"""What a table must satisfy to be a log: the checks of severity "error", which `read` and the doctor share.

So what `read` refuses and what the doctor calls an error are the same by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from deadweight.errors import how_many
from deadweight.io.columns import Numbers
from deadweight.io.schema import (
    AS_WRITTEN,
    FLAGS,
    LABELS,
    MOST_SHOWN,
    Check,
    Finding,
    Found,
    Severity,
    fitting_formats,
    show,
)
from deadweight.io.table import AFTER, FEATURE, LogTable
from deadweight.log.columns import LARGEST, look_like_logs
from deadweight.typing import BoolArray, IntArray

# --------------------------------------------------------------------------------------------------------
# Every step of an episode stands in one row, and next_state says what the next row says.


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
STRUCTURE_CHECKS: tuple[Check[LogTable], ...] = (
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


# --------------------------------------------------------------------------------------------------------
# Every row has an episode, a step, a state, an action and a reward, each of one readable type.

Run = Callable[[LogTable], Found | None]
LARGEST_REWARD = 1e100
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
    rows = np.flatnonzero(np.abs(values) > LARGEST_REWARD)
    if not rows.size:
        return None
    return Found(
        f"Rewards must be finite and at most {LARGEST_REWARD:g} in size; {table.called('reward')} has "
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


VALUE_CHECKS: tuple[Check[LogTable], ...] = (
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


# --------------------------------------------------------------------------------------------------------
# Probabilities of logged actions are numbers in (0, 1] (behaviour) or [0, 1] (target).

TOLERANCE = 1e-6  # single precision
SMALLEST = 1e-100  # below, it is as good as 0, and its inverse overflows
CODES = {"behaviour_prob": 400, "target_prob": 410}
FIX = {
    "behaviour_prob": "Log the probability with which the action was chosen, or leave the column out and "
    "estimate it from counts (--behaviour counts).",
    "target_prob": "Give the probability of the logged action under the policy to be evaluated.",
}

RunNamed = Callable[[LogTable, str], Found | None]


def unreadable(table: LogTable, name: str) -> Found | None:
    """Something that is not a number."""
    rows = np.flatnonzero(table.numbers(name).unreadable)
    if not rows.size:
        return None
    example = show(table.arrow(name)[int(rows[0])].as_py())
    return Found(
        f"{table.called(name)} must hold numbers; found {example} in {table.rows(rows)}.", FIX[name], rows
    )


def probability_missing(table: LogTable, name: str) -> Found | None:
    """A row without a probability."""
    rows = np.flatnonzero(table.numbers(name).missing)
    if not rows.size:
        return None
    return Found(
        f"{table.called(name)} needs a probability in every row; it has none in {table.rows(rows)}.",
        FIX[name],
        rows,
    )


def logarithms(table: LogTable, name: str) -> Found | None:
    """Nothing above zero: log-probabilities."""
    values = table.numbers(name).values
    if not look_like_logs(values[np.isfinite(values)]):
        return None
    return Found(
        f"{table.called(name)} must hold probabilities; its values from {values.min():.6g} to "
        f"{values.max():.6g} look like log-probabilities.",
        "Store exp of them.",
        np.flatnonzero(values < 0),
    )


def percentages(table: LogTable, name: str) -> Found | None:
    """Most values above one, none above a hundred."""
    values = table.numbers(name).values
    above = values > 1 + TOLERANCE
    if not (values.min() >= 0 and values.max() <= 100 and above.mean() >= 0.5):
        return None
    return Found(
        f"{table.called(name)} must hold probabilities up to 1; its values from {values.min():.6g} to "
        f"{values.max():.6g} look like percentages.",
        "Divide them by 100.",
        np.flatnonzero(above),
    )


def out_of_range(table: LogTable, name: str) -> Found | None:
    """Below zero or above one."""
    values = table.numbers(name).values
    rows = np.flatnonzero(~((values >= 0) & (values <= 1 + TOLERANCE)))
    if not rows.size:
        return None
    return Found(
        f"{table.called(name)} must hold probabilities from 0 to 1; found {values[rows[0]]:.6g} in "
        f"{table.rows(rows)}.",
        FIX[name],
        rows,
    )


def zero(table: LogTable, name: str) -> Found | None:
    """An action that was taken, with probability zero or as good as zero."""
    rows = np.flatnonzero(table.numbers(name).values < SMALLEST)
    if name == "target_prob" or not rows.size:
        return None
    return Found(
        f"{table.called(name)} is 0 in {table.rows(rows)}, but the action was taken there.",
        "A logged action has a positive behaviour probability: correct the column (rounded to 0?), or "
        "leave it out and estimate it from counts (--behaviour counts).",
        rows,
    )


LINES: tuple[tuple[str, RunNamed], ...] = (
    ("not numbers", unreadable),
    ("missing", probability_missing),
    ("log-probabilities", logarithms),
    ("percentages", percentages),
    ("out of range", out_of_range),
    ("zero for an action that was taken", zero),
)


def _checks() -> Iterator[Check[LogTable]]:
    for name, base in CODES.items():
        for i, (title, run) in enumerate(LINES, 1):
            if not (name == "target_prob" and run is zero):
                yield Check(f"DW{base + i}", "error", f"{name}: {title}", (name,), _bound(run, name))


def _bound(run: RunNamed, name: str) -> Callable[[LogTable], Found | None]:
    return lambda table: run(table, name)


PROBABILITY_CHECKS: tuple[Check[LogTable], ...] = tuple(_checks())


# --------------------------------------------------------------------------------------------------------
# Features are numbers in every row, and policies row by row are probabilities that sum to 1.

POLICIES = ("target_prob:", "behaviour_prob:")
FIX_TEXT = (
    "Turn categories into numbers first: a column of 0 and 1 for each, for example with pandas.get_dummies."
)
FIX_MISSING = (
    "Fill the holes with a number that means it, for example the last value of the episode, and add a column "
    "of 0 and 1 that says where: that a value was not measured may matter too."
)


def not_numbers(table: LogTable) -> Found | None:
    """Text in a feature."""
    keys = [*table.keys(FEATURE), *table.keys(AFTER)]
    return _first(table, keys, lambda numbers: numbers.unreadable, "must hold numbers", FIX_TEXT)


def feature_missing(table: LogTable) -> Found | None:
    """A row without a value of a feature."""
    keys = table.keys(FEATURE)
    return _first(table, keys, lambda numbers: numbers.missing, "needs a number in every row", FIX_MISSING)


def infinite(table: LogTable) -> Found | None:
    """A feature of plus or minus infinity, or so large that its squares are."""
    keys = [*table.keys(FEATURE), *table.keys(AFTER)]
    return _first(
        table,
        keys,
        lambda numbers: np.abs(numbers.values) > LARGEST,
        f"must be finite and at most {LARGEST:g} in size",
        "Replace it by the number that it stands for, or remove its episode.",
    )


def no_probabilities(table: LogTable) -> Found | None:
    """A policy row by row with cells that are no probabilities."""
    keys = [key for kind in POLICIES for key in table.keys(kind)]
    return _first(
        table,
        keys,
        lambda numbers: ~((numbers.values >= 0) & (numbers.values <= 1 + TOLERANCE)),
        "must hold probabilities from 0 to 1",
        "Give the probability of the action in every row, 0 where the policy never takes it.",
    )


def not_one(table: LogTable) -> Found | None:
    """A policy row by row whose rows do not sum to 1."""
    for kind in POLICIES:
        keys = table.keys(kind)
        if not keys:
            continue
        sums = table.matrix(kind).sum(axis=1)
        rows = np.flatnonzero(np.abs(sums - 1.0) > TOLERANCE)
        if rows.size:
            return Found(
                f"The columns {', '.join(show(table.names[key]) for key in keys[:3])}"
                + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
                + f" must sum to 1 in every row; they sum to {sums[rows[0]]:.6g} in {table.rows(rows)}.",
                "Add a column for every action, and check that none is a percentage or a logarithm.",
                rows,
                tuple(keys),
            )
    return None


def _first(
    table: LogTable,
    keys: Sequence[str],
    wrong: Callable[[Numbers], BoolArray],
    must: str,
    fix: str,
) -> Found | None:
    """The first column with rows that are wrong, and all that are."""
    bad = {key: rows for key in keys if (rows := np.flatnonzero(wrong(table.numbers(key)))).size}
    if not bad:
        return None
    key, rows = next(iter(bad.items()))
    others = [show(table.names[other]) for other in list(bad)[1:4]]
    found = table.arrow(key)[int(rows[0])].as_py()
    return Found(
        f"{table.called(key)} {must}; found {'nothing' if found is None else show(found)} in "
        f"{table.rows(rows)}."
        + (f" Likewise {', '.join(others)}{' and more' if len(bad) > 4 else ''}." if others else ""),
        fix,
        np.unique(np.concatenate(list(bad.values()))),
        tuple(bad),
    )


FEATURE_CHECKS: tuple[Check[LogTable], ...] = (
    Check("DW701", "error", "Features that are not numbers", (), not_numbers),
    Check("DW702", "error", "Features missing", (), feature_missing),
    Check("DW703", "error", "Infinite features", (), infinite),
    Check("DW704", "error", "Probabilities of actions out of range", (), no_probabilities),
    Check("DW705", "error", "Probabilities of actions that do not sum to one", (), not_one),
)


# --------------------------------------------------------------------------------------------------------

REQUIREMENTS: tuple[Check[LogTable], ...] = (*VALUE_CHECKS, *STRUCTURE_CHECKS, *PROBABILITY_CHECKS)
OF_FEATURES: tuple[Check[LogTable], ...] = FEATURE_CHECKS


def unmet(table: LogTable) -> tuple[list[Finding], set[str]]:
    """Findings of all checks whose columns are there and have no error yet, and the columns with errors."""
    findings, spoiled = [], set[str]()
    for check in (*REQUIREMENTS, *OF_FEATURES):
        if table.has(*check.needs) and spoiled.isdisjoint(check.needs):
            found = check.run(table)
            if found is not None:
                findings.append(finding(check.code, check.severity, check.title, found, table))
                spoiled.update(found.columns or check.needs)
    return findings, spoiled


def finding(code: str, severity: Severity, title: str, found: Found, table: LogTable) -> Finding:
    """What a check found, with the places of the first few rows."""
    rows = tuple(table.place(int(row)) for row in found.rows[:MOST_SHOWN])
    problem = (
        found.problem.replace("column ", "Column ", 1)
        if found.problem.startswith("column ")
        else found.problem
    )
    return Finding(code, severity, title, problem, found.fix, len(found.rows), rows, found.rows)
