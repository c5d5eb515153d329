"""Ray: parts of a stored log as tasks of a cluster, on one machine or many."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from deadweight.basics.travelling import opened
from deadweight.errors import MissingExtra, OptionError
from deadweight.sums.executors.executor import Work
from deadweight.sums.executors.travel import RETRIES, attempt, lost


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
