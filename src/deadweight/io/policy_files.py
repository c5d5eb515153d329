"""Policies on disk: an (S, A) array in `.npy` or `.npz`, or a table of state, action and probability."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.basics.memory import require_table
from deadweight.errors import PolicyError
from deadweight.io.array_files import read_arrays
from deadweight.io.columns import read_numbers
from deadweight.io.findings import show
from deadweight.io.frames import read_columns
from deadweight.io.label_columns import index_labels, read_labels
from deadweight.io.schema import match_columns
from deadweight.io.sizes import unreadable
from deadweight.policy.policies import TabularPolicy
from deadweight.typing import AnyArray, FloatArray

COLUMNS = ("state", "action", "prob")
ROUNDING = 1e-3
"""Rows of a file may be off by this much (single precision, a few decimals) and are then normalised."""


def read_policy(source: Any, columns: Mapping[str, str] | None = None) -> TabularPolicy:
    """A policy from a file or a table.

    Args:
      source: `.npy` with an (S, A) array; `.npz` with one, or with `probs` and perhaps the labels `states`
        and `actions`; or a table of `state, action, prob` (Parquet, CSV, or any frame that `read` takes), in
        which a pair without a row has probability 0.
      columns: our column names -> yours, where they differ.

    Example:
      >>> policy = read_policy({"state": ["icu", "icu", "ward"], "action": ["treat", "wait", "wait"],
      ...                       "prob": [0.75, 0.25, 1.0]})
      >>> policy.probs
      array([[0.75, 0.25],
             [0.  , 1.  ]])
    """
    if isinstance(source, (str, Path)):
        path = Path(source).expanduser()
        require_file(path)
        if path.suffix.lower() in (".npy", ".npz"):
            return _from_arrays(path)
    return _from_table(source, columns)


def require_file(path: Path) -> None:
    """Refuse a path at which no policy can be."""
    problem = unreadable(path)
    if problem:
        raise PolicyError(
            f"Expected a policy at {str(path)!r}; found {problem}.",
            fix="Check the path: .npy, .npz, or a table of state, action, prob (.csv, .parquet).",
        )


def _from_arrays(path: Path) -> TabularPolicy:
    table, labels = read_arrays(path)
    return TabularPolicy(_normalised(table), **{key: names.tolist() for key, names in labels.items()})


def _from_table(source: Any, columns: Mapping[str, str] | None) -> TabularPolicy:
    names: dict[str, str] = {}
    what = repr(str(source)) if isinstance(source, (str, Path)) else "the policy"

    def choose(found: list[str], hint: str) -> Mapping[str, str]:
        names.update(match_columns(found, columns, required=COLUMNS, optional=(), source=what, hint=hint))
        return names

    table = read_columns(source, choose)
    indices, labels = {}, {}
    for name in ("state", "action"):
        column = read_labels(table.arrow[names[name]])
        if table.mixed.get(names[name]) or column.nested or column.missing.any() or not len(column.values):
            raise PolicyError(
                f"Column {show(names[name])} of {what} must hold one {name} label of one type in every row.",
                fix=f"Fill in the missing {name}s; convert all to text, or all to numbers.",
            )
        codes, every = index_labels(column, name)
        # Whole numbers leave gaps; a policy names only what it knows.
        used, indices[name] = np.unique(codes, return_inverse=True)
        labels[name] = list(every[used])
    probs = read_numbers(table.arrow[names["prob"]])
    bad = np.flatnonzero(probs.missing | probs.unreadable)
    if bad.size:
        raise PolicyError(
            f"Column {show(names['prob'])} of {what} must hold a number in every row; row {bad[0]} "
            "(counting from 0) has none.",
            fix="Leave out pairs of probability 0, or write 0.",
        )
    shape = len(labels["state"]), len(labels["action"])
    require_table(*shape, f"The policy in {what}: a table")
    cell = indices["state"] * shape[1] + indices["action"]
    twice = np.flatnonzero(np.bincount(cell, minlength=shape[0] * shape[1]) > 1)
    if twice.size:
        s, a = divmod(int(twice[0]), shape[1])
        raise PolicyError(
            f"Every (state, action) has one probability; {what} has several for state "
            f"{show(labels['state'][s])}, action {show(labels['action'][a])} ({twice.size} pairs like it).",
            fix="Keep one row for each pair.",
        )
    dense = np.zeros(shape[0] * shape[1])
    dense[cell] = probs.values
    return TabularPolicy(_normalised(dense.reshape(shape)), states=labels["state"], actions=labels["action"])


def _normalised(table: AnyArray) -> AnyArray | FloatArray:
    """Rows that miss one by rounding only, made to sum to one; anything else is left to TabularPolicy."""
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        return table
    sums = table.sum(axis=1, dtype=np.float64, keepdims=True)
    return table / sums if (table >= 0).all() and (np.abs(sums - 1) <= ROUNDING).all() else table
