"""Executors: who does the work on the parts of a stored log, one after the other or side by side.

An executor maps a piece of work over part numbers and yields the results in the order of the parts, whoever
was done first, so that the sums that are made of them have the same bits for any number of workers. The work
travels to a worker once; after that only part numbers do.
"""

from __future__ import annotations

from deadweight.errors import OptionError
from deadweight.sums.executors.executor import Executor, InProcess, Work

__all__ = ["Executor", "InProcess", "Work", "executor_for"]


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
        from deadweight.sums.executors.cluster import Ray

        return Ray(None if ray_address == "local" else ray_address, workers if workers > 1 else None)
    if workers == 1:
        return InProcess()
    from deadweight.sums.executors.processes import Processes

    return Processes(workers)
