"""Mend: the log as a new table in which what can be mended without guessing has been, and a record of it.

Mended are the names of columns, dates and blank rewards (as the user says), rows that stand twice, numbers
that are text (0,5 or 50% among them), probabilities written as logarithms or percentages, and a behaviour
probability that cannot be used, which is left out. How episodes end is written down. Everything else is a
question for whoever knows the data, and stays as it is: the table is examined again, and what is left is
said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.errors import how_many
from deadweight.io.columns import pa, read_numbers
from deadweight.io.doctor import Diagnosis, examine
from deadweight.io.doctor_case import Case
from deadweight.io.schema import FLAGS, Mending, OpenEpisodes, show
from deadweight.io.table import FEATURE, LogTable, open_table
from deadweight.sums.ends import TimeLimit
from deadweight.typing import BoolArray, FloatArray

REWRITTEN: dict[str, tuple[str, Callable[[FloatArray], FloatArray]]] = {
    "DW403": ("logarithms were turned into probabilities", np.exp),
    "DW413": ("logarithms were turned into probabilities", np.exp),
    "DW404": ("percentages were divided by 100", lambda values: values / 100),
    "DW414": ("percentages were divided by 100", lambda values: values / 100),
}
UNUSABLE = ("DW401", "DW402", "DW405", "DW406")
TWICE = "DW202"
AS_TEXT = "DW336"
NUMBERS = ("reward", "behaviour_prob", "target_prob", "duration")
OPEN = "DW317"
SAID = {
    "cut": "open episodes were cut at their last rows, with rewards of 0",
    "drop": "rows of open episodes were left out",
    "zero": "rewards of open episodes became 0",
}
MENDED = (*REWRITTEN, *UNUSABLE, TWICE, AS_TEXT, OPEN, "DW305", "DW306", "DW223", "DW248")
METADATA = b"deadweight.changes"


@dataclass(frozen=True)
class Change:
    """One thing that was changed: the finding that it answers, the column, how many rows, and in words."""

    code: str
    column: str
    rows: int
    what: str

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {"code": self.code, "column": self.column, "rows": self.rows, "what": self.what}


@dataclass(frozen=True, eq=False)
class Mended:
    """An Arrow table with our names of columns, what was changed in it, and what the doctor says of it."""

    table: Any
    changes: tuple[Change, ...]
    diagnosis: Diagnosis


def mend(table: LogTable, time_limit: TimeLimit = "infer") -> Mended:
    """The mended table.

    Args:
      table: the log's table, with what the user lets us change in it.
      time_limit: as for `deadweight.read`.
    """
    columns = {ours: table.arrow(ours) for ours in table.names}
    changes = [*_renames(table), *_as_said(table)]
    fill, value = _to_fill(table), table.mending.fill_reward
    if value is not None and fill.any() and not table.numbers("reward").unreadable.any():
        filled = np.where(fill, value, table.numbers("reward").values)
        columns["reward"] = pa.array(filled, pa.float64(), from_pandas=True)
    for name in NUMBERS:
        if table.has(name) and table.numbers(name).from_text and not table.numbers(name).unreadable.any():
            columns[name] = pa.array(read_numbers(columns[name]).values, from_pandas=True)
            changes.append(Change(AS_TEXT, name, table.n_rows, "text was written as numbers"))
    found = {one.code: one for one in examine(table, None, time_limit).findings}
    for code, (what, rewrite) in REWRITTEN.items():
        if code in found:
            name = "behaviour_prob" if code < "DW410" else "target_prob"
            columns[name] = pa.array(rewrite(read_numbers(columns[name]).values))
            changes.append(Change(code, name, table.n_rows, what))
    for code in UNUSABLE:
        if code in found and columns.pop("behaviour_prob", None) is not None:
            what = "the column was left out: it cannot be used; evaluate with --behaviour counts"
            changes.append(Change(code, "behaviour_prob", found[code].count, what))
    # Features and probabilities of each action keep the user's names; inside they have keys of their own.
    rows = pa.table({table.names[ours] if ":" in ours else ours: column for ours, column in columns.items()})
    features = [table.names[ours] for ours in table.names if ours.startswith(FEATURE)] or None
    if TWICE in found:
        keep = np.setdiff1d(np.arange(table.n_rows), found[TWICE].all_rows)
        rows = rows.take(keep)
        changes.append(Change(TWICE, "", found[TWICE].count, "rows equal to another were removed"))
    return _with_ends(rows, features, changes, time_limit, table.mending.open_episodes)


def _to_fill(table: LogTable) -> BoolArray:
    """(rows,) blank rewards that are filled; open episodes stay blank until it is known how others end."""
    missing = table.numbers("reward").missing
    if table.mending.fill_reward is None or missing.all():
        return np.zeros(table.n_rows, dtype=bool)
    if table.mending.open_episodes is not None:
        return missing & ~table.is_open
    filled = missing.copy()
    filled[table.unsaid_rows] = False
    return filled


def _renames(table: LogTable) -> list[Change]:
    renamed = [(o, theirs) for o, theirs in table.names.items() if o != theirs and ":" not in o]
    changes = [Change("", ours, table.n_rows, f"was called {show(theirs)}") for ours, theirs in renamed]
    if table.unused:
        shown = ", ".join(show(name) for name in table.unused)
        changes.append(Change("", "", 0, f"columns that a log has no use for were left out: {shown}"))
    return changes


def _as_said(table: LogTable) -> list[Change]:
    """What the user asked for, and how many rows it concerned."""
    said, changes = table.mending, []
    if said.open_episodes is not None:
        changes.append(Change(OPEN, "reward", int(table.is_open.sum()), SAID[said.open_episodes]))
    if said.fill_reward is not None:
        filled = int(_to_fill(table).sum())
        changes.append(Change("DW305", "reward", filled, f"blank rewards became {said.fill_reward:g}"))
    if said.time_format is not None:
        changes.append(Change("DW306", "step", table.n_rows, f"dates were read as {said.time_format}"))
    return [change for change in changes if change.rows]


def _with_ends(
    rows: Any,
    features: list[str] | None,
    changes: list[Change],
    time_limit: TimeLimit,
    open_episodes: OpenEpisodes | None,
) -> Mended:
    """The table in the order of its episodes, with a column that says how they end, examined again."""
    own = open_table(rows, features=features, mending=Mending(open_episodes=open_episodes))
    diagnosis = examine(own, None, time_limit)
    if not diagnosis.ok:
        return Mended(rows, tuple(change for change in changes if change.code != OPEN), diagnosis)
    if own.is_open.any():
        rows = _replaced(rows, "reward", pa.array(own.rewards))
    if own.says_ends:
        rows = _flagged(rows, own)
    else:
        log = Case(own, None, time_limit).log
        cut = np.zeros(own.n_rows, dtype=bool)
        cut[own.last_rows] = ~log.terminated
        rows = rows.append_column("truncated", pa.array(cut))
        n_cut = int((own.terminated & ~log.terminated).sum())
        what = f"added: {how_many(n_cut, 'episode')} of {log.n_episodes:,} cut at a time limit"
        changes.append(Change("DW248" if n_cut else "", "truncated", n_cut, what))
    rows = rows.take(own.order)
    if own.steps.are_times:
        number = np.arange(len(own.order)) - np.repeat(own.offsets[:-1], np.diff(own.offsets))
        rows = _replaced(rows, "step", pa.array(number))
        changes.append(Change("DW223", "step", len(number), "times became numbers in their order, from 0"))
    return Mended(rows, tuple(changes), examine(open_table(rows, features=features), None, time_limit))


def _flagged(rows: Any, own: LogTable) -> Any:
    """The table whose flags say of open episodes that they were cut, if they were."""
    cut = own.last_rows[own.flagged_ends & ~own.terminated]
    for name in FLAGS:
        if own.has(name) and cut.size:
            flags = own.flags(name)
            values, missing = flags.values.copy(), flags.missing.copy()
            values[cut], missing[cut] = name == "truncated", False
            rows = _replaced(rows, name, pa.array(values, mask=missing))
    return rows


def _replaced(rows: Any, name: str, column: Any) -> Any:
    return rows.set_column(rows.column_names.index(name), name, column)
