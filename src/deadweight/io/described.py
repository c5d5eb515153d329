"""What a table says of each row beyond labels: features of the state, and policies row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deadweight.io.feature_columns import AFTER, FEATURE
from deadweight.log.features import Features
from deadweight.log.labels import in_the_words_of, positions
from deadweight.policy.row_policies import RowPolicy
from deadweight.typing import FloatArray, IntArray, Labels

if TYPE_CHECKING:
    from deadweight.io.table import LogTable


def features_of(table: LogTable) -> Features | None:
    """The features of all steps, and of what follows those cut episodes that say it."""
    if not table.feature_names:
        return None
    last = _after(table, AFTER)
    if last is None:
        last = np.full((len(table.offsets) - 1, len(table.feature_names)), np.nan)
    return Features(table.matrix(FEATURE)[table.order], last, table.feature_names)


def row_policy(table: LogTable, name: str, action_labels: Labels) -> RowPolicy | None:
    """The policy that columns such as target_prob_<action> are, if there are any, in the order of the log.

    Actions are matched with those of the log as they are written.
    """
    keys = table.keys(f"{name}:")
    if not keys:
        return None
    own = np.empty(len(keys), dtype=object)
    own[:] = [key.split(":", 1)[1] for key in keys]
    named = list(in_the_words_of(action_labels, own))
    last = _after(table, f"next_{name}:")
    return RowPolicy(table.matrix(f"{name}:")[table.order], named, last).made_for(table.table_rows)


def of_taken(rows: RowPolicy, actions: IntArray, labels: Labels) -> FloatArray:
    """(steps,) what a policy row by row says of the actions taken; 0 of those that it has no column for."""
    assert rows.action_labels is not None, "columns are named by their actions"
    column = positions(rows.action_labels, labels)[actions]
    return np.where(column >= 0, rows.probs[np.arange(len(column)), column], 0.0)


def _after(table: LogTable, prefix: str) -> FloatArray | None:
    """(n, d) what columns say of what follows each cut episode, NaN where they do not; None without any."""
    if not table.keys(prefix):
        return None
    cut = ~table.terminated
    last = np.full((len(cut), len(table.keys(prefix))), np.nan)
    last[cut] = table.matrix(prefix)[table.last_rows[cut]]
    last[~np.isfinite(last).all(axis=1)] = np.nan
    return last
