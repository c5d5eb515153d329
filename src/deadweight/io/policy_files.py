"""Policies on disk: an (S, A) array in `.npy` or `.npz`, or a table of state, action and probability.

The header of an array tells its shape; it is compared with the bytes that follow, and both with the memory
that is allowed, before anything of that size is made. Nothing that would run code is loaded.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from deadweight.errors import OptionError, OutputError, PolicyError, TooLarge, first_few, how_many
from deadweight.io.columns import decoded, index_labels, is_text, pa, read_labels, read_numbers
from deadweight.io.files import guarded
from deadweight.io.folders import require_path, unreadable
from deadweight.io.frames import Columns, read_columns
from deadweight.io.schema import match_columns, show
from deadweight.log.labels import plain
from deadweight.log.policies import TabularPolicy
from deadweight.tools.files import write_whole
from deadweight.tools.limits import require, require_table
from deadweight.typing import AnyArray, FloatArray

# --- Arrays, read only as far as they are what they say

LABELS = ("states", "actions")
# The array as it is read, as numbers, and while it is checked.
COPIES = 4


def read_arrays(path: Path) -> tuple[AnyArray, dict[str, AnyArray]]:
    """The table of a file, and the labels `states` and `actions` if it has them."""
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                return _array(file, path.stat().st_size, str(path)), {}
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            if "probs" not in members and len(members) != 1:
                raise PolicyError(
                    f"{str(path)!r} must hold one array, or one called 'probs'; found "
                    f"{first_few([show(key) for key in members]) or 'none'}.",
                    fix="Save it with numpy.savez(path, probs=table).",
                )
            name = "probs" if "probs" in members else next(iter(members))
            arrays = {}
            for key in (name, *(label for label in LABELS if label in members)):
                with archive.open(members[key]) as member:  # gives no more bytes than it declares
                    arrays[key] = _array(member, members[key].file_size, f"{key} in {str(path)!r}")
            return arrays.pop(name), arrays
    except (PolicyError, TooLarge, MemoryError):
        raise
    except Exception as error:  # numpy and zipfile raise a dozen kinds for a damaged file
        raise PolicyError(
            f"{str(path)!r} is not a readable numpy file: {type(error).__name__}.",
            fix="Save the (S, A) table of numbers with numpy.save or numpy.savez.",
        ) from None


def _array(file: IO[bytes], size: int, what: str) -> AnyArray:
    """The array in a stream of `size` bytes."""
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    read_header: Any = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, in_columns, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("Python objects")
    cells, rest = math.prod(shape), size - file.tell()
    if cells * dtype.itemsize > rest or any(length < 0 for length in shape):
        raise PolicyError(
            f"{what} was cut short: its header says shape {shape}, for which {rest:,} bytes are too few.",
            fix="Copy or write the file again.",
        )
    require(cells * max(dtype.itemsize, 8) * COPIES, f"{what}, an array of shape {shape},", "Is it a policy?")
    data = np.frombuffer(file.read(cells * dtype.itemsize), dtype=dtype, count=cells)
    return data.reshape(shape, order="F" if in_columns else "C")


# --- Tables

COLUMNS = ("state", "action", "prob")
RULE = COLUMNS[:2]
NAMING = (
    "Give it one row for each state and action, in columns state, action and prob (or probability); a rule "
    "has state and action, and no other column. State "
    "and action may also have the names that --columns gives them in the log. In Python: read_policy(path, "
    "columns={'prob': 'your name'})."
)
A_LOG = (
    "It looks like a log: the log comes first, and the policy after --target, as in deadweight evaluate "
    "log.csv --target policy.csv. In Python: read(path) for a log, read_policy(path) for a policy."
)
MARK = "trained_on"
"""The column of a policy that was learnt from a log: that log's fingerprint."""
APOSTROPHE = "apostrophe_before"
"""The column of a CSV that names those labels of a row that were given an apostrophe, as formulas are."""
ROUNDING = 1e-3
"""Rows of a file may be off by this much (single precision, a few decimals) and are then normalised."""
EXACT = 1e-12
"""A row that is off by less is written in double precision: its sum is rounded, not its numbers."""


def read_policy(
    source: Any, columns: Mapping[str, str] | None = None, *, log_columns: Mapping[str, str] | None = None
) -> TabularPolicy:
    """A policy from a file or a table.

    Args:
      source: `.npy` with an (S, A) array; `.npz` with one, or with `probs` and perhaps the labels `states`
        and `actions`; or a table of `state, action, prob` (Parquet, CSV, or any frame that `read` takes), in
        which a pair without a row has probability 0; `prob` may be called `probability`. A table of `state,
        action` alone is a rule: that action is taken whenever the state is met.
      columns: our column names -> yours, where they differ.
      log_columns: those of a log, which the table may have instead of `state` and `action`.

    Example:
      >>> policy = read_policy({"state": ["icu", "icu", "ward"], "action": ["treat", "wait", "wait"],
      ...                       "prob": [0.75, 0.25, 1.0]})
      >>> policy.probs
      array([[0.75, 0.25],
             [0.  , 1.  ]])
    """
    if isinstance(source, (str, Path)):
        require_path(source)
        path = Path(source).expanduser()
        require_file(path)
        if path.suffix.lower() in (".npy", ".npz"):
            table, labels = read_arrays(path)
            return TabularPolicy(_normalised(table), **{key: known.tolist() for key, known in labels.items()})
    return _from_table(source, columns, log_columns or {})


def require_file(path: Path) -> None:
    """Refuse a path at which no policy can be."""
    problem = unreadable(path)
    if problem:
        raise PolicyError(
            f"Expected a policy at {str(path)!r}; found {problem}.",
            fix="Check the path: .npy, .npz, or a table of state, action, prob (.csv, .parquet).",
        )


def _from_table(
    source: Any, columns: Mapping[str, str] | None, log_columns: Mapping[str, str]
) -> TabularPolicy:
    names: dict[str, str] = {}
    what = repr(str(source)) if isinstance(source, (str, Path)) else "the policy"

    def choose(header: list[str], text: list[str], hint: str) -> Mapping[str, str]:
        as_in_log = {ours: log_columns[ours] for ours in COLUMNS if log_columns.get(ours) in header}
        renames = {
            **{ours: name for ours, name in as_in_log.items() if ours not in header},
            **(columns or {}),
        }
        # State and action alone are a rule: one action in each state.
        required = COLUMNS if len(header) > len(RULE) or "prob" in renames else RULE
        known = match_columns(
            header,
            renames,
            required=required,
            optional=("prob", MARK, APOSTROPHE),
            source=what,
            hint=hint,
            remedy=A_LOG if {"episode", "step", "reward"} <= {*header} else NAMING,
        )
        names.update(known)
        return names

    table = read_columns(source, choose)
    (state, states), (action, actions) = (_coded(table, names, name, what) for name in RULE)
    if "prob" in names:
        probs = _probabilities(table.arrow[names["prob"]], names["prob"], what)
    else:
        _require_rule(state, states, what)
        probs = np.ones(len(state))
    shape = len(states), len(actions)
    require_table(*shape, f"The policy in {what}: a table")
    cell = state * shape[1] + action
    twice = np.flatnonzero(np.bincount(cell, minlength=shape[0] * shape[1]) > 1)
    if twice.size:
        s, a = divmod(int(twice[0]), shape[1])
        raise PolicyError(
            f"Every (state, action) has one probability; {what} has several for state "
            f"{show(states[s])}, action {show(actions[a])} ({how_many(twice.size, 'pair')} like it).",
            fix="Keep one row for each pair.",
        )
    dense = np.zeros(shape[0] * shape[1])
    dense[cell] = probs
    mark = None if MARK not in names else table.arrow[names[MARK]][0].as_py()
    return TabularPolicy(_normalised(dense.reshape(shape)), states, actions, mark)


def _coded(table: Columns, names: Mapping[str, str], name: str, what: str) -> tuple[AnyArray, list[Any]]:
    """(rows,) indices of a column's labels, and the labels that it has."""
    column = read_labels(_as_given(table.arrow, names, name))
    if table.mixed.get(names[name]) or column.nested or column.missing.any() or not len(column.values):
        raise PolicyError(
            f"Column {show(names[name])} of {what} must hold one {name} label of one type in every row.",
            fix=f"Fill in the missing {name}s; convert all to text, or all to numbers.",
        )
    codes, labels = index_labels(column, name)
    used, indices = np.unique(codes, return_inverse=True)  # whole numbers leave gaps
    return indices, list(labels[used])


def _as_given(arrow: Mapping[str, Any], names: Mapping[str, str], name: str) -> Any:
    """A column of labels without the apostrophes that were written before formulas."""
    column = decoded(arrow[names[name]])
    if APOSTROPHE not in names or not is_text(column.type):
        return column
    marks = arrow[names[APOSTROPHE]].to_pylist()
    added = [isinstance(mark, str) and name in mark.split() for mark in marks]
    texts = [t.removeprefix("'") if a and t else t for t, a in zip(column.to_pylist(), added, strict=True)]
    return pa.array(texts, pa.string())


def _probabilities(column: Any, name: str, what: str) -> FloatArray:
    probs = read_numbers(column)
    bad = np.flatnonzero(probs.missing | probs.unreadable)
    if bad.size:
        raise PolicyError(
            f"Column {show(name)} of {what} must hold a number in every row; row {bad[0]} "
            f"(counting from 0) has {show(column[int(bad[0])].as_py())}.",
            fix="Write a probability such as 0.25 or 25%; leave out pairs of probability 0, or write 0.",
        )
    return probs.values


def _require_rule(state: AnyArray, labels: list[Any], what: str) -> None:
    """Refuse several actions in a state where nothing says how often each is taken."""
    several = np.flatnonzero(np.bincount(state) > 1)
    if several.size:
        raise PolicyError(
            f"Without a column prob a policy is a rule, with one row for each state; {what} has several for "
            f"state {show(labels[several[0]])} ({how_many(several.size, 'state')} like it).",
            fix="Add a column prob, such as 0.25 or 25%.",
        )


def _normalised(table: AnyArray) -> AnyArray | FloatArray:
    """Rows that miss one by rounding only, made to sum to one; anything else is left to TabularPolicy.

    Rows that are as exact as doubles can be stay what they are: a table is the same policy as its array.
    """
    if table.ndim != 2 or table.dtype.kind not in "fiub":
        return table
    sums = table.sum(axis=1, dtype=np.float64, keepdims=True)
    off = np.abs(sums - 1)
    if not ((table >= 0).all() and (off <= ROUNDING).all()):
        return table
    return table / np.where(off > EXACT, sums, 1.0)


# --- Writing

FORMS = (".csv", ".parquet")


def check_policy_name(path: Path, option: str = "--out") -> None:
    """Refuse a name that does not say in which form the policy is written."""
    if path.suffix.lower() not in FORMS:
        raise OptionError(
            f"{option} must end in {' or '.join(FORMS)}; found {str(path)!r}.",
            fix=f"For example {option} policy.csv.",
        )


def write_policy(policy: TabularPolicy, path: str | Path) -> Path:
    """Write a policy, whole or not at all; returns the path.

    The table has a row for each action that is taken in a state and, where the policy was learnt from a log,
    the fingerprint of that log, by which an evaluation can tell. In a CSV, labels that a spreadsheet would
    take for formulas begin with an apostrophe; a column says which, and `read_policy` takes it off again.

    Args:
      policy: with labels of its own or, without them, numbered states and actions.
      path: .csv or .parquet.
    """
    target = Path(path)
    check_policy_name(target, "The name of a policy")
    try:
        write_whole(target, lambda file: _write(_table(policy), file, target.suffix.lower()))
    except OSError as error:
        raise OutputError(
            f"The policy cannot be written to {target}: {error.strerror or error}.",
            fix="Name a file in a folder that exists and may be written to.",
        ) from None
    return target


def _table(policy: TabularPolicy) -> Any:
    labels = (policy.state_labels, policy.action_labels)
    states, actions = (
        range(size) if known is None else [plain(label) for label in known]
        for known, size in zip(labels, policy.probs.shape, strict=True)
    )
    rows, columns = np.nonzero(policy.probs > 0)
    named: dict[str, Any] = {
        "state": [states[s] for s in rows],
        "action": [actions[a] for a in columns],
        "prob": policy.probs[rows, columns],
    }
    if policy.trained_on is not None:
        named[MARK] = [policy.trained_on] * len(rows)
    try:
        return pa.table(named)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, or too large for a table
        return pa.table({**named, **{name: [str(label) for label in named[name]] for name in RULE}})


def _without_formulas(table: Any) -> Any:
    """The table as a spreadsheet may open it: formulas begin with an apostrophe, and a column says which."""
    added = []
    for name in RULE:
        column, formulas = guarded(table[name])
        table = table.set_column(table.column_names.index(name), name, column)
        added.append(np.where(formulas, name, ""))
    marks = [" ".join(filter(None, row)) for row in zip(*added, strict=True)]
    return table.append_column(APOSTROPHE, pa.array(marks, pa.string())) if any(marks) else table


def _write(table: Any, file: BinaryIO, form: str) -> None:
    from pyarrow import csv, parquet

    if form == ".csv":
        csv.write_csv(_without_formulas(table), file)
    else:
        parquet.write_table(table, file)
