"""Whatever the user calls a log, as a log: in memory as it is, Parquet as a stream, CSV read whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from deadweight.ends import TimeLimit, checked
from deadweight.errors import assume
from deadweight.executors import executor_for
from deadweight.io.fetch import whole_part
from deadweight.io.parquet import are_parquet
from deadweight.io.parts import PART_ROWS
from deadweight.io.read import log_of
from deadweight.io.stream import OutOfOrder, Stream, Watch, open_stream
from deadweight.io.table import open_table
from deadweight.logs import LogLike

Source = LogLike | str | Path | Sequence[str | Path]
T = TypeVar("T")


def with_log(
    source: Source,
    use: Callable[[LogLike], T],
    *,
    columns: Mapping[str, str] | None = None,
    workers: int = 1,
    ray_address: str | None = None,
    part_rows: int = PART_ROWS,
    watch: Watch | None = None,
    time_limit: TimeLimit = "infer",
    tell: Callable[[str], None] = assume,
) -> T:
    """What `use` makes of the log.

    A log that fits in one part is read whole. Where the rows of a stream turn out to be scattered only when
    they are read, it is sorted and used again from the start. Workers are let go afterwards; what is asked of
    the result later brings them back.
    """
    paths = _paths(source)
    if paths is None:
        return use(source)  # type: ignore[arg-type]
    if not are_parquet(paths):
        table = open_table(paths[0] if len(paths) == 1 else paths, columns)
        return use(log_of(table, checked(time_limit), tell))
    executor = executor_for(workers, ray_address)
    settings: dict[str, Any] = {"executor": executor, "part_rows": part_rows, "watch": watch}
    settings |= {"time_limit": time_limit, "tell": tell}

    def opened(sort: bool | None) -> T:
        return _used(open_stream(paths, columns, sort=sort, **settings), use)

    try:
        try:
            return opened(None)
        except OutOfOrder:
            return opened(True)
    finally:
        executor.close()


def _used(stream: Stream, use: Callable[[LogLike], T]) -> T:
    """What is made of a stream; of one part in labels of its own, which are those that its rows show."""
    if len(stream) > 1:
        return use(stream)
    _ = stream.time_limit  # a log in memory knows how its episodes end
    return use(stream.limited(whole_part(stream.files, stream.plan[0], None)))


def _paths(source: Any) -> list[str | Path] | None:
    if isinstance(source, str | Path):
        return [source]
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | Path) for one in source):
        return list(source)
    return None
