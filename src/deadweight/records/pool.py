"""Independent calls side by side: results as they come. Executors (`sums.executors`) keep parts in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from deadweight.basics.travelling import opened
from deadweight.basics.worker_pool import Pool, WorkerDied
from deadweight.errors import OutputError

T = TypeVar("T")
Name = TypeVar("Name", bound=Hashable)


def completed(
    function: Callable[..., T],
    calls: Iterable[tuple[Name, tuple[Any, ...]]],
    workers: int,
    apart: bool = False,
) -> Iterator[tuple[Name, T]]:
    """Names of calls with their results, as they come.

    Args:
      function: a named function, which can travel.
      calls: (name, arguments); taken only when a worker is free.
      workers: processes; with one, and unless `apart`, the calls are made in this process.
      apart: whether a single worker is a fresh process as well.
    """
    if workers < 2 and not apart:
        yield from ((name, function(*arguments)) for name, arguments in calls)
        return
    names: list[Name] = []

    def tasks() -> Iterator[tuple[Any, ...]]:
        for name, arguments in calls:
            names.append(name)
            yield arguments

    pool = Pool(max(workers, 1))
    try:
        for number, result in pool.run(_Spread(function), tasks()):
            yield names[number], opened(result)
    except WorkerDied:
        raise OutputError(
            "A worker process ended in the middle of a run.",
            fix="Memory may have run out: use fewer --workers. Finished runs are kept; start again to go on.",
        ) from None
    finally:
        pool.close()


@dataclass(frozen=True)
class _Spread(Generic[T]):
    """A function that takes its arguments as one tuple."""

    function: Callable[..., T]

    def __call__(self, arguments: tuple[Any, ...]) -> T:
        return self.function(*arguments)
