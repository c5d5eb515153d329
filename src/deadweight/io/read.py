"""`read`: from a table, in a file or in memory, to a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadweight.io.findings import LogProblem, how_many
from deadweight.io.requirements import unmet
from deadweight.io.table import LogTable, open_table
from deadweight.trajectories import Trajectories


def read(source: Any, columns: Mapping[str, str] | None = None) -> Trajectories:
    """A log from a table with one row a step.

    Args:
      source: a Parquet file, a folder of them, or a CSV file; several such files; a pandas, polars (eager or
        lazy), pyarrow or duckdb table; or a dict of columns.
      columns: our column names -> yours, where they differ.

    The columns are episode, step, state, action, reward, and optionally behaviour_prob (or propensity),
    target_prob, terminated, truncated, next_state. Rows come in any order; episodes are sorted by their ids.
    `terminated` and `truncated` count on an episode's last row; without them every episode has ended.

    Example:
      >>> log = read({"stay": [7, 7, 8], "step": [0, 1, 0], "state": ["ward", "icu", "ward"],
      ...             "action": ["wait", "treat", "wait"], "reward": [0, 1, 0]}, columns={"episode": "stay"})
      >>> log.n_episodes, list(log.state_labels)
      (2, ['icu', 'ward'])
    """
    return log_of(open_table(source, columns))


def log_of(table: LogTable) -> Trajectories:
    """The log, or an error with the first thing that is wrong."""
    findings, _ = unmet(table)
    if findings:
        first, more = findings[0], len(findings) - 1
        raise LogProblem(
            first.code,
            first.problem + " (Rows count from 0.)",
            fix=first.fix
            + (f" There is {how_many(more, 'more problem')}: run `deadweight doctor`." if more else ""),
        )
    return table.trajectories()
