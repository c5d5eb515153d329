"""Policies on disk: an (S, A) array in `.npy` or `.npz`, or a table of state, action and probability."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import PolicyError, first_few
from deadweight.io.columns import read_numbers
from deadweight.io.findings import show
from deadweight.io.frames import read_columns
from deadweight.io.label_columns import index_labels, read_labels
from deadweight.io.schema import match_columns
from deadweight.policies import TabularPolicy
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
        if not path.exists():
            raise PolicyError(
                f"Expected a policy at {str(path)!r}; found no such file.",
                fix="Check the path: .npy, .npz, or a table of state, action, prob (.csv, .parquet).",
            )
        if path.suffix.lower() in (".npy", ".npz"):
            return _from_arrays(path)
    return _from_table(source, columns)


def _from_arrays(path: Path) -> TabularPolicy:
    arrays = _load(path)
    name = "probs" if "probs" in arrays else next(iter(arrays), "")
    if name != "probs" and len(arrays) != 1:
        raise PolicyError(
            f"{str(path)!r} must hold one array, or one called 'probs'; found "
            f"{first_few([show(key) for key in arrays]) or 'none'}.",
            fix="Save it with numpy.savez(path, probs=table).",
        )
    labels = {key: arrays[key].tolist() for key in ("states", "actions") if key in arrays}
    return TabularPolicy(_normalised(arrays[name]), **labels)


def _load(path: Path) -> dict[str, AnyArray]:
    """The arrays of a file; never one that would run code."""
    try:
        data = np.load(path, allow_pickle=False)
        if isinstance(data, np.ndarray):
            return {"": data}
        with data:
            return {key: data[key] for key in data.files}
    except Exception as error:  # numpy and zipfile raise a dozen kinds for a damaged file
        raise PolicyError(
            f"{str(path)!r} is not a readable numpy file: {type(error).__name__}.",
            fix="Save the (S, A) table of numbers with numpy.save or numpy.savez.",
        ) from None


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
