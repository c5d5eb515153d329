"""The store: records under keys, in a file of lines that only grows while work is going on.

A record is appended as soon as it is made, under a lock, so that several processes may fill one file. A line
that is damaged or was cut short is left out and counted; so is one with another fingerprint (another version
of the package, or other settings), which stays in the file for whoever made it. `tidy` sorts what is there:
after it the bytes depend on the records alone, not on their order of arrival or on interruptions.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deadweight.basics.atomic import write_whole, writing
from deadweight.records.lines import Entry, Key, Record, decode, encode
from deadweight.records.lock import locked


class Store:
    """The records of one file that have one fingerprint.

    Args:
      path: the file, of JSON lines; it is made with the first record.
      made_with: the fingerprint, everything that the records depend on beside their keys.
    """

    def __init__(self, path: Path, made_with: Mapping[str, str]) -> None:
        self.path, self.made_with = path, dict(made_with)
        self.damaged = 0  # lines left out at the first reading
        self._found: dict[Key, Record] | None = None
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
        found = self._records()
        line = encode(Entry(key, self.made_with, record))
        with writing(self.path), locked(self.path.parent):
            self._catch_up()
            if key not in found:
                self._append(line)
                self._catch_up()  # what counts is what will be read again

    def tidy(self) -> None:
        """Sort the file, without damaged lines and with each record once. Other fingerprints come first."""
        found = self._records()
        with writing(self.path), locked(self.path.parent):
            self._read_to = (0, 0)  # from the start: nothing of anybody's may be missing from the new file
            self._catch_up()
            own = [encode(Entry(key, self.made_with, found[key])) for key in sorted(found)]
            content = b"".join([*self._others, *own])
            if content != (self.path.read_bytes() if self.path.exists() else b""):
                write_whole(self.path, lambda file: file.write(content))

    def _records(self) -> dict[Key, Record]:
        if self._found is None:
            self._found = {}
            if self.path.exists():
                with writing(self.path), locked(self.path.parent):
                    self.damaged = self._catch_up()
        return self._found

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
        assert self._found is not None
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
                    self._found.setdefault(entry.key, entry.record)
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
