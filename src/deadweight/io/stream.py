"""Streams: logs in Parquet files, larger than memory if need be, as sequences of parts.

Opening a stream reads footers; where those do not say which labels there are, one pass over the files does:
as in memory, distinct states and actions, and the states that truncated episodes lead to. Each part is then
fetched whenever somebody sums it; a few are in memory at a time. Same labels, same checks and, up to the
order of additions, same numbers as for the log in memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np

from deadweight.errors import DataError, OptionError, assume
from deadweight.io.columns import as_one_kind, pa, read_numbers
from deadweight.io.parquet import (
    PART_ROWS,
    OutOfOrder,
    ParquetFiles,
    Part,
    check_ids,
    cut,
    ends,
    in_order,
    open_files,
    scattered,
    wrong_footer,
)
from deadweight.io.part_log import CommonLabels, Fetched, fetch, logs_of, own_rows, place, whole_part
from deadweight.io.requirements import NAME_THE_REWARD, NO_REWARD
from deadweight.io.schema import NOTHING, LogProblem, Mending, match_columns, show
from deadweight.io.scratch import Scratch, Shelf, by_episode
from deadweight.log.behaviour import counts_by_fold, propensities_by_fold
from deadweight.log.columns import limit_by_flags
from deadweight.log.interface import Census, Check, Giver, LogLabels
from deadweight.log.labels import encode, objects, plain
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.ends import TimeLimit, assumption, checked, count_ends
from deadweight.sums.executors import Executor, InProcess
from deadweight.sums.reduction import Stored, reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.tools.files import TemporaryFolder
from deadweight.tools.progress import Pass, before_passes
from deadweight.typing import AnyArray, BoolArray, IntArray

# Labels up to this are indices whatever else there is; see `deadweight.log.labels`.
ALWAYS_DENSE = 1_000


def common_labels(files: ParquetFiles, parts: Sequence[Part], executor: Executor) -> CommonLabels:
    """The labels of all parts: from the footers where small whole numbers leave no choice, else by a pass."""
    promised = _promised_labels(files)
    if promised is not None:
        return promised
    labels: dict[str, AnyArray] = {}
    passed = executor.map(LabelWork(files, tuple(parts)), len(parts))
    for of_part in before_passes(passed, [part.all_rows for part in parts], "looking for labels"):
        labels = {what: _union(labels[what], of_part[what], what) for what in labels} or of_part
    states, actions = (encode(labels[what], what)[1] for what in ("state", "action"))
    return CommonLabels(states, actions)


def _promised_labels(files: ParquetFiles) -> CommonLabels | None:
    """The labels 0, 1, ... up to the largest in the footers, if all are small whole numbers."""
    states, actions = files.bounds("state"), files.bounds("action")
    if states is None or actions is None:
        return None
    following = files.bounds("next_state") if "next_state" in files.names else (-1, -1)
    if following is None or following[0] < -1 or following[1] > states[1]:
        return None
    if min(states[0], actions[0]) < 0 or max(states[1], actions[1]) > ALWAYS_DENSE:
        return None
    return CommonLabels(np.arange(states[1] + 1), np.arange(actions[1] + 1), promised=True)


def _union(first: AnyArray, second: AnyArray, what: str) -> AnyArray:
    if first.dtype != object and second.dtype != object:
        return np.union1d(first, second)
    # Numbers of one column may be whole in one part and not in another.
    return encode(objects(as_one_kind(map(plain, [*first, *second]))), what)[1]


@dataclass(frozen=True, eq=False)
class LabelWork:
    """The pass that finds the labels, with all checks."""

    files: ParquetFiles
    parts: tuple[Part, ...]

    def load(self, part: int) -> Trajectories:
        """A part in labels of its own."""
        return whole_part(self.files, self.parts[part], None)

    def add_up(self, log: Trajectories) -> dict[str, AnyArray]:
        """The labels that it visits, or names as what follows a truncated episode."""
        states = np.unique(np.concatenate([log.states, log._last_successor[log._last_successor >= 0]]))
        return {"state": log.state_labels[states], "action": log.action_labels[np.unique(log.actions)]}


# --- Propensities from counts

FOLDS = 5


@dataclass(frozen=True, eq=False)
class Counted:
    """(folds, S, A) counts of a whole log, and how many episodes come before each of its parts.

    As in memory, an episode's probabilities come from the episodes of the other folds, and episode i is in
    fold i modulo their number. A part does not know how many episodes come before it when it is counted: it
    counts as if it were the first, and its folds are turned by that number when the parts are put together.
    """

    counts: IntArray
    before: tuple[int, ...]
    needs: tuple[str, ...] = ()

    def given_to(self, part: int, pieces: Sequence[Trajectories]) -> list[Trajectories]:
        """The pieces of a part with the propensities of their steps."""
        first, given = self.before[part], []
        for log in pieces:
            given.append(log.with_propensities(propensities_by_fold(log, self.counts, first)))
            first += log.n_episodes
        return given


def count_stream(log: Stored, rows: Sequence[int], executor: Executor) -> Counted:
    """One pass that counts; `rows` are those of each part."""
    total: Any = None
    before = [0]
    passed = executor.map(CountWork(log), len(rows))
    for number, counts in before_passes(passed, rows, "counting actions"):
        turned = np.roll(counts, before[-1] % FOLDS, axis=0)
        total = turned if total is None else total + turned
        before.append(before[-1] + number)
    if before[-1] < FOLDS:
        raise DataError(
            f"Propensities from counts need {FOLDS} episodes or more; found {before[-1]}.",
            fix="Log behaviour_prob, or give a policy with --behaviour FILE.",
        )
    return Counted(total, tuple(before[:-1]))


@dataclass(frozen=True, eq=False)
class CountWork:
    """The pass that counts actions by state and fold."""

    parts: Stored

    def load(self, part: int) -> list[Any]:
        """A part with its number, as it was read."""
        return [part, self.parts.fetch(part)]

    def add_up(self, loaded: list[Any]) -> tuple[int, IntArray]:
        """The number of its episodes, and counts as if it were the first part."""
        part, fetched = loaded
        first, total = 0, None
        for log in self.parts.pieces(part, fetched):
            counts = counts_by_fold(log, FOLDS, first)
            total = counts if total is None else total + counts
            first += log.n_episodes
        assert total is not None
        return first, total


# --- The stream

# Columns that do not say how episodes end.
UNLIKE_ENDS = ("behaviour_prob", "target_prob", "next_state", "behaviour_id", "duration")
Sources = str | Path | Sequence[str | Path]
# Rewards are looked for in so many rows at a time; most often the first has one.
FIRST_ROWS = 1 << 12


class Stream(Stored):
    """A log in Parquet files; see `open_stream`."""

    def __init__(
        self,
        files: ParquetFiles,
        parts: Sequence[Part],
        labels: CommonLabels,
        executor: Executor,
        holder: TemporaryFolder | None = None,
        time_limit: TimeLimit = None,
        tell: Callable[[str], None] = assume,
        scratch: Scratch | None = None,
    ) -> None:
        self.files, self.plan, self.common = files, tuple(parts), labels
        self.state_labels, self.action_labels = labels.states, labels.actions
        self.n_steps = sum(part.all_rows for part in parts)
        self.executor = executor
        self._holder = holder  # the temporary folder of a sorted copy, if there is one
        self._scratch = Scratch() if scratch is None else scratch
        self._shelf: Shelf | None = None
        self._census: list[Census | None] = [None]  # shared by all views of this log
        # Likewise; "infer" until somebody has looked.
        self._limit: list[TimeLimit] = [None if time_limit == "infer" and self.says_ends else time_limit]
        self._tell = tell
        self._check: Check | None = None
        self._fetched_before = False
        self._pass: Pass | None = None
        self._giver: Giver | None = None
        self._gamma: float | None = None  # of a log by its durations

    def __len__(self) -> int:
        return len(self.plan)

    @overload
    def __getitem__(self, part: int) -> Trajectories: ...
    @overload
    def __getitem__(self, part: slice) -> list[Trajectories]: ...
    def __getitem__(self, part: int | slice) -> Trajectories | list[Trajectories]:
        if isinstance(part, slice):
            return [self[i] for i in range(*part.indices(len(self)))]
        if not -len(self) <= part < len(self):
            raise IndexError(part)
        self.settle_limit()  # whoever takes a part as a log may ask it
        whole = whole_part(self.files, self.plan[part], self.common)
        return self._as_asked(part, [whole])[0]

    def fetch(self, part: int) -> Fetched | list[Trajectories]:
        """Decode a part, or find it as it was kept."""
        kept = None if self._shelf is None else self._shelf.kept(part)
        return fetch(self.files, self.plan[part]) if kept is None else kept

    def pieces(self, part: int, fetched: Fetched | list[Trajectories]) -> list[Trajectories]:
        """A part, with an episode that goes on in the next row group apart from the others."""
        if isinstance(fetched, list):
            return self._as_asked(part, fetched)
        first_time = not self._fetched_before
        logs = logs_of(fetched, self.files, self.plan[part], self.common, check=first_time)
        if self._shelf is not None:
            self._shelf.keep(part, logs)
        return self._as_asked(part, logs)

    def _as_asked(self, part: int, logs: list[Trajectories]) -> list[Trajectories]:
        """The logs of a part with the time limit, the propensities and the discount of this view, checked."""
        logs = [self.limited(log) for log in logs]
        if self._giver is not None:
            logs = self._giver.given_to(part, logs)
        if self._check is not None and not self._fetched_before:
            for log in logs:
                self._check(log)
        return logs if self._gamma is None else [log.discounted(self._gamma) for log in logs]

    def will_be_read_again(self) -> None:
        """Keep parts as they are decoded, where the workers have one disk and there is room."""
        if self._shelf is None and self.executor.same_disk:
            self._shelf = self._scratch.shelf(list(self.files.names), self.n_steps, self.common)

    def counted(self) -> Stream:
        """This log with propensities from counts, each episode's from the others; takes a pass.

        They are those of `deadweight.cross_fitted_propensities` for the log in memory, where the order of the
        episodes is the same.
        """
        bare = self.viewed(without=["behaviour_prob", "behaviour_id"])
        return bare.giving(count_stream(bare, [part.all_rows for part in self.plan], self.executor))

    def giving(self, giver: Giver) -> Stream:
        """This log with propensities of a giver in place of the column."""
        view = self.viewed(without=["behaviour_prob"])
        view._giver = giver
        return view

    def discounted(self, gamma: float) -> Stream:
        """This log discounted by its durations, every part when it is fetched."""
        view = self.viewed(self._check)
        view._gamma = gamma
        return view

    @property
    def says_ends(self) -> bool:
        """Whether there are flags that say how episodes end."""
        return "terminated" in self.files.names or "truncated" in self.files.names

    @property
    def time_limit(self) -> int | None:
        """The time limit; see `settle_limit`."""
        self.settle_limit()
        return self.known_limit

    def settle_limit(self) -> None:
        """Find out the time limit: with the census where flags say how episodes end, else by a pass."""
        if self.says_ends:
            self.take_census()
        elif self._limit[0] == "infer":
            self._limit[0] = self._inferred_limit()

    def _inferred_limit(self) -> int | None:
        # In a log without a limit, as this one would be if none were found, all ends are known.
        unlimited = self.viewed(without=UNLIKE_ENDS)
        unlimited._limit, unlimited._census = [None], list(self._census)
        ends, census = count_ends(unlimited), unlimited.census
        if ends.time_limit is not None:
            census = replace(
                census,
                terminated=census.terminated - ends.n_at_limit,
                cut_early=census.cut_early - ends.open_at_limit,
            )
            self._tell(assumption(ends.time_limit, ends.n_at_limit, ends.n))
        self._census[0] = census
        return ends.time_limit

    @property
    def known_limit(self) -> int | None:
        """The limit as far as it is known; None where nobody has asked."""
        limit = self._limit[0]
        return None if limit == "infer" else limit

    @property
    def knows_limit(self) -> bool:
        """Whether it was given, somebody has asked already, or there are flags."""
        return self._limit[0] != "infer"

    def limited(self, log: Trajectories) -> Trajectories:
        """A log of some of its episodes, with the time limit of the whole."""
        limit = self.known_limit
        if limit is None or self.says_ends:
            return log._limited_to(limit)
        return log.with_time_limit(limit)

    def viewed(self, check: Check | None = None, without: Sequence[str] = ()) -> Stream:
        """This log with a check of every part when it is first fetched, and without some columns."""
        view = object.__new__(Stream)
        view.__dict__.update(self.__dict__)
        if "behaviour_prob" in without:
            view._giver = None
        if "duration" in without:
            view._gamma = None
        needed = () if view._giver is None else view._giver.needs
        view.files = self.files.without(*(column for column in without if column not in needed))
        view._shelf = None
        view._check = check
        view._fetched_before = self._fetched_before and check is None
        return view

    @property
    def has_durations(self) -> bool:  # type: ignore[override]
        """Whether there is a column of durations, and nobody does without it."""
        return "duration" in self.files.names

    @property
    def has_behaviour_ids(self) -> bool:  # type: ignore[override]
        """Whether there is a column with the ids of old policies, and nobody does without it."""
        return "behaviour_id" in self.files.names

    @property
    def labels(self) -> LogLabels:
        """The labels that policies are aligned with; which of them are visited takes a pass."""
        columns = (("propensities", "behaviour_prob"), ("target_probs", "target_prob"))
        logged = frozenset(name for name, column in columns if column in self.files.names)
        if self._giver is not None:
            logged |= {"propensities"}
        return LogLabels(self.state_labels, self.action_labels, logged, self._visited)

    def _visited(self) -> tuple[BoolArray, BoolArray]:
        pairs: KeyedSums = reduce_log(self, partial(_pairs, self.n_actions))[0]
        states, actions = np.divmod(pairs.keys, self.n_actions)
        return np.isin(np.arange(self.n_states), states), np.isin(np.arange(self.n_actions), actions)

    @property
    def known(self) -> Census | None:
        """The census, if it has been taken."""
        return self._census[0]

    @property
    def census(self) -> Census:
        """Episodes, their lengths, and how they end."""
        self.take_census()
        census = self._census[0]
        assert census is not None
        return census

    def take_census(self) -> None:
        """Count episodes, unless a pass has done so; where ends take a pass, it takes the census along."""
        self.settle_ends()
        if self._census[0] is None:
            reduce_log(self, nothing)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Episodes of each part, which any pass so far has counted."""
        return (self.known or self.census).sizes

    @property
    def horizon(self) -> int:
        """Steps of the longest episode, which any pass so far has found."""
        return (self.known or self.census).horizon

    @property
    def cut_early(self) -> int:
        """Episodes cut elsewhere than at the time limit; a limit that is found can only take some away."""
        known = self.known
        return 0 if known is not None and known.cut_early == 0 else self.census.cut_early

    def passed(self, census: Census | None) -> None:
        """Remember that all parts are sound, and who is in them."""
        self._fetched_before = True
        if census is not None:
            promised = (self.n_states - 1, self.n_actions - 1)
            if self.common.promised and census.top != promised:
                raise _wrong_tops(promised, census.top)
            self._census[0] = self._settled(census) if self.says_ends else census

    def _settled(self, census: Census) -> Census:
        """The census with the time limit that the flags leave, which may not be the one it was taken with."""
        said = self.known_limit
        limit = limit_by_flags(said, census.cuts, census.horizon, self._tell)
        self._limit[0] = limit
        early = 0 if limit is not None else census.cuts.number
        return census if limit == said else replace(census, cut_early=early)

    def progress(self, done: int) -> None:
        """Tell whoever watches."""
        rows = sum(part.all_rows for part in self.plan[:done])
        if done == 0 or self._pass is None:
            self._pass = Pass(self.n_steps)
        self._pass.done(rows - self._pass.rows)
        if done == len(self.plan):
            self._pass.end()

    def __getstate__(self) -> dict[str, Any]:
        """The state that a worker needs: where the parts are, and not who watches."""
        return self.__dict__ | dict.fromkeys(("executor", "_holder", "_scratch", "_tell", "_pass"))

    def __repr__(self) -> str:
        return f"Stream({self.n_steps:,} rows in {len(self):,} parts of {len(self.files.paths):,} files)"


def _wrong_tops(promised: tuple[int, ...], tops: tuple[int, ...]) -> OutOfOrder:
    return wrong_footer(
        "these files", f"statistics say that the largest state and action are {promised}, and they are {tops}"
    )


def nothing(block: Any) -> list[Any]:
    """No sums: what a pass for the census asks of a block."""
    return []


def _pairs(n_actions: int, block: Block) -> list[KeyedSums]:
    return [KeyedSums.of(block.flat(block.pairs(n_actions)), 1.0)]


def open_stream(
    source: Sources,
    columns: Mapping[str, str] | None = None,
    *,
    executor: Executor | None = None,
    part_rows: int = PART_ROWS,
    sort: bool | None = None,
    time_limit: TimeLimit = "infer",
    tell: Callable[[str], None] = assume,
    mending: Mending = NOTHING,
    scratch: Scratch | None = None,
) -> Stream:
    """A log in Parquet files, to be read part by part.

    Args:
      source: a Parquet file, a folder of them, or several of these. Files may come in any order.
      columns: as for `deadweight.read`.
      executor: who reads and sums; this process by default.
      part_rows: most rows of a part; a row group that has more is a part. Memory is a part a thread.
      sort: copy the rows into a temporary folder, episode by episode, before anything else. None does so
        where the footers show that episodes are scattered over the files.
      time_limit: as for `deadweight.read`; it is inferred, by a pass over the parts, when a model needs it.
      tell: is told what was taken for granted.
      mending: what is changed in the columns as they are read.
      scratch: where parts are kept that will be read again; None takes one that goes with the stream.
    """
    wanted = checked(time_limit)
    if mending.open_episodes == "drop":
        raise OptionError(
            "Leaving out open episodes (drop) needs the log in memory: a part may have no others.",
            fix="Read it whole with deadweight.read, or say 'cut' or 'zero'.",
        )
    sources = [source] if isinstance(source, str | Path) else list(source)
    shown = ", ".join(repr(str(path)) for path in sources)

    def choose(names: list[str], text: list[str]) -> dict[str, str]:
        return mending.kept(match_columns(names, columns, source=shown, text=text))

    files = open_files(sources, choose, mending, tell)
    _require_rewards(files)
    kind = files.types["episode"]  # whole numbers and text are compared as they are
    comparable = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    sortable = bool(not sort and comparable)
    groups = files.groups(sortable)
    if not groups:
        raise LogProblem(
            "DW104",
            f"A log needs at least one row; {shown} has the columns but no rows.",
            fix="Check how the log was written or filtered.",
        )
    ordered = in_order(groups) if sortable else None
    if ordered is None and sort is False:
        raise scattered(shown)
    executor = executor or InProcess()
    with ExitStack() as on_error:  # whoever keeps an error keeps this frame, and would keep the copy
        holder = None
        if ordered is None:
            holder = TemporaryFolder()
            on_error.callback(holder.close)
            rows = sum(group.rows for group in groups)
            sorting = Pass(rows, "sorting", counted=False)
            files, parts = by_episode(files, rows, part_rows, holder.path, sorting.done)
        else:
            parts = cut(ordered, part_rows)
        labels = common_labels(files, parts, executor)
        on_error.pop_all()
    return Stream(files, parts, labels, executor, holder, wanted, tell, scratch)


def _require_rewards(files: ParquetFiles) -> None:
    """Refuse a log without any reward, which no part by itself can tell from one of open episodes."""
    narrow = files.without(*(name for name in files.names if name != "reward"))
    rows = 0
    for batch in narrow.batches(FIRST_ROWS):
        if not read_numbers(batch["reward"]).missing.all():
            return
        rows += batch.num_rows
    if rows:
        raise LogProblem("DW305", f"Column {show(files.names['reward'])} {NO_REWARD}", fix=NAME_THE_REWARD)


# --- Whether footers tell the truth

CHECKED = ("episode", "state", "action", "next_state")
# Files, as they were when they were found to be what their footers say, and what was asked of them.
_sound: deque[Hashable] = deque(maxlen=64)


def check_footers(stream: Stream) -> None:
    """Raise `OutOfOrder` where the rows are not what the footers say: places of episodes, largest labels.

    Where the footers left no choice, nobody has looked at a row when a stream is opened. Policies are aligned
    with its labels and its parts are cut by its episodes, so rows that contradict the footers would undo both
    in the middle of the work. Only the columns in question are decoded; each part is checked again whenever
    it is read. Files that have not changed since this process found them sound are not looked at again.
    """
    files = stream.files
    written = [(status.st_ino, status.st_size, status.st_mtime_ns) for status in map(os.stat, files.paths)]
    read = (files.names, files.types, files.constants, files.mending, stream.plan)
    asked = (files.paths, tuple(written), repr(read), stream.n_states, stream.n_actions)
    if asked in _sound:
        return
    promised, tops = (stream.n_states - 1, stream.n_actions - 1), (-1, -1)
    narrow = files.without(*(name for name in files.names if name not in CHECKED))
    looks = stream.executor.map(FooterWork(narrow, stream.plan), len(stream))
    for states, actions in before_passes(looks, [part.all_rows for part in stream.plan], "checking files"):
        tops = max(tops[0], states), max(tops[1], actions)
    if tops != promised:
        raise _wrong_tops(promised, tops)
    _sound.append(asked)


@dataclass(frozen=True, eq=False)
class FooterWork:
    """The pass that looks at the places of episodes, and at the largest labels."""

    files: ParquetFiles
    parts: tuple[Part, ...]

    def load(self, part: int) -> tuple[int, Fetched]:
        """The few columns of a part."""
        return part, fetch(self.files, self.parts[part])

    def add_up(self, loaded: tuple[int, Fetched]) -> tuple[int, int]:
        """The largest state and action."""
        part, fetched = loaded
        check_ids(fetched.table, self.parts[part], place(self.files, self.parts[part]))
        own_rows(self.files, self.parts[part], fetched)
        # A tail may be whole row groups that no other part looks at.
        tables = [table for table in (fetched.table, fetched.tail) if table is not None]
        states = [name for name in ("state", "next_state") if name in self.files.names]
        return _top(tables, states), _top(tables, ["action"])


def _top(tables: list[Any], names: list[str]) -> int:
    """The largest label of some columns, -1 where there is none."""
    tops = [ends(table[name])[1] for table in tables for name in names]
    return max((int(top) for top in tops if top is not None), default=-1)
