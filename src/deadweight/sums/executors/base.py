"""What an executor is, and the simplest one: this process, with the next part on its way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol


class Work(Protocol):
    """What is done with each part; has to be of named functions and classes, so that it can travel."""

    def load(self, part: int) -> Any:
        """Fetch a part."""
        ...

    def add_up(self, loaded: Any) -> Any:
        """The result of a part that has been fetched."""
        ...


class Executor(Protocol):
    """One way to do work."""

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """The results of parts 0, 1, ..., parts - 1, in this order."""
        ...

    def close(self) -> None:
        """Let go of workers; they come back when there is work again."""
        ...


class Serial:
    """One part after the other, the next one being fetched meanwhile: two are held at a time."""

    def map(self, work: Work, parts: int) -> Iterator[Any]:
        """In this process."""
        with steady_memory(), ThreadPoolExecutor(1) as reader:
            following = reader.submit(work.load, 0)
            for part in range(parts):
                loaded = following.result()
                if part + 1 < parts:
                    following = reader.submit(work.load, part + 1)
                yield work.add_up(loaded)

    def close(self) -> None:
        """Nothing is held."""


@contextmanager
def steady_memory() -> Iterator[None]:
    """Let Arrow take its memory from the C library.

    What one thread decodes another lets go. Arrow's own allocator gives such memory back to the system and
    fetches it again, page by page, for every part; the C library keeps it (see `sums.reduction`), which took
    about a quarter off the processor time of a pass and left its peak memory as it was.
    """
    import pyarrow as pa

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)
