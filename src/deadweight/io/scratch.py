"""Scratch: parts of a log as they were decoded and checked, on disk for the passes that follow.

A default table takes five passes over a log. Decoding Parquet five times is more work than most of its sums,
so the first of several passes leaves every part in a temporary folder (`TMPDIR` says where): states and
actions in as few bytes as their numbers need, everything else as it is in memory. Later passes map these
files. What they read is what the first pass read, to the bit. Where there is no room for it, parts are
decoded again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.io.label_columns import as_labels
from deadweight.io.part_log import CommonLabels
from deadweight.log.trajectories import Trajectories
from deadweight.typing import AnyArray

# Of the free space of the temporary folder, so much and no more is taken.
SHARE = 0.25
NUMBER = 8  # bytes
CODES = ("states", "actions")
COLUMNS = ("rewards", "propensities", "target_probs", "durations")
BY_EPISODE = ("offsets", "terminated", "_last_successor")
HAS_NEXT_STATES = "has_next_states"
IDS = "behaviour_ids"


class Scratch:
    """A temporary folder, made when there is something to keep; it goes with `close`, or with this object."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._shelves: dict[tuple[str, ...], Shelf | None] = {}

    def shelf(self, columns: Sequence[str], rows: int, labels: CommonLabels) -> Shelf | None:
        """A place for the parts of a log with these columns; None where so many rows find no room."""
        key = tuple(columns)
        if key not in self._shelves:
            self._shelves[key] = self._made(rows * row_bytes(columns, labels), labels)
        return self._shelves[key]

    def _made(self, size: int, labels: CommonLabels) -> Shelf | None:
        try:
            if size > SHARE * shutil.disk_usage(tempfile.gettempdir()).free:
                return None
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="deadweight-", ignore_cleanup_errors=True)
            return Shelf(tempfile.mkdtemp(dir=self._folder.name), labels)
        except OSError:
            return None

    def close(self) -> None:
        """Remove everything; for whoever asks again it begins anew."""
        self._shelves.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def row_bytes(columns: Sequence[str], labels: CommonLabels) -> int:
    """Bytes that a row takes, and an episode if it has but one row."""
    codes = sum(code_type(len(known)).itemsize for known in (labels.states, labels.actions))
    numbers = sum(name in columns for name in ("reward", "behaviour_prob", "target_prob", "duration"))
    return codes + NUMBER * (numbers + len(BY_EPISODE))


def code_type(count: int) -> np.dtype[Any]:
    """The smallest type of numbers from 0 to count - 1.

    >>> code_type(50), code_type(257)
    (dtype('uint8'), dtype('uint16'))
    """
    return np.min_scalar_type(max(0, count - 1))


@dataclass(frozen=True)
class Kept:
    """The logs of a part, as they were kept."""

    logs: list[Trajectories]


@dataclass(frozen=True, eq=False)
class Shelf:
    """The parts of a log in a folder, each in one of its own; workers share it.

    Attributes:
      folder: its path.
      labels: of all parts.
    """

    folder: str
    labels: CommonLabels

    def keep(self, part: int, logs: Sequence[Trajectories]) -> None:
        """Write a part, whole or not at all: where the disk is full it will be decoded again."""
        place = self._place(part)
        if place.exists():
            return
        own = Path(f"{place}.{os.getpid()}")
        try:
            own.mkdir()
            for number, log in enumerate(logs):
                self._write(log, own / str(number))
            own.rename(place)
        except OSError:
            shutil.rmtree(own, ignore_errors=True)

    def kept(self, part: int) -> Kept | None:
        """A part, its columns mapped; None where it has not been kept."""
        place = self._place(part)
        try:
            pieces = sorted(os.listdir(place), key=int)
        except FileNotFoundError:
            return None
        return Kept([self._log(place / piece) for piece in pieces])

    def _place(self, part: int) -> Path:
        return Path(self.folder) / f"part-{part}"

    def _write(self, log: Trajectories, place: Path) -> None:
        place.mkdir()
        types = map(code_type, (len(self.labels.states), len(self.labels.actions)))
        for name, kind in zip(CODES, types, strict=True):
            write_column(place, name, getattr(log, name).astype(kind))
        for name in (*COLUMNS, *BY_EPISODE):
            column = getattr(log, name)
            if column is not None:
                write_column(place, name, column)
        write_column(place, HAS_NEXT_STATES, np.array([log.has_next_states]))
        if log.behaviour_ids is not None:
            write_column(place, IDS, np.array(log.behaviour_ids.tolist()))

    def _log(self, place: Path) -> Trajectories:
        return log_of_columns({path.stem: map_column(path) for path in place.iterdir()}, self.labels)


def write_column(place: Path, name: str, column: AnyArray) -> None:
    """The bytes of a column; what they are stands in the name of the file.

    Not `np.save`: its headers are read by Python's parser, which several threads at once confuse before
    Python 3.11.8 (python/cpython#106905).
    """
    column.tofile(place / f"{name}.{column.dtype.str[1:]}")


def map_column(path: Path) -> AnyArray:
    """A column as it was written, mapped; a file without bytes cannot be."""
    kind = np.dtype(path.suffix[1:])
    return np.memmap(path, dtype=kind, mode="r") if path.stat().st_size else np.empty(0, kind)


def log_of_columns(found: Mapping[str, AnyArray], labels: CommonLabels) -> Trajectories:
    """The log of columns by the names of its attributes."""
    plain = {name: np.asarray(column) for name, column in found.items() if name not in CODES}
    return Trajectories._from_codes(
        found["states"].astype(np.int64),
        found["actions"].astype(np.int64),
        plain["rewards"],
        plain["offsets"],
        state_labels=labels.states,
        action_labels=labels.actions,
        propensities=plain.get("propensities"),
        target_probs=plain.get("target_probs"),
        terminated=plain["terminated"],
        last_successor=plain["_last_successor"],
        has_next_states=bool(plain[HAS_NEXT_STATES][0]),
        behaviour_ids=as_labels(plain[IDS].tolist()) if IDS in plain else None,
        durations=plain.get("durations"),
    )
