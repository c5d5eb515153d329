"""When rewards come: at the end of episodes of different lengths, or on the way.

A reward that comes last makes per-decision weights poor: each step has a normaliser of its own, and only the
episodes that end there have a reward in it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from deadweight.sums.blocks import Block

# Steps of an episode of which the last two are its end.
LONG = 4


@dataclass(frozen=True, eq=False)
class Timing:
    """When rewards come, and how long episodes are; merges.

    Attributes:
      early: some reward comes before the last step.
      earlier: some comes before the last but one, or an episode is paid twice.
      some: there is any.
      shortest, longest: episodes.
    """

    early: bool
    earlier: bool
    some: bool
    shortest: int
    longest: int

    def merge(self, other: Timing) -> Timing:
        """Of the episodes of both."""
        return Timing(
            self.early or other.early,
            self.earlier or other.earlier,
            self.some or other.some,
            min(self.shortest, other.shortest),
            max(self.longest, other.longest),
        )

    @property
    def is_late(self) -> bool:
        """Whether all reward comes at the end of episodes of different lengths.

        The end is the last step, or, in longer episodes, the one before: many logs have a last row for the
        state in which an episode has ended, in which nothing is earned any more.
        """
        late = not self.early or (self.longest >= LONG and not self.earlier)
        return self.some and late and self.shortest < self.longest


class RewardTiming:
    """The sums behind `Timing`."""

    key: Hashable = "reward-timing"

    def summarise(self, block: Block) -> Timing:
        """Of a block."""
        rewards, ends = block.log.rewards, block.log.offsets[block.rows + 1]
        first, last = int(block.log.offsets[block.rows[0]]), int(ends[-1])
        if last - first == block.lengths.sum():  # episodes that lie one after the other
            paid = int(np.count_nonzero(rewards[first:last]))
        else:
            paid = int(np.count_nonzero(block.rewards))  # padding has reward 0
        at_last = rewards[ends - 1] != 0.0
        before = (block.lengths > 1) & (rewards[np.maximum(ends - 2, 0)] != 0.0)
        return Timing(
            early=paid > int(at_last.sum()),
            earlier=paid > int((at_last ^ before).sum()),  # less is counted where an episode has both
            some=paid > 0,
            shortest=int(block.lengths.min()),
            longest=int(block.lengths.max()),
        )
