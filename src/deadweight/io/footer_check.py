"""Whether footers tell the truth, seen before a stream is used: where its episodes are, and its labels.

Where the footers left no choice, nobody has looked at a row when a stream is opened. Policies are aligned
with its labels and its parts are cut by its episodes, so rows that contradict the footers would undo both in
the middle of the work. Only the columns in question are decoded; each part is checked again whenever it is
read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.basics.progress import before_passes
from deadweight.io.fetch import Fetched, check_order, fetch
from deadweight.io.parquet import ParquetFiles
from deadweight.io.part_ids import ends, wrong_footer
from deadweight.io.parts import Part
from deadweight.io.stream import Stream

CHECKED = ("episode", "state", "action", "next_state")


# Files, as they were when they were found to be what their footers say, and what was asked of them.
_sound: deque[Hashable] = deque(maxlen=64)


def check_footers(stream: Stream) -> None:
    """Raise `OutOfOrder` where the rows are not what the footers say.

    Files that have not changed since this process found them sound are not looked at again.
    """
    asked = _identity(stream)
    if asked in _sound:
        return
    _look(stream)
    _sound.append(asked)


def _identity(stream: Stream) -> Hashable:
    """The files, when they were last written, and how they are read."""
    files = stream.files
    written = [(path, *_stamp(path)) for path in files.paths]
    read = (files.names, files.types, files.constants, files.mending, stream.plan)
    return tuple(written), repr(read), stream.n_states, stream.n_actions


def _stamp(path: str) -> tuple[int, int, int]:
    found = Path(path).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _look(stream: Stream) -> None:
    narrow = stream.files.without(*(name for name in stream.files.names if name not in CHECKED))
    promised = {"state": stream.n_states - 1, "action": stream.n_actions - 1}
    found = {"state": -1, "action": -1}
    rows = [part.all_rows for part in stream.plan]
    looks = stream.executor.map(FooterWork(narrow, stream.plan), len(stream))
    for tops in before_passes(looks, rows, "checking files"):
        found = {name: max(found[name], tops[name]) for name in found}
    if found != promised:
        raise wrong_footer(
            "these files",
            f"statistics say that the largest state and action are {tuple(promised.values())}, and they are "
            f"{tuple(found.values())}",
        )


@dataclass(frozen=True, eq=False)
class FooterWork:
    """What is looked at in each part: the places of its episodes, and its largest labels."""

    files: ParquetFiles
    parts: tuple[Part, ...]

    def load(self, part: int) -> tuple[int, Fetched]:
        """The few columns of a part."""
        return part, fetch(self.files, self.parts[part])

    def add_up(self, loaded: tuple[int, Fetched]) -> dict[str, int]:
        """The largest state and action."""
        part, fetched = loaded
        check_order(self.files, self.parts[part], fetched)
        # A tail may be whole row groups that no other part looks at.
        tables = [table for table in (fetched.table, fetched.tail) if table is not None]
        states = [name for name in ("state", "next_state") if name in self.files.names]
        return {"state": _top(tables, states), "action": _top(tables, ["action"])}


def _top(tables: list[Any], names: list[str]) -> int:
    """The largest label of some columns, -1 where there is none."""
    tops = [ends(table[name])[1] for table in tables for name in names]
    return max((int(top) for top in tops if top is not None), default=-1)
