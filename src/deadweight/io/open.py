"""The front door: `read` makes a log of a table; `open_log` opens whatever the user calls a log.

`open_log` serves library and command line alike: a log in memory is taken as it is, CSV is read whole, and
Parquet in parts if it has more than one. Whether the rows are where the footers of the files say is settled
before anybody uses the log, so that nothing has to be done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from deadweight.errors import assume
from deadweight.io.files import are_parquet, from_stdin
from deadweight.io.folders import require_path
from deadweight.io.parquet import PART_ROWS, OutOfOrder
from deadweight.io.part_log import fetch, only_part, part_table
from deadweight.io.requirements import limited, log_of
from deadweight.io.schema import NOTHING, Mending, OpenEpisodes
from deadweight.io.scratch import Scratch
from deadweight.io.stream import Stream, check_footers, open_stream
from deadweight.io.table import LogTable, open_table
from deadweight.log.behaviour import cross_fitted_propensities
from deadweight.log.interface import LogLike, Source, check_workers, paths_of
from deadweight.log.trajectories import Trajectories
from deadweight.sums.ends import TimeLimit, checked
from deadweight.sums.executors import executor_for

Look = Callable[[LogTable, bool], None]
# Parquet with more rows than this is read part by part unless it is said otherwise: it has several parts.
LARGE = PART_ROWS


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


@contextmanager
def open_log(
    source: Source,
    *,
    columns: Mapping[str, str] | None = None,
    features: Sequence[str] | str | None = None,
    workers: int = 1,
    ray_address: str | None = None,
    part_rows: int = PART_ROWS,
    stream: bool | None = None,
    time_limit: TimeLimit = "infer",
    tell: Callable[[str], None] = assume,
    look: Look | None = None,
    mending: Mending = NOTHING,
    counts: bool = False,
) -> Iterator[LogLike]:
    """A log to be used within a `with` statement, after which its workers are let go.

    Args:
      source: a log, or the path (or paths) of one on disk.
      columns, features, time_limit: as for `deadweight.read`; a log with features is read whole.
      workers, ray_address: who reads and sums Parquet; see `deadweight.sums.executors`.
      part_rows: most rows of a part. A log that fits in one part is read whole.
      stream: False reads Parquet whole, however large it is.
      tell: is told what was taken for granted.
      look: is shown the rows before the log is made of them: the table, and whether it is the whole log or
        the first of its parts.
      mending: what is changed in the columns as they are read; where open episodes are left out, the log is
        read whole.
      counts: give a log on disk propensities from counts, each episode's from the others.

    What is asked of the log later brings the workers back.

    >>> from deadweight import Trajectories
    >>> with open_log(Trajectories.from_episodes([[(0, 0, 1.0)]])) as log:
    ...     log.n_steps
    1
    """
    check_workers(workers)
    paths = paths_of(source)
    for path in paths or []:
        require_path(path)
    if paths is None:
        yield source  # type: ignore[misc]  # whoever asks a question of it says if it is no log
        return
    in_memory = features is not None or mending.open_episodes == "drop"
    if stream is False or in_memory or not are_parquet(paths):
        table = open_table(paths[0] if len(paths) == 1 else paths, columns, mending, features, tell)
        if look is not None:
            look(table, True)
        whole = log_of(table, checked(time_limit), tell)
        yield _counted(whole) if counts else whole
        return
    executor, scratch = executor_for(workers, ray_address), Scratch()
    told = cache(tell)  # once: files that turn out not to be sorted are opened again
    options: dict[str, Any] = {"executor": executor, "scratch": scratch, "part_rows": part_rows}
    options |= {"time_limit": time_limit, "tell": told, "mending": mending}
    try:
        try:
            log = _in_order(open_stream(paths, columns, **options), time_limit, told, look, counts)
        except OutOfOrder:
            parts = open_stream(paths, columns, sort=True, **options)
            log = _in_order(parts, time_limit, told, look, counts)
        yield log
    finally:
        executor.close()
        scratch.close()


def _in_order(
    stream: Stream, time_limit: TimeLimit, tell: Callable[[str], None], look: Look | None, counts: bool
) -> LogLike:
    """A stream whose rows are in order; of one part a log in labels of its own, those that its rows show."""
    if len(stream) > 1 and stream.common.promised:
        check_footers(stream)
    whole = None if len(stream) > 1 else only_part(stream.files, stream.plan[0])
    if look is not None:
        rows = fetch(stream.files, stream.plan[0]).rows
        look(part_table(stream.files, rows, stream.common.states), whole is not None)
    if whole is None:
        return stream.counted() if counts else stream
    log = limited(whole, checked(time_limit), stream.says_ends, tell)
    return _counted(log) if counts else log


def _counted(log: Trajectories) -> Trajectories:
    return log.with_propensities(cross_fitted_propensities(log))
