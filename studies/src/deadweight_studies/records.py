"""Records: finished runs on disk, so that what was computed once is never lost and never computed again.

`Store` keeps records under keys, one line each, with a checksum and the fingerprint of what made it; `fill`
makes those that are missing, side by side, and keeps each as soon as it is there. Everything long that
deadweight does (`reproduce`, `study`, `coverage`) stands on these two.

    store = Store(folder / "cell.jsonl", {"version": __version__, "settings": digest(seed, level)})
    for job in fill([Job(store, (run,), ("cell", run)) for run in range(100)], make, workers=2):
        ...                 # job.key has just been made, by make("cell", run)
    store.tidy()            # the same records are now the same bytes, however they came
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from deadweight.errors import OutputError
from deadweight.sums.executors import Pool, WorkerDied, opened
from deadweight.tools.files import write_whole, writing

# --- Lines and fingerprints

Key = tuple[str | int, ...]  # of the same kind throughout a store, since keys are sorted
Record = dict[str, Any]  # of what JSON has: texts as keys; tuples come back as lists

CHECK = b', "check": "'


class Entry(NamedTuple):
    """What a line says: a record, its key, and what made it."""

    key: Key
    made_with: dict[str, str]
    record: Record


def encode(entry: Entry) -> bytes:
    """The line, with its end: JSON that ends with a checksum of all that stands before it.

    No bit of a line can change unnoticed: not in the key, not in the fingerprint, not in a number, not in the
    checksum, and not in the line end, which would make one line of two. Floats have all their digits.
    """
    text = json.dumps({**entry._asdict(), "key": list(entry.key)}, default=_plain)
    body = text.encode()[:-1]  # without the closing brace
    return body + CHECK + _checksum(body) + b'"}\n'


def decode(line: bytes) -> Entry | None:
    """What a line (without its end) says; None if it is damaged or cut short."""
    body, separator, rest = line.rpartition(CHECK)
    if not separator or rest != _checksum(body) + b'"}':
        return None
    entry = json.loads(body + b"}")
    if set(entry) != set(Entry._fields):
        return None
    return Entry(tuple(entry["key"]), entry["made_with"], entry["record"])


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item()


def digest(*parts: Any) -> str:
    """Sixteen hexadecimal digits of numbers, texts, tuples of them, arrays, and None.

    Arrays of floats count in single precision: the last bits of a trained policy or a solved model may differ
    between machines and numbers of threads, and are no other setting.

    >>> digest("seed", 7) == digest("seed", 7), digest("seed", 7) == digest("seed", 8)
    (True, False)
    """
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            values = part.astype(np.float32) if part.dtype.kind == "f" else part
            total.update(f"{values.dtype.str}{values.shape}".encode())
            total.update(np.ascontiguousarray(values).tobytes())
        else:
            total.update(repr(part).encode())
        total.update(b"\n")
    return total.hexdigest()[:16]


# --- A lock on a folder

NAME = ".lock"
PATIENCE = 60.0  # seconds; whoever holds the lock needs milliseconds
BUSY = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """No other process is inside a `locked` of this folder; raises `OSError` if the folder takes no file.

    It is held for the moment of an append or a rewrite. The system gives it back when a process ends, however
    it ended: a lock cannot be left behind. Where a file system knows no locks, work goes on without: two
    processes could then lose each other's latest records, which would be made again, but checksums still keep
    a wrong one from being read.
    """
    handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        _wait_for(handle, folder)
        yield
    finally:
        os.close(handle)  # which gives the lock back


def _wait_for(handle: int, folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            _take(handle)
            return
        except OSError as error:
            if error.errno not in BUSY:
                return  # no locks here
        if time.monotonic() > end:
            raise OutputError(
                f"Another process has held the lock on '{folder}' for {PATIENCE:.0f} seconds.",
                fix="Let it go on or end it, or choose another folder with --out. Finished runs are kept.",
            )
        time.sleep(0.005)


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- The store


class Store:
    """The records of one file that have one fingerprint; the file only grows while work is going on.

    A record is appended as soon as it is made, under a lock, so that several processes may fill one file. A
    line that is damaged or was cut short is left out and counted; so is one with another fingerprint (another
    version of the package, or other settings), which stays in the file for whoever made it. `tidy` sorts what
    is there: after it the bytes depend on the records alone, not on their order of arrival or on
    interruptions.

    Args:
      path: the file, of JSON lines; it is made with the first record.
      made_with: the fingerprint, everything that the records depend on beside their keys.
    """

    def __init__(self, path: Path, made_with: Mapping[str, str]) -> None:
        self.path, self.made_with = path, dict(made_with)
        self.damaged = 0  # lines left out at the first reading
        self._kept: dict[Key, Record] | None = None
        self._others: dict[bytes, None] = {}  # lines with other fingerprints, in their order
        self._read_to: tuple[int, int] = (0, 0)  # which file was read, and how far

    @property
    def others(self) -> int:
        """How many records with other fingerprints are in the file."""
        self._records()
        return len(self._others)

    def __contains__(self, key: object) -> bool:
        return key in self._records()

    def __len__(self) -> int:
        return len(self._records())

    def __iter__(self) -> Iterator[Key]:
        return iter(sorted(self._records()))

    def items(self) -> Iterator[tuple[Key, Record]]:
        """Keys in order, with their records."""
        return ((key, self._records()[key]) for key in self)

    def get(self, key: Key) -> Record:
        """The record under a key; KeyError if there is none."""
        return self._records()[key]

    def put(self, key: Key, record: Record) -> None:
        """Append a record; it is on the disk when this returns. Of two under one key the first one counts."""
        records = self._records()
        line = encode(Entry(key, self.made_with, record))
        with writing(self.path), locked(self.path.parent):
            self._catch_up()
            if key not in records:
                self._append(line)
                self._catch_up()  # what counts is what will be read again

    def tidy(self) -> None:
        """Sort the file, without damaged lines and with each record once. Other fingerprints come first."""
        records = self._records()
        with writing(self.path), locked(self.path.parent):
            self._read_to = (0, 0)  # from the start: nothing of anybody's may be missing from the new file
            self._catch_up()
            lines = [encode(Entry(key, self.made_with, records[key])) for key in sorted(records)]
            content = b"".join([*self._others, *lines])
            if content != (self.path.read_bytes() if self.path.exists() else b""):
                write_whole(self.path, lambda file: file.write(content))

    def _records(self) -> dict[Key, Record]:
        if self._kept is None:
            self._kept = {}
            if self.path.exists():
                with writing(self.path), locked(self.path.parent):
                    self.damaged = self._catch_up()
        return self._kept

    def _append(self, line: bytes) -> None:
        """Put a line at the end of the file: all of it, or nothing."""
        with self.path.open("ab+", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(end - 1, 0))
            if file.read(1) not in (b"", b"\n"):
                line = b"\n" + line  # after a line that an interruption cut short
            try:
                left = memoryview(line)
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise

    def _catch_up(self) -> int:
        """Read what was added since the last time, by whomever; returns how many lines were left out."""
        assert self._kept is not None
        if not self.path.exists():
            return 0
        damaged = 0
        with self.path.open("rb") as file:
            about = os.fstat(file.fileno())
            which, read = self._read_to
            if which == about.st_ino and read <= about.st_size:
                file.seek(read)
            for line in file.read().split(b"\n"):
                entry = decode(line)
                if entry is None:
                    damaged += bool(line)
                elif entry.made_with == self.made_with:
                    self._kept.setdefault(entry.key, entry.record)
                else:
                    self._others[line + b"\n"] = None
            self._read_to = (about.st_ino, file.tell())
        return damaged


def last_made_with(path: Path) -> dict[str, str] | None:
    """The fingerprint of the last whole line of a file, which is that of whoever tidied it last."""
    if not path.exists():
        return None
    entries = map(decode, reversed(path.read_bytes().split(b"\n")))
    return next((entry.made_with for entry in entries if entry is not None), None)


def remarks(stores: Sequence[Store]) -> list[str]:
    """What a user should know about what was found: at most a line on damage and a line on other versions."""
    others = {store.path: store.others for store in stores}
    damaged = {store.path: store.damaged for store in stores}  # known after the reading above
    return [
        *_remark(damaged, "damaged or cut short: left out, and made again where needed"),
        *_remark(others, "made by another version or with other settings: kept, but not used"),
    ]


def _remark(counts: Mapping[Path, int], what: str) -> Iterator[str]:
    concerned = sorted(path for path, count in counts.items() if count)
    if not concerned:
        return
    places = concerned if len(concerned) == 1 else sorted({path.parent for path in concerned})
    number = sum(counts.values())
    noun, verb = ("record", "was") if number == 1 else ("records", "were")
    where = ", ".join(f"'{place}'" for place in places)
    yield f"{number:,} {noun} in {where} {verb} {what}."


# --- Making records side by side

T = TypeVar("T")
Name = TypeVar("Name", bound=Hashable)


def completed(
    function: Callable[..., T],
    calls: Iterable[tuple[Name, tuple[Any, ...]]],
    workers: int,
    apart: bool = False,
) -> Iterator[tuple[Name, T]]:
    """Names of calls with their results, as they come. Executors (`sums.executors`) keep parts in order.

    Args:
      function: a named function, which can travel.
      calls: (name, arguments); taken only when a worker is free.
      workers: processes; with one, and unless `apart`, the calls are made in this process.
      apart: whether a single worker is a fresh process as well.
    """
    if workers < 2 and not apart:
        yield from ((name, function(*arguments)) for name, arguments in calls)
        return
    names: list[Name] = []

    def tasks() -> Iterator[tuple[Any, ...]]:
        for name, arguments in calls:
            names.append(name)
            yield arguments

    pool = Pool(max(workers, 1))
    try:
        for number, result in pool.run(_Spread(function), tasks()):
            yield names[number], opened(result)
    except WorkerDied:
        raise OutputError(
            "A worker process ended in the middle of a run.",
            fix="Memory may have run out: use fewer --workers. Finished runs are kept; start again to go on.",
        ) from None
    finally:
        pool.close()


@dataclass(frozen=True)
class _Spread(Generic[T]):
    """A function that takes its arguments as one tuple."""

    function: Callable[..., T]

    def __call__(self, arguments: tuple[Any, ...]) -> T:
        return self.function(*arguments)


@dataclass(frozen=True)
class Job:
    """A record that is wanted: where it belongs, and the arguments of the function that makes it."""

    store: Store
    key: Key
    arguments: tuple[Any, ...]

    @property
    def done(self) -> bool:
        """Whether the store has the record."""
        return self.key in self.store


def fill(
    jobs: Iterable[Job], make: Callable[..., Record], workers: int, apart: bool = False
) -> Iterator[Job]:
    """The jobs that were missing, each when its record is in its store.

    Jobs are looked up again just before they are given out: what another process has finished by then is not
    made twice. Only this process writes.

    Args:
      jobs: all that is wanted; those that are done are passed over.
      make: a named function of a job's arguments.
      workers: processes; one works in this process.
      apart: whether a single worker is a process of its own as well (see `completed`).
    """
    missing = [job for job in jobs if not job.done]
    waiting = (job for job in missing if not job.done)
    calls = ((job, job.arguments) for job in waiting)
    kept = set()
    for job, record in completed(make, calls, min(workers, len(missing)), apart):
        job.store.put(job.key, record)
        kept.add(id(job))
        yield job
    yield from (job for job in missing if id(job) not in kept)


__all__ = ["Job", "Key", "Record", "Store", "digest", "fill", "last_made_with", "remarks"]
