"""Features are numbers in every row, and policies row by row are probabilities that sum to 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from deadweight.io.columns import Numbers
from deadweight.io.feature_columns import AFTER, FEATURE
from deadweight.io.findings import Check, Found, show
from deadweight.io.table import LogTable
from deadweight.log.features import LARGEST
from deadweight.typing import BoolArray

TOLERANCE = 1e-6
POLICIES = ("target_prob:", "behaviour_prob:")
FIX_TEXT = (
    "Turn categories into numbers first: a column of 0 and 1 for each, for example with pandas.get_dummies."
)
FIX_MISSING = (
    "Fill the holes with a number that means it, for example the last value of the episode, and add a column "
    "of 0 and 1 that says where: that a value was not measured may matter too."
)


def not_numbers(table: LogTable) -> Found | None:
    """Text in a feature."""
    keys = [*table.keys(FEATURE), *table.keys(AFTER)]
    return _first(table, keys, lambda numbers: numbers.unreadable, "must hold numbers", FIX_TEXT)


def missing(table: LogTable) -> Found | None:
    """A row without a value of a feature."""
    keys = table.keys(FEATURE)
    return _first(table, keys, lambda numbers: numbers.missing, "needs a number in every row", FIX_MISSING)


def infinite(table: LogTable) -> Found | None:
    """A feature of plus or minus infinity, or so large that its squares are."""
    keys = [*table.keys(FEATURE), *table.keys(AFTER)]
    return _first(
        table,
        keys,
        lambda numbers: np.abs(numbers.values) > LARGEST,
        f"must be finite and at most {LARGEST:g} in size",
        "Replace it by the number that it stands for, or remove its episode.",
    )


def no_probabilities(table: LogTable) -> Found | None:
    """A policy row by row with cells that are no probabilities."""
    keys = [key for kind in POLICIES for key in table.keys(kind)]
    return _first(
        table,
        keys,
        lambda numbers: ~((numbers.values >= 0) & (numbers.values <= 1 + TOLERANCE)),
        "must hold probabilities from 0 to 1",
        "Give the probability of the action in every row, 0 where the policy never takes it.",
    )


def not_one(table: LogTable) -> Found | None:
    """A policy row by row whose rows do not sum to 1."""
    for kind in POLICIES:
        keys = table.keys(kind)
        if not keys:
            continue
        sums = table.matrix(kind).sum(axis=1)
        rows = np.flatnonzero(np.abs(sums - 1.0) > TOLERANCE)
        if rows.size:
            return Found(
                f"The columns {', '.join(show(table.names[key]) for key in keys[:3])}"
                + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")
                + f" must sum to 1 in every row; they sum to {sums[rows[0]]:.6g} in {table.rows(rows)}.",
                "Add a column for every action, and check that none is a percentage or a logarithm.",
                rows,
                tuple(keys),
            )
    return None


def _first(
    table: LogTable,
    keys: Sequence[str],
    wrong: Callable[[Numbers], BoolArray],
    must: str,
    fix: str,
) -> Found | None:
    """The first column with rows that are wrong, and all that are."""
    bad = {key: rows for key in keys if (rows := np.flatnonzero(wrong(table.numbers(key)))).size}
    if not bad:
        return None
    key, rows = next(iter(bad.items()))
    others = [show(table.names[other]) for other in list(bad)[1:4]]
    found = table.arrow(key)[int(rows[0])].as_py()
    return Found(
        f"{table.called(key)} {must}; found {'nothing' if found is None else show(found)} in "
        f"{table.rows(rows)}."
        + (f" Likewise {', '.join(others)}{' and more' if len(bad) > 4 else ''}." if others else ""),
        fix,
        np.unique(np.concatenate(list(bad.values()))),
        tuple(bad),
    )


CHECKS: tuple[Check[LogTable], ...] = (
    Check("DW701", "error", "Features that are not numbers", (), not_numbers),
    Check("DW702", "error", "Features missing", (), missing),
    Check("DW703", "error", "Infinite features", (), infinite),
    Check("DW704", "error", "Probabilities of actions out of range", (), no_probabilities),
    Check("DW705", "error", "Probabilities of actions that do not sum to one", (), not_one),
)
