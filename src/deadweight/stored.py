"""Stored logs: parts that are fetched when they are needed, and a census that is taken on the way.

To everything that folds, a stored log is a sequence of `Trajectories` with common labels, of which a few are
in memory at a time. How many episodes there are, and how long, is learnt in the first pass over the parts,
whatever that pass was for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.executors import Executor
from deadweight.trajectories import Trajectories
from deadweight.typing import IntArray, Labels


@dataclass(frozen=True, eq=False)
class Census:
    """Who is in a log; merges.

    Attributes:
      sizes: episodes of each part.
      horizon: steps of the longest episode.
      terminated: episodes that ended by termination.
      top: largest index of a state and of an action that occurs.
      cut_early: episodes that were cut elsewhere than at the time limit.
    """

    sizes: tuple[int, ...]
    horizon: int
    terminated: int
    top: tuple[int, int]
    cut_early: int = 0

    @classmethod
    def of(cls, pieces: Sequence[Trajectories]) -> Census:
        """Of the pieces of one part."""
        return cls(
            (sum(log.n_episodes for log in pieces),),
            max(log.horizon for log in pieces),
            sum(int(np.count_nonzero(log.terminated)) for log in pieces),
            (
                max(max(int(log.states.max()), int(log._last_successor.max())) for log in pieces),
                max(int(log.actions.max()) for log in pieces),
            ),
            sum(log.n_cut_early for log in pieces),
        )

    def merge(self, other: Census) -> Census:
        """Both together; the parts of `other` come after."""
        return Census(
            self.sizes + other.sizes,
            max(self.horizon, other.horizon),
            self.terminated + other.terminated,
            (max(self.top[0], other.top[0]), max(self.top[1], other.top[1])),
            self.cut_early + other.cut_early,
        )

    @property
    def n(self) -> int:
        """Episodes."""
        return sum(self.sizes)


class Stored(Sequence[Trajectories]):
    """A log in parts that are not in memory.

    Attributes:
      executor: who fetches and sums the parts.
      state_labels, action_labels: of all parts.
      n_steps: rows of all parts.
    """

    executor: Executor
    state_labels: Labels
    action_labels: Labels
    n_steps: int

    @property
    @abstractmethod
    def time_limit(self) -> int | None:
        """Steps after which episodes were cut; see `deadweight.ends`. To find out may take a pass."""

    @property
    @abstractmethod
    def known_limit(self) -> int | None:
        """The same as far as it is known; None where nobody has asked."""

    @abstractmethod
    def fetch(self, part: int) -> Any:
        """Read a part, and no more than that: it is done for the next part while this one is summed."""

    @abstractmethod
    def pieces(self, part: int, fetched: Any) -> list[Trajectories]:
        """What was fetched as logs of some episodes each, in order, checked: whatever takes fewest copies."""

    @property
    @abstractmethod
    def known(self) -> Census | None:
        """The census, if it has been taken."""

    @property
    @abstractmethod
    def census(self) -> Census:
        """The census; takes a pass over the parts if there has been none."""

    @abstractmethod
    def viewed(
        self, check: Callable[[Trajectories], None] | None = None, without: Sequence[str] = ()
    ) -> Stored:
        """The same log, with a check of every part when it is first fetched, and without some columns."""

    @abstractmethod
    def specimen(self, states: IntArray, actions: IntArray) -> Trajectories:
        """A tiny log with the labels and columns of this one, which visits these states and actions."""

    @abstractmethod
    def passed(self, census: Census | None) -> None:
        """All parts have been fetched once without an error; `census` is None if it was known before."""

    @abstractmethod
    def progress(self, done: int) -> None:
        """So many parts of the current pass are done."""

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.state_labels)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.action_labels)
