"""LogTable: a user's table with its columns found, each read once in the way that a log needs it.

The checks look at it in the user's row order and speak of the user's rows, counted from 0. Once nothing is
wrong, `trajectories` sorts it into episodes.

Some columns have names of the user's choice. Features of states are asked for by name or by wildcard, and
`next_<name>` holds what follows the last row of a cut episode; columns `target_prob_<action>` and
`behaviour_prob_<action>` are whole policies, row by row. Inside they have keys such as "feature:lactate",
which no column of ours can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from deadweight.errors import OptionError, TooLarge, assume, did_you_mean, how_many
from deadweight.io.columns import (
    LabelColumn,
    Reading,
    decoded,
    index_labels,
    is_text,
    join_labels,
    read_flags,
    read_labels,
    read_numbers,
    read_steps,
)
from deadweight.io.files import as_numbers, without_words
from deadweight.io.folders import require_path
from deadweight.io.frames import Columns, Kinds, read_columns
from deadweight.io.schema import NOTHING, OPTIONAL, REQUIRED, LogProblem, Mending, listed, match_columns, show
from deadweight.log.columns import Features
from deadweight.log.labels import in_the_words_of, objects, plain, positions
from deadweight.log.policies import RowPolicy
from deadweight.log.trajectories import TableRows, Trajectories
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray, Labels

Column = TypeVar("Column", Reading, LabelColumn)
FEATURE, AFTER = "feature:", "next:"
ACTION_PREFIXES = {"target_prob": "target_prob_", "behaviour_prob": "behaviour_prob_"}
WILD = "*?["


def checked_patterns(features: Sequence[str] | str | None) -> list[str] | None:
    """Names and wildcards of features as the user gave them, or None."""
    if features is None:
        return None
    patterns = [features] if isinstance(features, str) else list(features)
    if not patterns or not all(isinstance(name, str) and name for name in patterns):
        raise OptionError(
            f"features must name columns, for example ['lactate', 'x_*']; found {features!r}.",
            fix="Leave it out for a log whose states are labels.",
        )
    return patterns


def match_features(
    patterns: Sequence[str], header: Sequence[str], used: Mapping[str, str], source: str
) -> dict[str, str]:
    """ "feature:<name>" -> column, in the order of the patterns, and "next:<name>" -> column.

    A wildcard passes by the columns that the log uses otherwise, and those of successors and probabilities.
    """
    taken = {theirs: ours for ours, theirs in used.items()}
    follows = {f"next_{name}" for name in header}
    prefixes = tuple(ACTION_PREFIXES.values())
    free = [n for n in header if not (n in taken or n in follows or n.startswith(prefixes))]
    matching = [_fitting(pattern, header, free, taken, source) for pattern in patterns]
    names = list(dict.fromkeys(name for columns in matching for name in columns))
    after = [name for name in names if f"next_{name}" in header]
    if after and len(after) < len(names):
        lacking = next(name for name in names if name not in after)
        raise LogProblem(
            "DW110",
            f"What follows a cut episode takes all features: {source} has {show('next_' + after[0])} and no "
            f"{show('next_' + lacking)}.",
            fix="Add the columns that are missing, or remove those that are there.",
        )
    return {FEATURE + name: name for name in names} | {AFTER + name: f"next_{name}" for name in after}


def _fitting(
    pattern: str, header: Sequence[str], free: Sequence[str], taken: Mapping[str, str], source: str
) -> list[str]:
    """The column of this name or, for a wildcard, the free ones that fit; `taken` is theirs -> ours."""
    if pattern in header and taken.get(pattern, "state") != "state":
        raise LogProblem(
            "DW110",
            f"A feature describes the state before the action; column {show(pattern)} is the "
            f"{taken[pattern]} of the log.",
            fix="Leave it out. If earlier values of it matter, write them into a column of their own.",
        )
    matching = [pattern] if pattern in header else [name for name in free if fnmatchcase(name, pattern)]
    if not matching:
        raise LogProblem(
            "DW110",
            f"No column of {source} fits the feature {show(pattern)}."
            + ("" if set(pattern) & set(WILD) else did_you_mean(pattern, header))
            + f" Found: {listed(header)}.",
            fix="Name columns of the table; * stands for any characters, as in x_*.",
        )
    return matching


def match_actions(header: Sequence[str]) -> dict[str, str]:
    """ "target_prob:<action>" -> column and the like, of probabilities for each action.

    >>> match_actions(["target_prob_wait", "target_prob_treat", "target_prob"])
    {'target_prob:wait': 'target_prob_wait', 'target_prob:treat': 'target_prob_treat'}
    """
    keys: dict[str, str] = {}
    for ours, prefix in ACTION_PREFIXES.items():
        columns = [name for name in header if name.startswith(prefix) and len(name) > len(prefix)]
        keys |= {f"{ours}:{name[len(prefix) :]}": name for name in columns}
        follow = [f"next_{name}" for name in columns]
        if columns and all(name in header for name in follow):
            keys |= {f"next_{ours}:{name[len('next_' + prefix) :]}": name for name in follow}
    return keys


def features_of(table: LogTable) -> Features | None:
    """The features of all steps, and of what follows those cut episodes that say it."""
    if not table.feature_names:
        return None
    last = _after(table, AFTER)
    if last is None:
        last = np.full((len(table.offsets) - 1, len(table.feature_names)), np.nan)
    return Features(table.matrix(FEATURE)[table.order], last, table.feature_names)


def row_policy(table: LogTable, name: str, action_labels: Labels) -> RowPolicy | None:
    """The policy that columns such as target_prob_<action> are, if there are any, in the order of the log.

    Actions are matched with those of the log as they are written.
    """
    keys = table.keys(f"{name}:")
    if not keys:
        return None
    actions = objects([key.split(":", 1)[1] for key in keys])
    named = list(in_the_words_of(action_labels, actions))
    last = _after(table, f"next_{name}:")
    return RowPolicy(table.matrix(f"{name}:")[table.order], named, last).made_for(table.table_rows)


def _after(table: LogTable, prefix: str) -> FloatArray | None:
    """(n, d) what columns say of what follows each cut episode, NaN where they do not; None without any."""
    if not table.keys(prefix):
        return None
    cut = ~table.terminated
    last = np.full((len(cut), len(table.keys(prefix))), np.nan)
    last[cut] = table.matrix(prefix)[table.last_rows[cut]]
    last[~np.isfinite(last).all(axis=1)] = np.nan
    return last


def open_table(
    source: Any,
    columns: Mapping[str, str] | None = None,
    mending: Mending = NOTHING,
    features: Sequence[str] | str | None = None,
    tell: Callable[[str], None] = assume,
) -> LogTable:
    """The table of a log, with its columns found and mended; an error (DW1xx) if there is no such table.

    Without features a log needs a state column. `tell` is told what of a folder is no data.
    """
    names: dict[str, str] = {}
    patterns = checked_patterns(features)
    is_path = isinstance(source, (str, Path))
    name = repr(str(source)) if is_path else "the table"
    if is_path:
        require_path(source)

    def choose(header: list[str], text: list[str], hint: str) -> Mapping[str, str]:
        required = [ours for ours in REQUIRED if patterns is None or ours != "state"]
        optional = OPTIONAL if patterns is None else ("state", *OPTIONAL)
        known = match_columns(header, columns, required, optional, name, hint, text=text)
        known |= match_actions(header)
        if patterns is not None:
            known |= match_features(patterns, header, known, name)
        kept = mending.kept(known)
        names.update(kept)
        return kept

    try:
        read = read_columns(source, choose, tell)
    except TooLarge as error:
        if patterns is None:
            raise
        raise TooLarge(
            error.problem,
            fix="Logs with features are read into memory whole, not in parts: take fewer rows or features.",
        ) from None
    ours = {theirs: name for name, theirs in names.items()}
    mended = {theirs: mending.column(ours.get(theirs, ""), column) for theirs, column in read.arrow.items()}
    table = LogTable(replace(read, arrow=mended), names, str(source) if is_path else name, mending=mending)
    if table.n_rows == 0:
        raise LogProblem(
            "DW104",
            f"A log needs at least one row; {name} has the columns but no rows.",
            fix="Check how the log was written or filtered.",
        )
    return table


@dataclass(eq=False)
class LogTable:
    """One row a step, in the user's order."""

    columns: Columns  # by the user's names
    names: dict[str, str]  # ours -> the user's
    source: str = "the table"  # in messages
    states: Labels | None = None  # of the log that this is a part of; None if it is the whole
    mending: Mending = NOTHING
    is_part: bool = False
    _read: dict[Any, Any] = field(default_factory=dict, init=False)
    _log: Trajectories | None = field(default=None, init=False)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.arrow("episode"))

    def has(self, *names: str) -> bool:
        """Whether all these columns are there."""
        return all(name in self.names for name in names)

    def called(self, name: str) -> str:
        """The column for messages: the user's name, and ours if it differs."""
        theirs = self.names[name]
        return f"column {show(theirs)}" + ("" if theirs == name or ":" in name else f" ({name})")

    def keys(self, prefix: str) -> list[str]:
        """Our names of the columns of one kind: "feature:", "target_prob:" and the like."""
        return [name for name in self.names if name.startswith(prefix)]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that were asked for."""
        return tuple(name.removeprefix(FEATURE) for name in self.keys(FEATURE))

    @property
    def unused(self) -> list[str]:
        """Columns of the user's that no part of a log is read from."""
        used = set(self.names.values())
        return [name for name in self.columns.all_names if name not in used]

    def arrow(self, name: str) -> Any:
        """The column as it came, in Arrow."""
        return self.columns.arrow[self.names[name]]

    def kinds(self, name: str) -> Kinds:
        """The rows of each type in a column that has values of several types; empty for one type."""
        return self.columns.mixed.get(self.names[name], {})

    def numbers(self, name: str) -> Reading:
        """The column as numbers."""
        return self._once(read_numbers, name)

    def flags(self, name: str) -> Reading:
        """The column as True and False."""
        return self._once(read_flags, name)

    def labels(self, name: str) -> LabelColumn:
        """The column as labels."""
        return self._once(read_labels, name)

    @cached_property
    def steps(self) -> Reading:
        """The step column."""
        return read_steps(self.arrow("step"))

    def _once(self, read: Callable[[Any], Column], name: str) -> Column:
        if (read, name) not in self._read:
            self._read[read, name] = read(self.arrow(name))
        column: Column = self._read[read, name]
        return column

    @cached_property
    def is_open(self) -> BoolArray:
        """(rows,) whether the reward is blank in every row of the row's episode."""
        missing = self.numbers("reward").missing
        if not missing.any():
            return missing
        _, episode = np.unique(self.episode_keys, return_inverse=True)
        known = np.zeros(self.n_rows, dtype=bool)  # by episode: there are no more of them than rows
        known[episode[~missing]] = True
        return ~known[episode]

    @cached_property
    def blank(self) -> BoolArray:
        """(rows,) where there is no reward, and nobody has said what that means."""
        missing = self.numbers("reward").missing
        if self.mending.fill_reward is not None or not missing.any():
            return np.zeros(self.n_rows, dtype=bool)
        return missing if self.mending.open_episodes is None else missing & ~self.is_open

    @cached_property
    def rewards(self) -> FloatArray:
        """(rows,) the reward; of blanks what was said, and 0 in open episodes."""
        read, said = self.numbers("reward"), self.mending
        values = read.values
        if said.fill_reward is not None:
            values = np.where(read.missing, said.fill_reward, values)
        return values if said.open_episodes is None else np.where(self.is_open, 0.0, values)

    @cached_property
    def episode_keys(self) -> IntArray:
        """(rows,) integers in the order of the episode labels."""
        return self.labels("episode").sort_keys()

    @cached_property
    def order(self) -> IntArray:
        """The user's rows sorted by episode, then step, without what is dropped; ties keep their order."""
        if self.mending.open_episodes == "drop" and not self.is_open.all():
            return self._order[~self.is_open[self._order]]
        return self._order

    @cached_property
    def _order(self) -> IntArray:
        """(rows,) all rows sorted by episode, then step; ties keep their order."""
        episode, step = self.episode_keys, self.steps.values
        same = episode[1:] == episode[:-1]
        if bool(np.all((episode[1:] > episode[:-1]) | (same & (step[1:] >= step[:-1])))):
            return np.arange(self.n_rows)
        low, n_steps = int(step.min()), int(step.max()) - int(step.min()) + 1
        n_keys = int(episode.max()) - int(episode.min()) + 1
        if step.dtype.kind == "i" and n_keys * n_steps < 2**62:
            # One sort of one key is twice as fast as two sorts.
            return np.argsort((episode - episode.min()) * n_steps + (step - low), kind="stable")
        return np.lexsort((step, episode))

    @cached_property
    def offsets(self) -> IntArray:
        """(n + 1,) first sorted position of each episode, then the number of rows."""
        episode = self.episode_keys[self.order]
        return np.concatenate([[0], np.flatnonzero(episode[1:] != episode[:-1]) + 1, [len(episode)]])

    @cached_property
    def table_rows(self) -> TableRows:
        """The place of each step of the log in the table."""
        return TableRows.whole(self.order, self.n_rows, len(self.offsets) - 1)

    @property
    def last_rows(self) -> IntArray:
        """(n,) the user's row of each episode's last step."""
        return self.order[self.offsets[1:] - 1]

    @cached_property
    def inner(self) -> tuple[IntArray, IntArray]:
        """The user's rows of every two steps of an episode that follow each other."""
        follows = np.ones(len(self.order), dtype=bool)
        follows[self.offsets[:-1]] = False
        second = np.flatnonzero(follows)
        return self.order[second - 1], self.order[second]

    @cached_property
    def repeated(self) -> tuple[IntArray, IntArray]:
        """The pairs of `inner` that have the same step."""
        first, second = self.inner
        same = self.steps.values[first] == self.steps.values[second]
        return first[same], second[same]

    @cached_property
    def in_sequence(self) -> BoolArray:
        """For every pair of `inner`, whether no step is missing between the two."""
        first, second = self.inner
        if self.steps.are_times:
            return np.ones(len(first), dtype=bool)
        step = self.steps.values
        return np.asarray(step[second] - step[first] == 1)

    @property
    def says_ends(self) -> bool:
        """Whether there are flags that say how episodes end."""
        return self.has("terminated") or self.has("truncated")

    @cached_property
    def unsaid(self) -> BoolArray:
        """(n,) open episodes of which neither the user nor a flag says what they are."""
        if self.mending.open_episodes is not None:
            return np.zeros(len(self.offsets) - 1, dtype=bool)
        return self.is_open[self.last_rows] & self.flagged_ends

    @property
    def unsaid_rows(self) -> IntArray:
        """The user's rows of the episodes of `unsaid`."""
        return np.sort(self.order[np.repeat(self.unsaid, np.diff(self.offsets))])

    @cached_property
    def terminated(self) -> BoolArray:
        """(n,) whether each episode ended rather than being cut, by flags and by what open episodes are."""
        if self.mending.open_episodes != "cut":
            return self.flagged_ends
        return self.flagged_ends & ~self.is_open[self.last_rows]

    @cached_property
    def flagged_ends(self) -> BoolArray:
        """(n,) whether each episode ended as the flags say; a missing flag counts as False."""
        last = self.last_rows
        if self.has("terminated"):
            return self.flags("terminated").values[last]
        if self.has("truncated"):
            return ~self.flags("truncated").values[last]
        return np.ones(len(last), dtype=bool)

    @cached_property
    def next_labels(self) -> LabelColumn | None:
        """State and next_state as one column of labels, null unknown; None if their types differ.

        -1 is unknown as well, unless it is a state.
        """
        states, following = self.labels("state"), self.labels("next_state")
        if following.distinct is not None and states.distinct is None and not following.nested:
            # A file without types writes a hole among numbers as a word.
            column = decoded(self.arrow("next_state"))
            numbers = as_numbers(without_words(column)) if is_text(column.type) else None
            following = following if numbers is None else read_labels(numbers)
        minus_one = following.has(-1, "-1")
        if minus_one.any() and not (
            states.has(-1, "-1").any() if self.states is None else {-1, "-1"} & {*self.states}
        ):
            unknown = following.missing | minus_one
            following = LabelColumn(following.values, unknown, following.distinct, following.nested)
        return join_labels(states, following)

    def trajectories(self) -> Trajectories:
        """The log, made once; only for a table in which no check has found an error."""
        if self._log is None:
            self._log = self._trajectories()
        return self._log

    def _trajectories(self) -> Trajectories:
        order = self.order
        codes, state_labels, successor = self._numbered_states()
        actions, action_labels = index_labels(self.labels("action"), "action")
        policies = {
            name: rows
            for name, column in (("pi_e", "target_prob"), ("pi_b", "behaviour_prob"))
            if (rows := row_policy(self, column, action_labels)) is not None
        }
        taken, makers = (actions[order], action_labels), None
        if self.has("behaviour_id"):  # it is the same in all rows of an episode
            column = self.labels("behaviour_id")
            makers = objects([plain(column[int(row)]) for row in order[self.offsets[:-1]]])
        log = Trajectories._from_codes(
            codes[order],
            actions[order],
            self.rewards[order],
            self.offsets,
            state_labels=state_labels,
            action_labels=action_labels,
            propensities=self._probabilities("behaviour_prob", policies.get("pi_b"), taken),
            target_probs=self._probabilities("target_prob", policies.get("pi_e"), taken),
            terminated=self.terminated,
            last_successor=successor,
            has_next_states=self.has("next_state"),
            behaviour_ids=makers,
            described=features_of(self),
            policies=policies,
            durations=self.numbers("duration").values[order] if self.has("duration") else None,
            table_rows=self.table_rows,
        )
        return log if self.has("state") else log.by_row()

    def _numbered_states(self) -> tuple[IntArray, Labels, IntArray]:
        """(rows,) codes of the states, their labels, and (n,) codes of what follows cut episodes, or -1."""
        n = self.n_rows
        successor = np.full(len(self.offsets) - 1, -1, dtype=np.int64)
        if not self.has("state"):
            return np.zeros(n, dtype=np.int64), np.arange(1), successor
        states = self.labels("state")
        if not self.has("next_state") or self.next_labels is None:
            return *index_labels(states, "state"), successor
        # Only what is new is named: the successors of truncated last steps.
        cut = np.flatnonzero(~self.terminated)
        rows = np.concatenate([np.arange(n), n + self.last_rows[cut]])
        codes, labels = index_labels(_take(self.next_labels, rows), "state")
        successor[cut] = codes[n:]
        return codes[:n], labels, successor

    def matrix(self, prefix: str) -> FloatArray:
        """(rows, d) the columns of one kind as numbers, in the user's order of rows."""
        return np.column_stack([self.numbers(key).values for key in self.keys(prefix)])

    def _probabilities(
        self, name: str, rows: RowPolicy | None, taken: tuple[IntArray, Labels]
    ) -> FloatArray | None:
        """(steps,) of the actions taken: a column, or a policy row by row, 0 where it has no such action."""
        if self.has(name):
            # Single precision may come out a little above one.
            return np.minimum(self.numbers(name).values[self.order], 1.0)
        if rows is None:
            return None
        assert rows.action_labels is not None, "columns are named by their actions"
        actions, labels = taken
        column = positions(rows.action_labels, labels)[actions]
        return np.where(column >= 0, rows.probs[np.arange(len(column)), column], 0.0)

    def place(self, row: int) -> dict[str, Any]:
        """Row, episode and step of a row, as plain values; of a table that is anonymous the row alone."""
        place: dict[str, Any] = {"row": int(row)}
        for name in () if self.mending.anonymous else ("episode", "step"):
            place[name] = _plain(self.arrow(name)[int(row)])
        return place

    def where(self, row: int) -> str:
        """'row 17 (episode 'A', step 3)'."""
        place = self.place(row)
        if self.mending.anonymous:
            return f"row {place['row']:,}"
        return f"row {place['row']:,} (episode {show(place['episode'])}, step {show(place['step'])})"

    def shown(self, name: str, label: Any) -> str:
        """A label of a column for messages; of an episode that may not be named that it is one."""
        return "an id" if name == "episode" and self.mending.anonymous else show(label)

    def rows(self, rows: AnyArray) -> str:
        """The first of these rows, and how many more there are."""
        more = len(rows) - 1
        return self.where(int(rows[0])) + (f" and {how_many(more, 'more row')}" if more else "")

    def episodes(self, rows: AnyArray, most: int = 3) -> str:
        """The first few episodes of these rows, and how many more."""
        keys, first = np.unique(self.episode_keys[rows], return_index=True)
        if self.mending.anonymous:
            return f"{how_many(len(keys), 'episode')}, the first in {self.where(int(rows.min()))}"
        shown = [show(self.labels("episode")[int(rows[i])]) for i in first[:most]]
        text = ("episode " if len(keys) == 1 else "episodes ") + ", ".join(shown)
        return text + (f" and {len(keys) - most:,} more" if len(keys) > most else "")


def _plain(scalar: Any) -> Any:
    """An Arrow value as a plain one that JSON can hold."""
    try:
        value = scalar.as_py()
    except ValueError:  # nanoseconds have no Python type
        value = str(scalar.value)
    if isinstance(value, (int, str, type(None))) or (isinstance(value, float) and np.isfinite(value)):
        return value
    return str(value)


def _take(column: LabelColumn, rows: IntArray) -> LabelColumn:
    """The labels of these rows only; those that occur in no other row are forgotten."""
    values, missing = column.values[rows], column.missing[rows]
    if column.distinct is None:
        return LabelColumn(values, missing, None)
    used = np.zeros(len(column.distinct), dtype=bool)
    used[values[~missing]] = True
    place = np.cumsum(used) - 1
    return LabelColumn(np.where(missing, 0, place[values]), missing, column.distinct[used])
