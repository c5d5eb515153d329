"""Processes: workers on this machine that load and sum parts of a stored log.

A worker that dies is replaced and its part given out again, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deadweight.basics.travelling import opened
from deadweight.basics.worker_pool import Pool, WorkerDied
from deadweight.sums.executors.executor import Work
from deadweight.sums.executors.travel import RETRIES, OnPart, lost

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
