"""Probabilities of logged actions are numbers in (0, 1] (behaviour) or [0, 1] (target)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from deadweight.io.findings import Check, Found, show
from deadweight.io.table import LogTable
from deadweight.log.checks import look_like_logs

TOLERANCE = 1e-6  # single precision
SMALLEST = 1e-100  # below, it is as good as 0, and its inverse overflows
CODES = {"behaviour_prob": 400, "target_prob": 410}
FIX = {
    "behaviour_prob": "Log the probability with which the action was chosen, or leave the column out and "
    "estimate it from counts (--behaviour counts).",
    "target_prob": "Give the probability of the logged action under the policy to be evaluated.",
}

Run = Callable[[LogTable, str], Found | None]


def unreadable(table: LogTable, name: str) -> Found | None:
    """Something that is not a number."""
    rows = np.flatnonzero(table.numbers(name).unreadable)
    if not rows.size:
        return None
    example = show(table.arrow(name)[int(rows[0])].as_py())
    return Found(
        f"{table.called(name)} must hold numbers; found {example} in {table.rows(rows)}.", FIX[name], rows
    )


def missing(table: LogTable, name: str) -> Found | None:
    """A row without a probability."""
    rows = np.flatnonzero(table.numbers(name).missing)
    if not rows.size:
        return None
    return Found(
        f"{table.called(name)} needs a probability in every row; it has none in {table.rows(rows)}.",
        FIX[name],
        rows,
    )


def logarithms(table: LogTable, name: str) -> Found | None:
    """Nothing above zero: log-probabilities."""
    values = table.numbers(name).values
    if not look_like_logs(values[np.isfinite(values)]):
        return None
    return Found(
        f"{table.called(name)} must hold probabilities; its values from {values.min():.6g} to "
        f"{values.max():.6g} look like log-probabilities.",
        "Store exp of them.",
        np.flatnonzero(values < 0),
    )


def percentages(table: LogTable, name: str) -> Found | None:
    """Most values above one, none above a hundred."""
    values = table.numbers(name).values
    above = values > 1 + TOLERANCE
    if not (values.min() >= 0 and values.max() <= 100 and above.mean() >= 0.5):
        return None
    return Found(
        f"{table.called(name)} must hold probabilities up to 1; its values from {values.min():.6g} to "
        f"{values.max():.6g} look like percentages.",
        "Divide them by 100.",
        np.flatnonzero(above),
    )


def out_of_range(table: LogTable, name: str) -> Found | None:
    """Below zero or above one."""
    values = table.numbers(name).values
    rows = np.flatnonzero(~((values >= 0) & (values <= 1 + TOLERANCE)))
    if not rows.size:
        return None
    return Found(
        f"{table.called(name)} must hold probabilities from 0 to 1; found {values[rows[0]]:.6g} in "
        f"{table.rows(rows)}.",
        FIX[name],
        rows,
    )


def zero(table: LogTable, name: str) -> Found | None:
    """An action that was taken, with probability zero or as good as zero."""
    rows = np.flatnonzero(table.numbers(name).values < SMALLEST)
    if name == "target_prob" or not rows.size:
        return None
    return Found(
        f"{table.called(name)} is 0 in {table.rows(rows)}, but the action was taken there.",
        "A logged action has a positive behaviour probability: correct the column (rounded to 0?), or "
        "leave it out and estimate it from counts (--behaviour counts).",
        rows,
    )


LINES: tuple[tuple[str, Run], ...] = (
    ("not numbers", unreadable),
    ("missing", missing),
    ("log-probabilities", logarithms),
    ("percentages", percentages),
    ("out of range", out_of_range),
    ("zero for an action that was taken", zero),
)


def _checks() -> Iterator[Check[LogTable]]:
    for name, base in CODES.items():
        for i, (title, run) in enumerate(LINES, 1):
            if not (name == "target_prob" and run is zero):
                yield Check(f"DW{base + i}", "error", f"{name}: {title}", (name,), _bound(run, name))


def _bound(run: Run, name: str) -> Callable[[LogTable], Found | None]:
    return lambda table: run(table, name)


CHECKS: tuple[Check[LogTable], ...] = tuple(_checks())
