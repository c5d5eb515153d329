"""Census: how many episodes there are in a log, how long they are and how they end; merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from deadweight.log.checks import Cuts
from deadweight.log.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Census:
    """Who is in a log; merges.

    Attributes:
      sizes: episodes of each part.
      horizon: steps of the longest episode.
      terminated: episodes that ended by termination.
      top: largest index of a state and of an action that occurs; (-1, -1) if nobody looked.
      cut_early: episodes that were cut elsewhere than at the time limit.
      cuts: where cut episodes stop.
    """

    sizes: tuple[int, ...]
    horizon: int
    terminated: int
    top: tuple[int, int]
    cut_early: int
    cuts: Cuts

    @classmethod
    def of(cls, pieces: Sequence[Trajectories], look: bool = False) -> Census:
        """Of the pieces of one part. To `look` at all codes costs as much as a sum; logs in parts need it."""
        return cls(
            (sum(log.n_episodes for log in pieces),),
            max(log.horizon for log in pieces),
            sum(int(np.count_nonzero(log.terminated)) for log in pieces),
            _largest_codes(pieces) if look else (-1, -1),
            sum(log.n_cut_early for log in pieces),
            reduce(Cuts.merge, [log.cuts for log in pieces]),
        )

    def merge(self, other: Census) -> Census:
        """Both together; the parts of `other` come after."""
        return Census(
            self.sizes + other.sizes,
            max(self.horizon, other.horizon),
            self.terminated + other.terminated,
            (max(self.top[0], other.top[0]), max(self.top[1], other.top[1])),
            self.cut_early + other.cut_early,
            self.cuts.merge(other.cuts),
        )

    @property
    def n(self) -> int:
        """Episodes."""
        return sum(self.sizes)


def _largest_codes(pieces: Sequence[Trajectories]) -> tuple[int, int]:
    return (
        max(max(int(log.states.max()), int(log._last_successor.max())) for log in pieces),
        max(int(log.actions.max()) for log in pieces),
    )
