"""Cross-fitting: folds of episodes, and models that have not seen one of them.

An episode's fold follows from its number in the whole log, so that folds do not depend on how the log is cut
into blocks and parts. One pass counts all folds; the model that has not seen a fold is that of the others'
counts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Folds
from deadweight.sums.reduction import reduce_log
from deadweight.values.model import COUNT_CELLS, Counts, count_rows


def counts_without(
    parts: Sequence[Trajectories], folds: Folds, n_states: int, n_actions: int, workers: int = 1
) -> list[Counts]:
    """For each fold the counts of all episodes but its own."""
    summarise = partial(_count_folds, folds, n_states, n_actions)
    own: list[Counts] = reduce_log(parts, summarise, workers, COUNT_CELLS)
    return [
        reduce(Counts.merge, (counts for k, counts in enumerate(own) if k != left_out))
        for left_out in range(folds.count)
    ]


def _count_folds(folds: Folds, n_states: int, n_actions: int, block: Block) -> list[Counts]:
    fold_of = folds(block)
    return [count_rows(n_states, n_actions, block, fold_of == k) for k in range(folds.count)]
