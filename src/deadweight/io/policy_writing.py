"""Policies to disk: a table of state, action and probability, as `read_policy` takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from deadweight.basics.atomic import write_whole
from deadweight.errors import OptionError, OutputError
from deadweight.io.csv_files import guarded
from deadweight.io.policy_files import APOSTROPHE, COLUMNS, MARK, RULE
from deadweight.log.labels import plain
from deadweight.policy.policies import TabularPolicy

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

    >>> import tempfile
    >>> from deadweight.io.policy_files import read_policy
    >>> policy = TabularPolicy([[0.5, 0.5], [0.0, 1.0]], states=["ward", "icu"], actions=["wait", "treat"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = read_policy(write_policy(policy, f"{folder}/policy.csv"))
    >>> again.state_labels, again.probs.tolist()
    (array(['icu', 'ward'], dtype=object), [[1.0, 0.0], [0.5, 0.5]])
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


def _labels(own: Any, size: int) -> list[Any]:
    return list(range(size)) if own is None else [plain(label) for label in own]


def _table(policy: TabularPolicy) -> Any:
    import pyarrow as pa

    states, actions = (
        _labels(policy.state_labels, policy.n_states),
        _labels(policy.action_labels, policy.n_actions),
    )
    rows, columns = np.nonzero(policy.probs > 0)
    values: list[Any] = [
        [states[s] for s in rows],
        [actions[a] for a in columns],
        policy.probs[rows, columns],
    ]
    named = dict(zip(COLUMNS, values, strict=True))
    if policy.trained_on is not None:
        named[MARK] = [policy.trained_on] * len(rows)
    try:
        return pa.table(named)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, or too large for a table
        text = {name: [str(label) for label in named[name]] for name in COLUMNS[:2]}
        return pa.table({**named, **text})


def _without_formulas(table: Any) -> Any:
    """The table as a spreadsheet may open it: formulas begin with an apostrophe, and a column says which."""
    import pyarrow as pa

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
