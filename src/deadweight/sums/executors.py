"""What an executor is, and the simplest one: threads of this process."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from deadweight.errors import EstimationError, MissingExtra, OptionError
from deadweight.tools.limits import processors
from deadweight.tools.workers import Pool, WorkerDied, attempted, opened

MOST_THREADS = 4
# Parts that may be begun beyond those that the threads are at: sums that wait for those of a part before.
WAITING = 2


class Work(Protocol):
    """What is done with each part; has to be of named functions and classes, so that it can travel."""

    def load(self, part: int) -> Any:
        """Fetch a part."""
        ...

    def add_up(self, loaded: Any) -> Any:
        """The result of a part that has been fetched."""
        ...


class Executor(Protocol):
    """One way to do work.

    Attributes:
      same_disk: whether whoever works sees the files that others have written.
    """

    same_disk: bool

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """The results of parts 0, 1, ..., parts - 1, in this order."""
        ...

    def close(self) -> None:
        """Let go of workers; they come back when there is work again."""
        ...


class InProcess:
    """Threads of this process: each decodes a part and sums it, and then takes the next.

    Decoder and kernel let go of the interpreter, so that two threads keep two processors busy whichever of
    the two is more work. As many parts are in memory as there are threads, on any machine a few.
    """

    same_disk = True

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """In this process."""
        count = threads()
        with ThreadPoolExecutor(count) as pool:
            running: deque[Future[Any]] = deque()
            following = 0
            try:
                for _ in range(parts):
                    while following < parts and len(running) < count + WAITING:
                        running.append(pool.submit(_done, work, following))
                        following += 1
                    yield running.popleft().result()
            finally:
                for one in running:
                    one.cancel()
        release_decoded()

    def close(self) -> None:
        """Nothing is held."""


def _done(work: Work, part: int) -> Any:
    return work.add_up(work.load(part))


def threads() -> int:
    """How many threads read a log: one for each processor, at least two and at most a few.

    Two keep even a single processor busy while one of them waits for a disk; more take more memory.
    """
    return min(MOST_THREADS, max(2, processors()))


def release_decoded() -> None:
    """Give back what the decoder keeps for the next part: other passes have no use for it."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


# --------------------------------------------------------------------------------------------------------
# Executors: who does the work on the parts of a stored log, one after the other or side by side.
#
# An executor maps a piece of work over part numbers and yields the results in the order of the parts, whoever
# was done first, so that the sums that are made of them have the same bits for any number of workers. The
# work travels to a worker once; after that only part numbers do.


def executor_for(workers: int = 1, ray_address: str | None = None) -> Executor:
    """The executor that a user asks for.

    Args:
      workers: processes; 1 works in this one.
      ray_address: a Ray cluster instead: its address, or "local" to start one with so many workers.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise OptionError(
            f"workers must be a whole number of at least 1; found {workers!r}.", fix="For example workers=2."
        )
    if ray_address is not None:
        return Ray(None if ray_address == "local" else ray_address, workers if workers > 1 else None)
    if workers == 1:
        return InProcess()

    return Processes(workers)


# --------------------------------------------------------------------------------------------------------
# What a worker does with a part of a log, in a process or on a cluster, and what if a part is given up.

# How often a part is tried again after the worker that had it was killed.
RETRIES = 3


@dataclass(frozen=True)
class OnPart:
    """Work on one part: fetched and added up, with one thread, since workers share the processors."""

    work: Work

    def __call__(self, part: int) -> Any:
        """The result of a part."""
        import pyarrow as pa

        if pa.cpu_count() > 1:
            pa.set_cpu_count(1)
        return self.work.add_up(self.work.load(part))


def attempt(work: Work, part: int) -> Any:
    """The result of a part, or a failure that can travel."""
    return attempted(OnPart(work), part)


def lost(part: int, why: str) -> EstimationError:
    """The error for a part that no worker survived."""
    return EstimationError(
        f"Part {part} of the log was given up: its worker was killed {RETRIES + 1} times ({why}).",
        fix="Most often memory ran out: use fewer workers, or smaller parts (part_rows).",
    )


# --------------------------------------------------------------------------------------------------------
# Processes: workers on this machine that load and sum parts of a stored log.
#
# A worker that dies is replaced and its part given out again, a bounded number of times.

# Parts given out beyond the one that is waited for, for each worker: results that wait their turn.
AHEAD = 4


class Processes:
    """A pool of worker processes.

    Args:
      workers: how many.
    """

    same_disk = True

    def __init__(self, workers: int) -> None:
        self.pool = Pool(workers)

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """Parts go to whoever is free; results come in order. Work that cannot travel is refused."""
        early: dict[int, Any] = {}
        following = 0
        try:
            for part, result in self.pool.run(
                OnPart(work), range(parts), ahead=AHEAD * self.pool.workers, retries=RETRIES
            ):
                early[part] = result
                while following in early:
                    yield opened(early.pop(following))
                    following += 1
        except WorkerDied as death:
            raise lost(death.number, f"exit code {death.exit_code}") from None

    def close(self) -> None:
        """End the workers."""
        self.pool.close()


# --------------------------------------------------------------------------------------------------------
# Ray: parts of a stored log as tasks of a cluster, on one machine or many.


@contextmanager
def _kept_handler() -> Iterator[None]:
    """Who handled SIGTERM before handles it afterwards: Ray takes it for itself."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


class Ray:
    """Tasks of a Ray cluster: a running one, or one that is started on this machine.

    Args:
      address: of a running cluster, such as "auto" or "ray://host:10001"; None starts a local one.
      workers: processors of a local cluster; None takes all.
    """

    same_disk = False  # of many machines

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self.address, self.workers = address, workers
        self._started = False

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """By tasks that carry part numbers; a killed worker costs a retry."""
        ray = self._connected()
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(attempt)
        shared = ray.put(work)
        ahead = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        running = deque(task.remote(shared, part) for part in range(min(ahead, parts)))
        for part in range(parts):
            try:
                result = ray.get(running.popleft())
            except (ray.exceptions.RayError, ray.exceptions.RayTaskError) as error:
                raise lost(part, str(error).splitlines()[0]) from None
            if part + ahead < parts:
                running.append(task.remote(shared, part + ahead))
            yield opened(result)

    def _connected(self) -> Any:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise MissingExtra("Work on a Ray cluster", "ray") from None
        if not ray.is_initialized():
            local = {} if self.address else {"num_cpus": self.workers, "include_dashboard": False}
            try:
                with _kept_handler():
                    ray.init(
                        address=self.address or "local", log_to_driver=False, logging_level="ERROR", **local
                    )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise OptionError(
                    f"No Ray cluster answers at {self.address!r}: {str(error).splitlines()[0]}",
                    fix="Check the address with `ray status`, or leave it out to start a local cluster.",
                ) from None
            self._started = True
        return ray

    def close(self) -> None:
        """Stop the cluster, or leave it, if it was entered here."""
        if self._started:
            self._connected().shutdown()
            self._started = False
