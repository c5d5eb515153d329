"""Independent calls side by side: results as they come, in processes that end with the one that started them.

Workers are fresh processes with one thread each for linear algebra, so that numbers do not depend on how many
there are. Executors (`deadweight.sums.executors`) are for parts of one log, in order; these share nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import Any, TypeVar

from deadweight.basics.threads import one_thread
from deadweight.errors import OutputError

START = "spawn"

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
      calls: (name, arguments); taken only when a worker is nearly free.
      workers: processes; with one, and unless `apart`, the calls are made in this process.
      apart: whether a single worker is a fresh process as well.
    """
    waiting = iter(calls)
    if workers < 2 and not apart:
        yield from ((name, function(*arguments)) for name, arguments in waiting)
        return
    context = multiprocessing.get_context(START)
    with one_thread(), ProcessPoolExecutor(max(workers, 1), context, _follow_parent) as pool:
        running: dict[Future[T], Name] = {}
        try:
            while True:
                # A short queue: whatever goes wrong, little is under way.
                for name, arguments in islice(waiting, 2 * workers - len(running)):
                    running[pool.submit(function, *arguments)] = name
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), _result(future)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _result(future: Future[T]) -> T:
    from concurrent.futures.process import BrokenProcessPool

    try:
        return future.result()
    except BrokenProcessPool:
        raise OutputError(
            "A worker process ended in the middle of a run.",
            fix="Memory may have run out: use fewer --workers. Finished runs are kept; start again to go on.",
        ) from None


def _follow_parent() -> None:
    """End this worker when the process that started it is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait_for_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()
