"""What a worker does with a part of a log, in a process or on a cluster, and what if a part is given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deadweight.basics.travelling import attempted
from deadweight.errors import EstimationError
from deadweight.sums.executors.executor import Work

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
