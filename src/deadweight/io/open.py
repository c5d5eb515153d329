"""The front door: whatever the user calls a log, opened as a log, for library and command line alike.

A log in memory is taken as it is, CSV is read whole, and Parquet in parts if it has more than one. Whether
the rows are where the footers of the files say is settled before anybody uses the log, so that nothing has to
be done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deadweight.errors import assume
from deadweight.io.folders import require_path
from deadweight.io.parquet import PART_ROWS, OutOfOrder, are_parquet
from deadweight.io.part_log import first_table, only_part
from deadweight.io.read import limited, log_of
from deadweight.io.schema import NOTHING, Mending
from deadweight.io.scratch import Scratch
from deadweight.io.stream import Stream, check_footers, open_stream
from deadweight.io.table import LogTable, open_table
from deadweight.log.behaviour import cross_fitted_propensities
from deadweight.log.interface import LogLike, Source, check_workers, paths_of
from deadweight.log.trajectories import Trajectories
from deadweight.sums.ends import TimeLimit, checked
from deadweight.sums.executors import Executor, executor_for

Look = Callable[[LogTable, bool], None]
# Parquet with more rows than this is read part by part unless it is said otherwise: it has several parts.
LARGE = PART_ROWS


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
      columns: our column names -> yours, where they differ.
      features: columns that describe the state; such a log is read whole.
      workers, ray_address: who reads and sums Parquet; see `deadweight.sums.executors`.
      part_rows: most rows of a part. A log that fits in one part is read whole.
      stream: False reads Parquet whole, however large it is.
      time_limit: as for `deadweight.read`.
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
    settings: dict[str, Any] = {
        "scratch": scratch,
        "part_rows": part_rows,
        "time_limit": time_limit,
        "tell": _once(tell),
        "mending": mending,
        "counts": counts,
    }
    try:
        try:
            log = _opened(paths, columns, executor, None, dict(settings), look)
        except OutOfOrder:
            log = _opened(paths, columns, executor, True, settings, look)
        yield log
    finally:
        executor.close()
        scratch.close()


def _opened(
    paths: list[str | Path],
    columns: Mapping[str, str] | None,
    executor: Executor,
    sort: bool | None,
    settings: dict[str, Any],
    look: Look | None,
) -> LogLike:
    """A stream whose rows are in order; of one part a log in labels of its own, those that its rows show."""
    counts = settings.pop("counts")
    found: Stream = open_stream(paths, columns, executor=executor, sort=sort, **settings)
    if len(found) > 1 and found.common.promised:
        check_footers(found)
    whole = None if len(found) > 1 else only_part(found.files, found.plan[0])
    if look is not None:
        look(first_table(found.files, found.plan[0], found.common.states), whole is not None)
    if whole is None:
        return found.counted() if counts else found
    log = limited(whole, checked(settings["time_limit"]), found.says_ends, settings["tell"])
    return _counted(log) if counts else log


def _once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """`tell` without what it has been told: files that turn out not to be sorted are opened again."""
    said: set[str] = set()

    def told(message: str) -> None:
        if message not in said:
            said.add(message)
            tell(message)

    return told


def _counted(log: Trajectories) -> Trajectories:
    return log.with_propensities(cross_fitted_propensities(log))
