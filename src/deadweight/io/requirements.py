"""What a table must satisfy to be a log: the checks of severity "error", which `read` and the doctor share.

What `read` refuses and what the doctor calls an error are thus the same by construction. Columns are checked
first (every row has an episode, a step, a state, an action and a reward, each of one readable type), then how
rows follow each other, then logged probabilities, features, and policies given row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from deadweight.errors import assume, first_few, how_many
from deadweight.io.columns import Reading, pc
from deadweight.io.schema import (
    AS_WRITTEN,
    FLAGS,
    LABELS,
    MOST_SHOWN,
    Check,
    Checks,
    Finding,
    Found,
    LogProblem,
    Subject,
    about,
    fitting_formats,
    show,
)
from deadweight.io.table import AFTER, FEATURE, LogTable
from deadweight.log.columns import LARGEST, look_like_logs
from deadweight.log.trajectories import Trajectories
from deadweight.sums.ends import TimeLimit, assumption, inferred_limit
from deadweight.typing import BoolArray, IntArray

ORDERED = ("episode", "step")
LARGEST_REWARD = 1e100  # beyond it sums of squares are infinite
TOLERANCE = 1e-6  # of a sum of probabilities, in single precision
SMALLEST = 1e-100  # a probability below it is as good as 0, and its inverse overflows
NO_REWARD = "is blank in every row of the log: there is nothing to evaluate."
NAME_THE_REWARD = (
    "Name the column that holds the reward, for example --columns reward=points (in Python "
    "columns={'reward': 'points'}), or fill it in."
)
NO_DURATIONS = (
    "Write how long each row took, in any unit; or give the column another name if it means something else: "
    "only a discount takes notice of durations."
)

# --- How rows follow each other

STRUCTURE_CHECKS = Checks[LogTable]()


@STRUCTURE_CHECKS.add("DW201", "error", "Several episodes under one id", *ORDERED)
def _restarted(table: LogTable) -> Found | None:
    again = _restarting_rows(table)  # steps run up, start again at the first, and run up again
    if not again.size:
        return None
    ids = "Make the ids unique, for example by joining them with a user, a site or a date."
    twice = _identical_rows(table) is not None
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


@STRUCTURE_CHECKS.add("DW202", "error", "Rows that repeat another", *ORDERED)
def _identical_rows(table: LogTable) -> Found | None:
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


@STRUCTURE_CHECKS.add("DW203", "error", "Several rows for one step", *ORDERED)
def _repeated_steps(table: LogTable) -> Found | None:
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


@STRUCTURE_CHECKS.add("DW204", "error", "next_state and state of different types", "state", "next_state")
def _next_state_of_other_type(table: LogTable) -> Found | None:
    if table.next_labels is not None and not table.kinds("next_state"):
        return None
    kinds = table.kinds("next_state") or [str(table.arrow("next_state").type)]
    return Found(
        f"{table.called('next_state')} must hold the same labels as {table.called('state')}, which has "
        f"type {table.arrow('state').type}; found {', '.join(kinds)}.",
        "Convert both to text, or both to whole numbers; leave next_state empty where it is unknown.",
        columns=("next_state",),
    )


@STRUCTURE_CHECKS.add(
    "DW205", "error", "next_state is not the state that follows", *ORDERED, "state", "next_state"
)
def _next_state_disagrees(table: LogTable) -> Found | None:
    both, n = table.next_labels, table.n_rows
    if both is None:
        return None
    first, second = (rows[table.in_sequence] for rows in table.inner)  # across a gap it need not be
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


@STRUCTURE_CHECKS.add("DW206", "error", "Several old policies in one episode", *ORDERED, "behaviour_id")
def _several_behaviours(table: LogTable) -> Found | None:
    column = table.labels("behaviour_id")
    first, second = table.inner
    rows = np.sort(second[(column.values[first] != column.values[second]) | column.missing[second]])
    rows = np.union1d(rows, np.flatnonzero(column.missing))
    if not rows.size:
        return None
    row = int(rows[0])
    what = "no id" if column.missing[row] else f"another id, {show(column[row])},"
    return Found(
        f"{table.called('behaviour_id')} must name one old policy for all rows of an episode; found {what} "
        f"in {table.rows(rows)}.",
        "Write the same id in every row of an episode; where the policy changed within it, say "
        "behaviour_prob for each row instead, and leave the ids out.",
        rows,
        ("behaviour_id",),
    )


@STRUCTURE_CHECKS.add(
    "DW226", "error", "Episodes that go on after they were truncated", *ORDERED, each=["truncated"]
)
@STRUCTURE_CHECKS.add(
    "DW225", "error", "Episodes that go on after they terminated", *ORDERED, each=["terminated"]
)
def _ends_inside(table: LogTable, name: str) -> Found | None:
    flags = table.flags(name).values[table.order]
    early = inner_flags(flags, table.offsets)
    return about(
        np.sort(table.order[early]),
        lambda rows: (
            f"{table.called(name)} must be true in the last row of an episode only, or in all of its rows; "
            f"it is true before the last row of {table.episodes(rows)}: in {table.rows(rows)}."
        ),
        "Where two episodes share an id, give each an id of its own; leave out rows that follow the end "
        "(padding). Else correct the flags: one a row, which counts on the last row of an episode.",
        (name,),
    )


def inner_flags(flags: BoolArray, offsets: IntArray) -> BoolArray:
    """(rows,) which flags are set before the last row of an episode whose rows do not all have them."""
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
    column = table.arrow(name)
    if not len(first):
        return np.zeros(0, dtype=bool)
    try:
        left, right = column.take(first), column.take(second)
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return np.asarray(pc.or_(pc.fill_null(pc.equal(left, right), False), both_null))
    except NotImplementedError:  # nested values
        pairs = zip(first, second, strict=True)
        return np.array([column[int(i)].as_py() == column[int(j)].as_py() for i, j in pairs])


# --- What the columns hold; what a column is made of comes first: an error there keeps later checks off it

VALUE_CHECKS = Checks[LogTable]()


@VALUE_CHECKS.add("DW309", "error", "The same label as text and as a number", each=LABELS)
def _same_label_twice(table: LogTable, name: str) -> Found | None:
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


@VALUE_CHECKS.add("DW310", "error", "Several types in one column", each=LABELS)
def _several_types(table: LogTable, name: str) -> Found | None:
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


@VALUE_CHECKS.add("DW311", "error", "Several values in one cell", each=LABELS)
def _nested(table: LogTable, name: str) -> Found | None:
    if not table.labels(name).nested:
        return None
    return Found(
        f"{table.called(name)} must hold one label a row; found {show(str(table.arrow(name).type))}.",
        "Encode several features as one label, for example by joining them as text or by clustering.",
    )


@VALUE_CHECKS.add(
    "DW313", "error", "Labels of too many digits", each=[name for name in AS_WRITTEN if name != "episode"]
)
def _too_exact(table: LogTable, name: str) -> Found | None:
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


@VALUE_CHECKS.add("DW301", "error", "Episodes missing", each=["episode"])
@VALUE_CHECKS.add("DW302", "error", "States missing", each=["state"])
@VALUE_CHECKS.add("DW303", "error", "Actions missing", each=["action"])
def _label_missing(table: LogTable, name: str) -> Found | None:
    return _missing(table, name, table.labels(name).missing)


@VALUE_CHECKS.add("DW304", "error", "Steps missing", "step")
def _step_missing(table: LogTable) -> Found | None:
    return _missing(table, "step", table.steps.missing)


def _missing(table: LogTable, name: str, missing: BoolArray, fix: str = "") -> Found | None:
    return about(
        missing,
        lambda rows: (
            f"The {name} is needed in every row; {table.called(name)} has none in {table.rows(rows)}."
        ),
        fix or f"Fill in the {name}, or remove the episodes that lack it.",
    )


@VALUE_CHECKS.add("DW306", "error", "Steps that are not numbers", "step")
def _step_unreadable(table: LogTable) -> Found | None:
    wrong = _not_numbers(table, "step", table.steps.unreadable, "a number or a time that orders the rows")
    formats = [] if wrong is None else fitting_formats(table.arrow("step"))
    if wrong is None or not formats:
        return wrong
    options = " or ".join(f"--time-format '{form}'" for form in formats)
    which = " Which comes first, the day or the month? Whoever wrote the table knows." if formats[1:] else ""
    dates = "They look like dates. Say how they are written (time_format in Python)"
    return replace(wrong, fix=f"{dates}: {options}.{which}")


@VALUE_CHECKS.add("DW317", "error", "Open episodes", "episode", "step", "reward")
def _episode_open(table: LogTable) -> Found | None:
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


@VALUE_CHECKS.add("DW305", "error", "Rewards missing", "reward")
def _reward_missing(table: LogTable) -> Found | None:
    missing = table.numbers("reward").missing
    if missing.all() and not table.is_part:
        return Found(f"{table.called('reward')} {NO_REWARD}", NAME_THE_REWARD, np.flatnonzero(missing))
    return _missing(
        table,
        "reward",
        table.blank,
        "Where a blank means that nothing was earned, say so: --fill-reward 0 (in Python fill_reward=0). "
        "Where the reward is not known, fill it in or remove the episode.",
    )


@VALUE_CHECKS.add("DW307", "error", "Rewards that are not numbers", "reward")
def _reward_unreadable(table: LogTable) -> Found | None:
    return _not_numbers(table, "reward", table.numbers("reward").unreadable, "a number in every row")


@VALUE_CHECKS.add("DW308", "error", "Infinite rewards", "reward")
def _reward_infinite(table: LogTable) -> Found | None:
    values = table.numbers("reward").values
    return about(
        np.abs(values) > LARGEST_REWARD,
        lambda rows: (
            f"Rewards must be finite and at most {LARGEST_REWARD:g} in size; {table.called('reward')} has "
            f"{values[rows[0]]} in {table.rows(rows)}."
        ),
        "Replace infinite rewards by the number that they stand for, or remove their episodes.",
    )


@VALUE_CHECKS.add("DW314", "error", "Durations missing", "duration")
def _duration_missing(table: LogTable) -> Found | None:
    return _missing(table, "duration", table.numbers("duration").missing, NO_DURATIONS)


@VALUE_CHECKS.add("DW315", "error", "Durations that are not numbers", "duration")
def _duration_unreadable(table: LogTable) -> Found | None:
    return _not_numbers(table, "duration", table.numbers("duration").unreadable, "a number in every row")


@VALUE_CHECKS.add("DW316", "error", "Durations that are not above 0", "duration")
def _duration_not_positive(table: LogTable) -> Found | None:
    values = table.numbers("duration").values
    return about(
        ~((values > 0) & np.isfinite(values)),
        lambda rows: (
            f"Durations must be finite and above 0; {table.called('duration')} has {values[rows[0]]} in "
            f"{table.rows(rows)}."
        ),
        NO_DURATIONS,
    )


@VALUE_CHECKS.add("DW312", "error", "Flags that are not true or false", each=FLAGS)
def _flag_unreadable(table: LogTable, name: str) -> Found | None:
    return _not_numbers(table, name, table.flags(name).unreadable, "True or False (or 1 and 0)")


def _not_numbers(table: LogTable, name: str, unreadable: BoolArray, expected: str) -> Found | None:
    rows = np.flatnonzero(unreadable)
    if not rows.size:
        return None
    example = table.arrow(name)[int(rows[0])].as_py()
    digits = example.replace(",", ".", 1).replace(".", "", 1).strip("+-") if isinstance(example, str) else ""
    return Found(
        f"{table.called(name)} must hold {expected}; found {show(example)} in {table.rows(rows)}.",
        "Write numbers with a decimal point, such as 1.5: a comma before three digits may mean thousands."
        if digits.isdigit()
        else f"Correct or convert the {name} column.",
        rows,
    )


# --- Probabilities of logged actions: in (0, 1] of the behaviour policy, in [0, 1] of the target

BEHAVIOUR, TARGET = "behaviour_prob", "target_prob"
FIX = {
    BEHAVIOUR: "Log the probability with which the action was chosen, or leave the column out and "
    "estimate it from counts (--behaviour counts).",
    TARGET: "Give the probability of the logged action under the policy to be evaluated.",
}
PROBABILITY_CHECKS = Checks[LogTable]()


@PROBABILITY_CHECKS.add("DW411", "error", "target_prob: not numbers", each=[TARGET])
@PROBABILITY_CHECKS.add("DW401", "error", "behaviour_prob: not numbers", each=[BEHAVIOUR])
def _not_a_probability(table: LogTable, name: str) -> Found | None:
    return _about_columns(table, [name], lambda numbers: numbers.unreadable, "must hold numbers", FIX[name])


@PROBABILITY_CHECKS.add("DW412", "error", "target_prob: missing", each=[TARGET])
@PROBABILITY_CHECKS.add("DW402", "error", "behaviour_prob: missing", each=[BEHAVIOUR])
def _probability_missing(table: LogTable, name: str) -> Found | None:
    return about(
        table.numbers(name).missing,
        lambda rows: (
            f"{table.called(name)} needs a probability in every row; it has none in {table.rows(rows)}."
        ),
        FIX[name],
    )


@PROBABILITY_CHECKS.add("DW413", "error", "target_prob: log-probabilities", each=[TARGET])
@PROBABILITY_CHECKS.add("DW403", "error", "behaviour_prob: log-probabilities", each=[BEHAVIOUR])
def _logarithms(table: LogTable, name: str) -> Found | None:
    values = table.numbers(name).values
    if not look_like_logs(values[np.isfinite(values)]):
        return None
    return Found(
        f"{table.called(name)} must hold probabilities; its values from {values.min():.6g} to "
        f"{values.max():.6g} look like log-probabilities.",
        "Store exp of them.",
        np.flatnonzero(values < 0),
    )


@PROBABILITY_CHECKS.add("DW414", "error", "target_prob: percentages", each=[TARGET])
@PROBABILITY_CHECKS.add("DW404", "error", "behaviour_prob: percentages", each=[BEHAVIOUR])
def _percentages(table: LogTable, name: str) -> Found | None:
    values = table.numbers(name).values
    above = values > 1 + TOLERANCE
    # Most values above one, none above a hundred.
    if not (values.min() >= 0 and values.max() <= 100 and above.mean() >= 0.5):
        return None
    return Found(
        f"{table.called(name)} must hold probabilities up to 1; its values from {values.min():.6g} to "
        f"{values.max():.6g} look like percentages.",
        "Divide them by 100.",
        np.flatnonzero(above),
    )


@PROBABILITY_CHECKS.add("DW415", "error", "target_prob: out of range", each=[TARGET])
@PROBABILITY_CHECKS.add("DW405", "error", "behaviour_prob: out of range", each=[BEHAVIOUR])
def _out_of_range(table: LogTable, name: str) -> Found | None:
    values = table.numbers(name).values
    return about(
        ~((values >= 0) & (values <= 1 + TOLERANCE)),
        lambda rows: (
            f"{table.called(name)} must hold probabilities from 0 to 1; found {values[rows[0]]:.6g} in "
            f"{table.rows(rows)}."
        ),
        FIX[name],
    )


@PROBABILITY_CHECKS.add("DW406", "error", "behaviour_prob: zero for an action that was taken", BEHAVIOUR)
def _zero(table: LogTable) -> Found | None:
    return about(
        table.numbers(BEHAVIOUR).values < SMALLEST,
        lambda rows: f"{table.called(BEHAVIOUR)} is 0 in {table.rows(rows)}, but the action was taken there.",
        "A logged action has a positive behaviour probability: correct the column (rounded to 0?), or "
        "leave it out and estimate it from counts (--behaviour counts).",
    )


PROBABILITY_CHECKS.sort(key=lambda check: check.code)

# --- Features are numbers in every row; policies row by row are probabilities that sum to 1

POLICIES = ("target_prob:", "behaviour_prob:")
FEATURE_CHECKS = Checks[LogTable]()


@FEATURE_CHECKS.add("DW701", "error", "Features that are not numbers")
def _text_as_feature(table: LogTable) -> Found | None:
    return _about_columns(
        table,
        [*table.keys(FEATURE), *table.keys(AFTER)],
        lambda numbers: numbers.unreadable,
        "must hold numbers",
        "Turn categories into numbers first: a column of 0 and 1 for each, for example with "
        "pandas.get_dummies.",
    )


@FEATURE_CHECKS.add("DW702", "error", "Features missing")
def _feature_missing(table: LogTable) -> Found | None:
    return _about_columns(
        table,
        table.keys(FEATURE),
        lambda numbers: numbers.missing,
        "needs a number in every row",
        "Fill the holes with a number that means it, for example the last value of the episode, and add a "
        "column of 0 and 1 that says where: that a value was not measured may matter too.",
    )


@FEATURE_CHECKS.add("DW703", "error", "Infinite features")
def _infinite(table: LogTable) -> Found | None:
    return _about_columns(
        table,
        [*table.keys(FEATURE), *table.keys(AFTER)],
        lambda numbers: np.abs(numbers.values) > LARGEST,
        f"must be finite and at most {LARGEST:g} in size",
        "Replace it by the number that it stands for, or remove its episode.",
    )


@FEATURE_CHECKS.add("DW704", "error", "Probabilities of actions out of range")
def _no_probabilities(table: LogTable) -> Found | None:
    return _about_columns(
        table,
        [key for kind in POLICIES for key in table.keys(kind)],
        lambda numbers: ~((numbers.values >= 0) & (numbers.values <= 1 + TOLERANCE)),
        "must hold probabilities from 0 to 1",
        "Give the probability of the action in every row, 0 where the policy never takes it.",
    )


@FEATURE_CHECKS.add("DW705", "error", "Probabilities of actions that do not sum to one")
def _not_one(table: LogTable) -> Found | None:
    for kind in POLICIES:
        keys = table.keys(kind)
        if not keys:
            continue
        sums = table.matrix(kind).sum(axis=1)
        rows = np.flatnonzero(np.abs(sums - 1.0) > TOLERANCE)
        if rows.size:
            return Found(
                f"The columns {first_few([show(table.names[key]) for key in keys], 3)} must sum to 1 in "
                f"every row; they sum to {sums[rows[0]]:.6g} in {table.rows(rows)}.",
                "Add a column for every action, and check that none is a percentage or a logarithm.",
                rows,
                tuple(keys),
            )
    return None


def _about_columns(
    table: LogTable, keys: Sequence[str], wrong: Callable[[Reading], BoolArray], must: str, fix: str
) -> Found | None:
    """The first column with rows that are wrong, and the rows of all such columns."""
    bad = {key: rows for key in keys if (rows := np.flatnonzero(wrong(table.numbers(key)))).size}
    if not bad:
        return None
    key, rows = next(iter(bad.items()))
    further = [show(table.names[name]) for name in list(bad)[1:4]]
    cell = table.arrow(key)[int(rows[0])].as_py()
    return Found(
        f"{table.called(key)} {must}; found {'nothing' if cell is None else show(cell)} in "
        f"{table.rows(rows)}."
        + (f" Likewise {', '.join(further)}{' and more' if len(bad) > 4 else ''}." if further else ""),
        fix,
        np.unique(np.concatenate(list(bad.values()))),
        tuple(bad),
    )


REQUIREMENTS = (*VALUE_CHECKS, *STRUCTURE_CHECKS, *PROBABILITY_CHECKS)
OF_FEATURES = FEATURE_CHECKS


def unmet(table: LogTable) -> tuple[list[Finding], set[str]]:
    """Findings of all checks whose columns are there and have no error yet, and the columns with errors."""
    spoiled = set[str]()
    return findings_of((*REQUIREMENTS, *OF_FEATURES), table, table, spoiled), spoiled


def findings_of(
    checks: Iterable[Check[Subject]], subject: Subject, table: LogTable, spoiled: set[str]
) -> list[Finding]:
    """Findings of the checks whose columns are there and not yet `spoiled`, which learns of further ones.

    An error in a requirement keeps later checks off all columns that it needs; another one only off those
    that it names.
    """
    findings = []
    for check in checks:
        there = table.has(*(name for name in check.needs if name != "target"))
        problem = check.run(subject) if there and spoiled.isdisjoint(check.needs) else None
        if problem is not None:
            sentence, rows = re.sub("^column ", "Column ", problem.problem), problem.rows
            places = tuple(table.place(int(row)) for row in rows[:MOST_SHOWN])
            kind = (check.code, check.severity, check.title)
            findings.append(Finding(*kind, sentence, problem.fix, len(rows), places, rows))
            spoiled.update(problem.columns or (check.needs if subject is table else ()))
    return findings


def log_of(
    table: LogTable, time_limit: TimeLimit = None, tell: Callable[[str], None] = assume
) -> Trajectories:
    """The log of a table, or an error with the first thing that is wrong; options as for `open_log`."""
    findings, _ = unmet(table)
    if findings:
        first, more = findings[0], len(findings) - 1
        raise LogProblem(
            first.code,
            first.problem + " (Rows count from 0.)",
            fix=first.fix
            + (f" There is {how_many(more, 'more problem')}: run `deadweight doctor`." if more else ""),
        )
    return limited(table.trajectories(), time_limit, table.says_ends, tell)


def limited(
    log: Trajectories, time_limit: TimeLimit, says_ends: bool, tell: Callable[[str], None] = assume
) -> Trajectories:
    """The log with its time limit: the given one, or the one that it shows; flags win over both."""
    if says_ends:
        said = None if time_limit == "infer" else time_limit
        return log._limited_to(log.limit_by_flags(said, tell))
    if time_limit != "infer":
        return log if time_limit is None else log.with_time_limit(time_limit)
    limit = inferred_limit(log)
    if limit is None:
        return log
    cut = log.with_time_limit(limit)
    tell(assumption(limit, int((log.terminated & ~cut.terminated).sum()), log.n_episodes))
    return cut
