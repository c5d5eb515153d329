"""Whether footers tell the truth, seen before a stream is used: where its episodes are, and its labels.

Where the footers left no choice, nobody has looked at a row when a stream is opened. Policies are aligned
with its labels and its parts are cut by its episodes, so rows that contradict the footers would undo both in
the middle of the work. Only the columns in question are decoded; each part is checked again whenever it is
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deadweight.io.fetch import Fetched, check_order, fetch
from deadweight.io.parquet import ParquetFiles
from deadweight.io.part_ids import ends, wrong_footer
from deadweight.io.parts import Part
from deadweight.io.stream import Stream

CHECKED = ("episode", "state", "action", "next_state")


def check_footers(stream: Stream) -> None:
    """Raise `OutOfOrder` where the rows are not what the footers say."""
    narrow = stream.files.without(*(name for name in stream.files.names if name not in CHECKED))
    promised = {"state": stream.n_states - 1, "action": stream.n_actions - 1}
    found = {"state": -1, "action": -1}
    for tops in stream.executor.map(FooterWork(narrow, stream.plan), len(stream)):
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
