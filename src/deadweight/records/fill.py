"""Make the records that stores do not hold yet, side by side, and keep each as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deadweight.records.lines import Key, Record
from deadweight.records.pool import completed
from deadweight.records.store import Store


@dataclass(frozen=True)
class Job:
    """A record that is wanted: where it belongs, and the arguments of the function that makes it."""

    store: Store
    key: Key
    arguments: tuple[Any, ...]

    @property
    def done(self) -> bool:
        """Whether the record is there."""
        return self.key in self.store


def fill(
    jobs: Iterable[Job], make: Callable[..., Record], workers: int, apart: bool = False
) -> Iterator[Job]:
    """The jobs that were missing, each when its record is in its store.

    Jobs are looked up again just before they are given out: what another process has finished by then is not
    made twice. Only this process writes.

    Args:
      jobs: all that is wanted; those that are done are passed over.
      make: a named function of a job's arguments.
      workers: processes; one works in this process.
      apart: whether a single worker is a process of its own as well (see `completed`).
    """
    missing = [job for job in jobs if not job.done]
    waiting = (job for job in missing if not job.done)
    calls = ((job, job.arguments) for job in waiting)
    made = set()
    for job, record in completed(make, calls, min(workers, len(missing)), apart):
        job.store.put(job.key, record)
        made.add(id(job))
        yield job
    yield from (job for job in missing if id(job) not in made)
