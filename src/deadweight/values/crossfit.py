"""Cross-fitting: folds of episodes, and models that have not seen one of them.

An episode's fold follows from its number in the whole log, so that folds do not depend on how the log is cut
into blocks and parts. One pass counts all folds; the model that has not seen a fold is that of the others'
counts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.typing import IntArray
from deadweight.values.model import COUNT_CELLS, Counts, count_by_fold

FOLDS = 5  # where nobody says how many


@dataclass(frozen=True, eq=False)
class FoldCounts:
    """The counts of each fold of some episodes; merges.

    How many episodes come before a part is known only after the pass, so each part counts as if it were the
    first. Put behind others, its folds are turned by their number.

    Attributes:
      part: the part of the log that these episodes come from, or the last of several.
      n: number of episodes.
      own: the counts of each fold.
    """

    part: int
    n: int
    own: tuple[Counts, ...]

    def merge(self, other: FoldCounts) -> FoldCounts:
        """Both together; the parts of `other` come after, unless it is more of the same one."""
        turn = 0 if other.part == self.part else self.n
        own = tuple(
            counts.merge(other.own[(fold - turn) % len(self.own)]) for fold, counts in enumerate(self.own)
        )
        return FoldCounts(other.part, self.n + other.n, own)


def counts_by_fold(
    parts: Sequence[Trajectories], folds: int, n_states: int, n_actions: int, workers: int = 1
) -> FoldCounts:
    """The counts of each of so many folds, in one pass that need not know how many episodes there are."""
    summarise = partial(_count_folds, folds, n_states, n_actions)
    counts: FoldCounts = reduce_log(parts, summarise, workers, COUNT_CELLS, by_ends=True)[0]
    return counts


def without_each(own: Sequence[Counts]) -> list[Counts]:
    """For each fold the counts of all episodes but its own."""
    return [
        reduce(Counts.merge, (counts for k, counts in enumerate(own) if k != left_out))
        for left_out in range(len(own))
    ]


def together(own: Sequence[Counts]) -> Counts:
    """The counts of all folds."""
    return reduce(Counts.merge, own)


def _count_folds(folds: int, n_states: int, n_actions: int, block: Block) -> list[FoldCounts]:
    fold_of: IntArray = (block.first + block.rows) % folds
    return [FoldCounts(block.part, block.n, tuple(count_by_fold(n_states, n_actions, block, fold_of, folds)))]
