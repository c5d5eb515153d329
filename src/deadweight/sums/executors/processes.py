"""Processes: workers on this machine, each with a pipe, that load and sum parts of a stored log.

A worker that dies is replaced and its part given out again, a bounded number of times. Workers are started
afresh (never forked, which is not safe beside threads) with one thread each for linear algebra, and without
the user's main module: a script needs no guard to use them.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import weakref
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

from deadweight.basics.threads import one_thread
from deadweight.sums.executors.base import Work
from deadweight.sums.executors.travel import (
    RETRIES,
    Failure,
    Unreadable,
    attempt,
    cannot_travel,
    lost,
    opened,
)

# Parts given out beyond the one that is waited for, for each worker: results that wait their turn.
AHEAD = 4


class Processes:
    """A pool of worker processes.

    Args:
      workers: how many.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: list[_Worker] = []
        self._finalizer = weakref.finalize(self, _close_all, self._pool)

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """Parts go to whoever is free; results come in order. Work that cannot travel is refused."""
        try:
            parcel = bytes(ForkingPickler.dumps(work))
        except Exception as error:  # what cannot be packed says so in many ways
            raise cannot_travel(error) from None
        self._fill(min(self.workers, parts))
        run = _Run(self._pool, parcel, parts)
        try:
            yield from run.results()
        finally:
            # Whoever is still busy would answer into the next run.
            for worker in [worker for worker in self._pool if worker.part is not None]:
                worker.close()
                self._pool.remove(worker)

    def close(self) -> None:
        """End the workers."""
        _close_all(self._pool)

    def _fill(self, size: int) -> None:
        while len(self._pool) < size:
            self._pool.append(_Worker())


class _Run:
    """One piece of work on its way through the pool; `parcel` is the work as it travels."""

    def __init__(self, pool: list[_Worker], parcel: bytes, parts: int) -> None:
        self.pool, self.parcel, self.parts = pool, parcel, parts
        self.todo = deque(range(parts))
        self.deaths: Counter[int] = Counter()

    def results(self) -> Iterator[Any]:
        done: dict[int, Any] = {}
        for worker in list(self.pool):
            self._tell(worker, self.parcel)
        for part in range(self.parts):
            while part not in done:
                self._give_out(part)
                for worker in self._answering():
                    answered = worker.part
                    try:
                        result = worker.pipe.recv()
                    except (EOFError, OSError):
                        self._replace(worker)
                        continue
                    assert answered is not None
                    worker.part = None
                    done[answered] = result
            yield opened(done.pop(part))

    def _give_out(self, waiting_for: int) -> None:
        for worker in list(self.pool):
            if worker.part is None and self.todo and self.todo[0] < waiting_for + AHEAD * len(self.pool):
                worker.part = self.todo.popleft()
                self._tell(worker, worker.part)

    def _answering(self) -> list[_Worker]:
        by_pipe = {worker.pipe: worker for worker in self.pool if worker.part is not None}
        return [by_pipe[pipe] for pipe in wait(list(by_pipe))]  # type: ignore[index]

    def _tell(self, worker: _Worker, what: bytes | int) -> None:
        try:
            if isinstance(what, bytes):
                worker.pipe.send_bytes(what)
            else:
                worker.pipe.send(what)
        except OSError:
            self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        """A new worker in the place of a dead one, and its part back to the front of the queue."""
        if worker.part is not None:
            self.deaths[worker.part] += 1
            if self.deaths[worker.part] > RETRIES:
                raise lost(worker.part, f"exit code {worker.exit_code()}")
            self.todo.appendleft(worker.part)
        worker.close()
        fresh = _Worker()
        self.pool[self.pool.index(worker)] = fresh
        fresh.pipe.send_bytes(self.parcel)


class _Worker:
    """A process and the pipe to it; `part` is what it is working on."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.part: int | None = None
        self.pipe: Connection
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _quiet_start():
            self.process.start()
        theirs.close()

    def exit_code(self) -> int | None:
        self.process.join(timeout=5)
        return self.process.exitcode

    def close(self) -> None:
        """End it: at once if it is busy."""
        if self.part is not None:
            self.process.terminate()
        self.pipe.close()
        self.process.join(timeout=5)


def serve(pipe: Connection) -> None:
    """The life of a worker: remember the work, answer part numbers, end with the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    work: Any = None
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return
        except Exception as error:  # the work is of something that cannot be imported here
            message = Unreadable(error)
        if not isinstance(message, int):
            work = message
            continue
        result = attempt(work, message)
        try:
            pipe.send(result)
        except OSError:
            return
        except Exception as error:  # a result that cannot travel
            pipe.send(Failure.of(RuntimeError(f"{type(error).__name__}: {error}")))


@contextmanager
def _quiet_start() -> Iterator[None]:
    """What a new process inherits: one thread for linear algebra, and not the user's main module."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with one_thread():
            yield
    finally:
        sys.modules["__main__"] = main


def _close_all(pool: list[_Worker]) -> None:
    while pool:
        with suppress(OSError, ValueError):
            pool.pop().close()
