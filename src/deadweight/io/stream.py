"""Streams: logs in Parquet files, larger than memory if need be, as sequences of parts.

Opening a stream reads footers; where those do not say which labels there are, one pass over the files does.
Each part is then fetched whenever somebody sums it, and about two are in memory at a time. Same labels, same
checks and, up to the order of additions, same numbers as for the log in memory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np

from deadweight.errors import assume
from deadweight.io.external_sort import by_episode
from deadweight.io.fetch import Fetched, fetch, logs_of, whole_part
from deadweight.io.findings import LogProblem
from deadweight.io.parquet import ParquetFiles, open_files
from deadweight.io.part_ids import OutOfOrder, scattered, wrong_footer
from deadweight.io.part_log import CommonLabels
from deadweight.io.parts import PART_ROWS, Part, cut, in_order
from deadweight.io.schema import match_columns
from deadweight.io.stream_labels import common_labels
from deadweight.log.census import Census
from deadweight.log.interface import Check, LogLabels
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.ends import TimeLimit, assumption, checked, count_ends
from deadweight.sums.executors import Executor, Serial
from deadweight.sums.reduction import reduce_log
from deadweight.sums.stored import Stored
from deadweight.sums.summaries import KeyedSums
from deadweight.typing import BoolArray

# Columns that do not say how episodes end.
UNLIKE_ENDS = ("behaviour_prob", "target_prob", "next_state")
Sources = str | Path | Sequence[str | Path]

__all__ = ["OutOfOrder", "Progress", "Stream", "open_stream"]


@dataclass(frozen=True)
class Progress:
    """How far a pass over the parts has come."""

    what: str
    rows: int
    of: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """Since the pass began."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0


Watch = Callable[[Progress], None]


class Stream(Stored):
    """A log in Parquet files; see `open_stream`."""

    def __init__(
        self,
        files: ParquetFiles,
        parts: Sequence[Part],
        labels: CommonLabels,
        executor: Executor,
        watch: Watch | None = None,
        holder: Any = None,
        time_limit: TimeLimit = None,
        tell: Callable[[str], None] = assume,
    ) -> None:
        self.files, self.plan, self.common = files, tuple(parts), labels
        self.state_labels, self.action_labels = labels.states, labels.actions
        self.n_steps = sum(part.rows + part.beyond for part in parts)
        self.executor, self.watch = executor, watch
        self._holder = holder  # the temporary folder, if there is one
        self._census: list[Census | None] = [None]  # shared by all views of this log
        self._limit: list[TimeLimit] = [time_limit]  # likewise
        self._tell = tell
        self._check: Check | None = None
        self._fetched_before = False
        self._started = 0.0

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
        _ = self.time_limit  # whoever takes a part as a log may ask it how its episodes end
        whole = self.limited(whole_part(self.files, self.plan[part], self.common))
        return self._checked([whole])[0]

    def fetch(self, part: int) -> Fetched:
        """Decode a part."""
        return fetch(self.files, self.plan[part])

    def pieces(self, part: int, fetched: Fetched) -> list[Trajectories]:
        """A part, with an episode that goes on in the next row group apart from the others."""
        first_time = not self._fetched_before
        logs = logs_of(fetched, self.files, self.plan[part], self.common, check=first_time)
        return self._checked([self.limited(log) for log in logs])

    @property
    def says_ends(self) -> bool:
        """Whether there are flags that say how episodes end."""
        return "terminated" in self.files.names or "truncated" in self.files.names

    @property
    def time_limit(self) -> int | None:
        """The time limit; where it is to be inferred, the first to ask causes a pass over the parts."""
        if self._limit[0] == "infer":
            self._limit[0] = None if self.says_ends else self._inferred_limit()
        limit = self._limit[0]
        assert limit != "infer"
        return limit

    def _inferred_limit(self) -> int | None:
        found = count_ends(self.viewed(without=UNLIKE_ENDS))
        if found.time_limit is not None:
            # The census that has been taken is that of a log without a limit.
            self._census[0] = replace(self.census, terminated=found.n - found.n_at_limit)
            self._tell(assumption(found.time_limit, found.n_at_limit, found.n))
        return found.time_limit

    @property
    def known_limit(self) -> int | None:
        """The limit as far as it is known; None where nobody has asked."""
        limit = self._limit[0]
        return None if limit == "infer" else limit

    def limited(self, log: Trajectories) -> Trajectories:
        """A log of some of its episodes, with the time limit of the whole."""
        limit = self.known_limit  # whoever needs it has asked for it before
        return log if limit is None else log.with_time_limit(limit, says_ends=self.says_ends)

    def _checked(self, pieces: list[Trajectories]) -> list[Trajectories]:
        if self._check is not None and not self._fetched_before:
            for log in pieces:
                self._check(log)
        return pieces

    def viewed(self, check: Check | None = None, without: Sequence[str] = ()) -> Stream:
        """The same log, with a check of every part when it is first fetched, and without some columns."""
        view = object.__new__(Stream)
        view.__dict__.update(self.__dict__)
        view.files = self.files.without(*without)
        view._check = check
        view._fetched_before = self._fetched_before and check is None
        return view

    @property
    def labels(self) -> LogLabels:
        """What policies are aligned with; which labels are visited takes a pass."""
        columns = (("propensities", "behaviour_prob"), ("target_probs", "target_prob"))
        logged = frozenset(name for name, column in columns if column in self.files.names)
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
        """Episodes, their lengths, and visits."""
        if self._census[0] is None:
            reduce_log(self, nothing)
        found = self._census[0]
        assert found is not None
        return found

    def passed(self, census: Census | None) -> None:
        """Remember that all parts are sound, and who is in them."""
        self._fetched_before = True
        if census is not None:
            promised = (self.n_states - 1, self.n_actions - 1)
            if self.common.promised and census.top != promised:
                raise wrong_footer(
                    "these files",
                    f"statistics say that the largest state and action are {promised}, and they are "
                    f"{census.top}",
                )
            self._census[0] = census

    def progress(self, done: int) -> None:
        """Tell whoever watches."""
        if self.watch is None:
            return
        now = time.monotonic()
        if done == 0:
            self._started = now
        rows = sum(part.rows + part.beyond for part in self.plan[:done])
        self.watch(Progress("summing", rows, self.n_steps, now - self._started))

    def __getstate__(self) -> dict[str, Any]:
        """What a worker needs: where the parts are, and not who watches."""
        return {**self.__dict__, "executor": None, "watch": None, "_holder": None, "_tell": None}

    def __repr__(self) -> str:
        return f"Stream({self.n_steps:,} rows in {len(self):,} parts of {len(self.files.paths):,} files)"


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
    watch: Watch | None = None,
    time_limit: TimeLimit = "infer",
    tell: Callable[[str], None] = assume,
) -> Stream:
    """A log in Parquet files, to be read part by part.

    Args:
      source: a Parquet file, a folder of them, or several of these. Files may come in any order.
      columns: our column names -> yours, where they differ; as for `deadweight.read`.
      executor: who reads and sums; this process by default.
      part_rows: most rows of a part; a row group that has more is a part. Memory is about two parts a worker.
      sort: copy the rows into a temporary folder, episode by episode, before anything else. None does so
        where the footers show that episodes are scattered over the files.
      watch: called with a `Progress` after every part.
      time_limit: as for `deadweight.read`; it is inferred, by a pass over the parts, when a model needs it.
      tell: is told what was taken for granted.
    """
    wanted = checked(time_limit)
    sources = [source] if isinstance(source, str | Path) else list(source)
    shown = ", ".join(repr(str(one)) for one in sources)
    files = open_files(sources, lambda found: match_columns(found, columns, source=shown))
    sortable = not sort and _sortable(files)
    groups = files.groups(sortable)
    if not groups:
        raise LogProblem(
            "DW104",
            f"A log needs at least one row; {shown} has the columns but no rows.",
            fix="Check how the log was written or filtered.",
        )
    ordered = in_order(groups) if sortable else None
    holder: Any = None
    if ordered is None:
        if sort is False:
            raise scattered(shown)
        holder = tempfile.TemporaryDirectory(prefix="deadweight-")
        rows = sum(group.rows for group in groups)
        files, parts = by_episode(files, rows, part_rows, Path(holder.name), _sorting(watch, rows))
    else:
        parts = cut(ordered, part_rows)
    executor = executor or Serial()
    labels = common_labels(files, parts, executor)
    return Stream(files, parts, labels, executor, watch, holder, wanted, tell)


def _sorting(watch: Watch | None, rows: int) -> Callable[[int], None]:
    start = time.monotonic()

    def tell(done: int) -> None:
        if watch is not None:
            watch(Progress("sorting", done, rows, time.monotonic() - start))

    return tell


def _sortable(files: ParquetFiles) -> bool:
    """Whether episodes are whole numbers or text, which are compared as they are."""
    import pyarrow as pa

    kind = files.types["episode"]
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
