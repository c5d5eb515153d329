"""What an executor is, and the simplest one: threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from deadweight.basics.threads import processors

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
