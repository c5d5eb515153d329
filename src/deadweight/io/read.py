"""`read`: from a table, in a file or in memory, to a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deadweight.errors import assume, how_many
from deadweight.io.files import from_stdin
from deadweight.io.requirements import unmet
from deadweight.io.schema import LogProblem, Mending, OpenEpisodes
from deadweight.io.table import LogTable, open_table
from deadweight.log.trajectories import Trajectories
from deadweight.sums.ends import TimeLimit, assumption, checked, inferred_limit


def read(
    source: Any,
    columns: Mapping[str, str] | None = None,
    time_limit: TimeLimit = "infer",
    *,
    time_format: str | None = None,
    fill_reward: float | None = None,
    open_episodes: OpenEpisodes | None = None,
    features: Sequence[str] | str | None = None,
) -> Trajectories:
    """A log from a table with one row for each step.

    Args:
      source: a Parquet or CSV file (also compressed: .csv.gz), a folder of either, several such files, or "-"
        for standard input; a pandas, polars (eager or lazy), pyarrow or duckdb table; or a dict of columns.
      columns: our column names -> yours, where they differ.
      time_limit: for a table without `terminated` and `truncated`: episodes of exactly so many steps were
        cut; None: all ended by themselves; "infer": see `deadweight.sums.ends`, with a warning of class
        `errors.Assumption` where a limit is found. Flags in the table always win, with such a warning where
        a number contradicts them.
      time_format: how the step column writes dates, such as "%d.%m.%Y %H:%M"; dates as 2025-12-31 08:00 need
        none.
      fill_reward: the reward of rows whose reward is blank, such as 0 where blank means that nothing was
        earned; None refuses them.
      open_episodes: what episodes are whose reward is blank in every row, so that nobody knows yet how they
        went: "cut" at their last row, with rewards of 0; "drop" leaves them out; "zero": they ended, and
        earned nothing. None refuses them, unless a flag says that they were cut; `fill_reward` does not say
        it.
      features: columns of numbers that describe the state, by name or with wildcards (`x_*`). `state` may
        then be absent. Where a table has `next_<name>` for every feature, they are what follows the last row
        of an episode that was cut.

    The columns are episode, step, state, action, reward, and optionally behaviour_prob (or propensity),
    target_prob, terminated, truncated, next_state. Rows come in any order; episodes are sorted by their ids.
    `terminated` and `truncated` count on an episode's last row; without them every episode has ended, unless
    there is a time limit. Columns `target_prob_<action>`, one for each action, are the policy to be
    evaluated, row by row, and `behaviour_prob_<action>` the one that acted.

    All arrays of the log are in the order of its sorted steps; `log.rows` says which row of the table each
    step came from. What you give row by row (`RowPolicy`, a frame of probabilities, `GivenQ`, one flag for
    each step as a drop) is in the order of the table: it is sorted with the log.

    Example:
      >>> log = read({"stay": [7, 7, 8], "step": [0, 1, 0], "state": ["ward", "icu", "ward"],
      ...             "action": ["wait", "treat", "wait"], "reward": [0, 1, 0]}, columns={"episode": "stay"})
      >>> log.n_episodes, list(log.state_labels)
      (2, ['icu', 'ward'])
      >>> read({"episode": [1, 1], "step": [0, 1], "action": ["a", "b"], "reward": [0, 1], "x_1": [0.5, 0.7],
      ...       "x_2": [3, 4]}, features=["x_*"]).features
      array([[0.5, 3. ],
             [0.7, 4. ]])
      >>> read({"episode": ["10", "9", "9"], "step": [0, 1, 0], "state": [0, 1, 0], "action": [0, 0, 1],
      ...       "reward": [1, 2, 3]}).rows
      array([0, 2, 1])
    """
    wanted, mending = checked(time_limit), Mending(time_format, fill_reward, open_episodes)
    with from_stdin(source) as here:
        return log_of(open_table(here, columns, mending, features), wanted)


def log_of(
    table: LogTable, time_limit: TimeLimit = None, tell: Callable[[str], None] = assume
) -> Trajectories:
    """The log, or an error with the first thing that is wrong.

    Args:
      table: the table.
      time_limit: as for `read`.
      tell: is told what was taken for granted.
    """
    findings, _ = unmet(table)
    if findings:
        first, more = findings[0], len(findings) - 1
        raise LogProblem(
            first.code,
            first.problem + " (Rows count from 0.)",
            fix=first.fix
            + (f" There is {how_many(more, 'more problem')}: run `deadweight doctor`." if more else ""),
        )
    return limited(table.trajectories(), time_limit, table.says_ends, tell)


def limited(
    log: Trajectories, time_limit: TimeLimit, says_ends: bool, tell: Callable[[str], None] = assume
) -> Trajectories:
    """The log with its time limit: the given one, or the one that it shows; flags win over both."""
    if says_ends:
        said = None if time_limit == "infer" else time_limit
        return log._limited_to(log.limit_by_flags(said, tell))
    if time_limit == "infer":
        found = inferred_limit(log)
        if found is None:
            return log
        cut = log.with_time_limit(found)
        tell(assumption(found, int((log.terminated & ~cut.terminated).sum()), log.n_episodes))
        return cut
    return log if time_limit is None else log.with_time_limit(time_limit)
