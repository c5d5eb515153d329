"""Scratch: parts of a log as they were decoded and checked, on disk for the passes that follow.

A default table takes five passes over a log. Decoding Parquet five times is more work than most of its sums,
so the first of several passes leaves every part in a temporary folder (`TMPDIR` says where): states and
actions in as few bytes as their numbers need, everything else as it is in memory. Later passes map these
files. What they read is what the first pass read, to the bit. Where there is no room for it, parts are
decoded again; a folder that the user named and that takes no files is an error.

`by_episode` is an external sort for logs whose episodes are scattered over the files. One pass writes every
row to one of several temporary files, chosen by a hash of the row's episode, so that each file holds whole
episodes and fits in memory; reading a file sorts it. Memory is a bounded number of rows that wait to be
written, disk one copy of the columns that are needed.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import DataError
from deadweight.io.columns import pa
from deadweight.io.parquet import ParquetFiles, Part, share_of
from deadweight.io.part_log import CommonLabels
from deadweight.log.labels import as_column, objects
from deadweight.log.trajectories import Trajectories
from deadweight.tools.files import NO_ROOM, NoRoom, TemporaryFolder
from deadweight.typing import AnyArray

# Of the free space of the temporary folder, so much and no more is taken.
SHARE = 0.25
NUMBER = 8  # bytes
CODES = ("states", "actions")
COLUMNS = ("rewards", "propensities", "target_probs", "durations")
BY_EPISODE = ("offsets", "terminated", "last_successor")
IDS = "behaviour_ids"
# Of a part, written last: for each of its logs the files with their bytes.
MANIFEST = "manifest.json"


class Damaged(Exception):
    """A file of a part that does not hold what was written."""


class Scratch:
    """A temporary folder, made when there is something to keep; it goes with `close`, or with this object."""

    def __init__(self) -> None:
        self._folder: TemporaryFolder | None = None
        self._shelves: dict[tuple[str, ...], Shelf | None] = {}
        self._lock = threading.Lock()

    def shelf(self, columns: Sequence[str], rows: int, labels: CommonLabels) -> Shelf | None:
        """A place for the parts of a log with these columns; None where so many rows find no room."""
        key = tuple(columns)
        codes = sum(code_type(len(known)).itemsize for known in (labels.states, labels.actions))
        numbers = sum(name in columns for name in ("reward", "behaviour_prob", "target_prob", "duration"))
        row_bytes = codes + NUMBER * (numbers + len(BY_EPISODE))  # as if an episode had but one row
        with self._lock:
            if key not in self._shelves:
                self._shelves[key] = self._made(rows * row_bytes, labels)
            return self._shelves[key]

    def _made(self, size: int, labels: CommonLabels) -> Shelf | None:
        try:
            if self._folder is None:
                self._folder = TemporaryFolder()
            if size > SHARE * shutil.disk_usage(self._folder.path).free:
                return None
            return Shelf(tempfile.mkdtemp(dir=self._folder.path), labels)
        except (NoRoom, OSError):
            return None

    def close(self) -> None:
        """Remove everything; for whoever asks again it begins anew."""
        with self._lock:
            self._shelves.clear()
            if self._folder is not None:
                self._folder.close()
                self._folder = None


def code_type(count: int) -> np.dtype[Any]:
    """The smallest type of numbers from 0 to count - 1."""
    return np.min_scalar_type(max(0, count - 1))


@dataclass(frozen=True, eq=False)
class Shelf:
    """The parts of a log in a folder, each in one of its own; workers share it."""

    folder: str
    labels: CommonLabels

    def keep(self, part: int, logs: Sequence[Trajectories]) -> None:
        """Write a part, whole or not at all: where the disk is full it will be decoded again.

        Whoever else keeps the same part at the same time, in this process or another, has a folder of its
        own until it is whole; the first to be done gives it its name.
        """
        place = self._place(part)
        if place.exists():
            return
        unfinished = None
        try:
            unfinished = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=self.folder))
            pieces = [self._write(log, unfinished / str(number)) for number, log in enumerate(logs)]
            (unfinished / MANIFEST).write_text(json.dumps(pieces), encoding="utf-8")
            unfinished.rename(place)
        except OSError:
            if unfinished is not None:
                shutil.rmtree(unfinished, ignore_errors=True)

    def kept(self, part: int) -> list[Trajectories] | None:
        """The logs of a part, mapped; None where it has not been kept, or is no longer as it was written."""
        place = self._place(part)
        try:
            pieces = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
            return [self._log(place / str(number), sizes) for number, sizes in enumerate(pieces)]
        except (FileNotFoundError, Damaged):
            return None

    def _place(self, part: int) -> Path:
        return Path(self.folder) / f"part-{part}"

    def _write(self, log: Trajectories, place: Path) -> dict[str, int]:
        """The names of the files that hold a log, with their bytes."""
        place.mkdir()
        types = map(code_type, (len(self.labels.states), len(self.labels.actions)))
        columns = {name: getattr(log, name).astype(kind) for name, kind in zip(CODES, types, strict=True)}
        columns |= {name: getattr(log, name) for name in (*COLUMNS, "offsets", "terminated")}
        columns["last_successor"] = log._last_successor
        columns["has_next_states"] = np.array([log.has_next_states])
        if log.behaviour_ids is not None:
            columns[IDS] = as_column(log.behaviour_ids.tolist(), "behaviour_id")
        return dict(
            write_column(place, name, column) for name, column in columns.items() if column is not None
        )

    def _log(self, place: Path, sizes: Mapping[str, int]) -> Trajectories:
        """A log whose columns are mapped."""
        columns: dict[str, Any] = dict.fromkeys(COLUMNS)
        for name, size in sizes.items():
            if (place / name).stat().st_size != size:
                raise Damaged(place / name)
            kind = np.dtype(Path(name).suffix[1:])  # a file without bytes cannot be mapped
            mapped = np.memmap(place / name, dtype=kind, mode="r") if size else np.empty(0, kind)
            columns[Path(name).stem] = np.asarray(mapped)
        columns |= {name: columns[name].astype(np.int64) for name in CODES}
        columns["has_next_states"] = bool(columns["has_next_states"][0])
        if IDS in columns:
            columns[IDS] = objects(columns[IDS].tolist())
        columns |= {"state_labels": self.labels.states, "action_labels": self.labels.actions}
        return Trajectories._from_codes(**columns)


def write_column(place: Path, name: str, column: AnyArray) -> tuple[str, int]:
    """Write the bytes of a column; the name of the file, which says what they are, and how many there are.

    Not `np.save`: its headers are read by Python's parser, which several threads at once confuse before
    Python 3.11.8 (python/cpython#106905).
    """
    filename = f"{name}.{column.dtype.str[1:]}"
    column.tofile(place / filename)
    return filename, column.nbytes


# --- The external sort

BATCH_ROWS = 1 << 18
# Every open file buffers what was written to it.
MOST_FILES = 512
BUFFERED_ROWS = 1 << 20
FEWEST_ROWS = 1 << 12


def by_episode(
    files: ParquetFiles,
    rows: int,
    part_rows: int,
    folder: Path,
    progress: Callable[[int], None] = lambda rows: None,
) -> tuple[ParquetFiles, list[Part]]:
    """The log of so many rows in files of an empty folder that hold whole episodes, and its parts.

    A part has about `part_rows`; `progress` is called with the number of rows of each batch that was written.
    """
    count = max(1, min(MOST_FILES, -(-rows // part_rows)))
    paths = [folder / f"part-{i:04d}.parquet" for i in range(count)]
    try:
        sizes = _scatter(files, paths, progress)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise DataError(
            f"The episodes of this log are scattered over its files, and there is no room in {str(folder)!r} "
            "for the copy in which they are together.",
            fix="Free some space or name another folder (TMPDIR=...); or write the log sorted by episode.",
        ) from None
    used = [i for i, (size, _) in enumerate(sizes) if size]
    names, kept = {ours: ours for ours in files.names}, tuple(str(paths[i]) for i in used)
    parts = [
        Part(((file, tuple(range(sizes[i][1]))),), rows=sizes[i][0], share=(i, count))
        for file, i in enumerate(used)
    ]
    return replace(files, paths=kept, names=names, constants=({},) * len(used)), parts


def _scatter(
    files: ParquetFiles, paths: list[Path], progress: Callable[[int], None]
) -> list[tuple[int, int]]:
    """Write every row to its file; the rows and row groups of each."""
    schema = pa.schema([(ours, files.types[ours]) for ours in files.names])
    outlets = [_Outlet(path, schema, max(FEWEST_ROWS, BUFFERED_ROWS // len(paths))) for path in paths]
    try:
        for batch in files.batches(BATCH_ROWS):
            number = share_of(batch["episode"], len(paths))
            order = np.argsort(number, kind="stable")
            cuts = np.searchsorted(number[order], np.arange(len(paths) + 1))
            together = batch.take(order)
            for outlet, lo, hi in zip(outlets, cuts[:-1], cuts[1:], strict=True):
                outlet.add(together.slice(lo, hi - lo))
            progress(batch.num_rows)
        return [outlet.close() for outlet in outlets]
    finally:
        for outlet in outlets:
            outlet.abandon()


class _Outlet:
    """One of the temporary files: rows are kept until they are worth a row group."""

    def __init__(self, path: Path, schema: Any, worth: int) -> None:
        self.path, self.schema, self.worth = path, schema, worth
        self.waiting: list[Any] = []
        self.writer: Any = None
        self.rows = self.kept = self.groups = 0

    def add(self, rows: Any) -> None:
        if rows.num_rows:  # an empty slice would keep its batch in memory
            self.waiting.append(rows)
            self.rows += rows.num_rows
            self.kept += rows.num_rows
        if self.kept >= self.worth:
            self._write()

    def _write(self) -> None:
        import pyarrow.parquet as pq

        if self.writer is None:
            self.writer = pq.ParquetWriter(self.path, self.schema)
        self.writer.write_table(pa.concat_tables(self.waiting), row_group_size=self.kept)
        self.waiting, self.kept, self.groups = [], 0, self.groups + 1

    def close(self) -> tuple[int, int]:
        """Rows and row groups of the finished file."""
        if self.kept:
            self._write()
        if self.writer is not None:
            self.writer.close()
        self.writer = None
        return self.rows, self.groups

    def abandon(self) -> None:
        """Let go of a file that is not finished; it goes away with its folder."""
        if self.writer is not None:
            with suppress(OSError):
                self.writer.close()
