"""Stored logs: parts that are fetched when they are needed, and a census that is taken on the way.

To everything that folds, a stored log is a sequence of `Trajectories` with common labels, of which a few are
in memory at a time. How many episodes there are, and how long, is learnt in the first pass over the parts,
whatever that pass was for.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from deadweight.log.census import Census
from deadweight.log.interface import Log
from deadweight.log.trajectories import Trajectories
from deadweight.sums.executors import Executor
from deadweight.typing import FloatArray


class Stored(Log):
    """A log in parts that are not in memory.

    Attributes:
      executor: who fetches and sums the parts.
    """

    executor: Executor
    has_rows = False

    @abstractmethod
    def fetch(self, part: int) -> Any:
        """Read a part, and no more than that: it is done for the next part while this one is summed."""

    @abstractmethod
    def pieces(self, part: int, fetched: Any) -> list[Trajectories]:
        """What was fetched as logs of some episodes each, in order, checked: whatever takes fewest copies.

        Before the time limit is known they are those of a log without one.
        """

    def settle_ends(self) -> None:
        """Find out whether a time limit cut episodes, which may take a pass, unless that is known."""
        if not self.knows_limit:
            _ = self.time_limit

    @abstractmethod
    def passed(self, census: Census | None) -> None:
        """All parts have been fetched once without an error; `census` is None if it was known before."""

    @abstractmethod
    def progress(self, done: int) -> None:
        """So many parts of the current pass are done."""

    def visits(self, size: int) -> FloatArray | None:
        """None: they take a pass."""
        return None
