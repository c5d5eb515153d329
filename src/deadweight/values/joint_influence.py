"""The influences of many models, or of many folds, on the episodes of a block, in one walk along it.

Each is a sum of two look-ups a step (`model_influence`). Side by side in one table they cost little more than
one of them. An episode moves the models of all folds but its own, so the tables of those are added up before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from deadweight.sums import kernel
from deadweight.sums.blocks import Block
from deadweight.sums.lanes import aligned_zeros
from deadweight.typing import FloatArray, IntArray
from deadweight.values.layout import MOST_CELLS
from deadweight.values.model_influence import ModelInfluence

# Tables of more numbers than this, 64 MiB, are not worth having.
MOST_NUMBERS = 1 << 23
# A table of all successors of all pairs may have so many rows for each that has been seen.
DENSE = 1.5
# Of a pack of columns, in `_model.c` as well: a line of cache.
MOST_COLUMNS = 8


class JointInfluence:
    """Sums of influences of models, several at a time.

    Args:
      each: for each sum, the influences that it is made of; all have the same states and actions, and all
        have folds or none has.
    """

    def __init__(self, each: Sequence[Sequence[ModelInfluence]]) -> None:
        self.each = tuple(map(tuple, each))
        first = self.each[0][0]
        self.folds = first.folds
        self.n_states, self.n_actions = first.layout.n_states, first.layout.n_actions

    def __call__(self, block: Block) -> FloatArray:
        """(k, m) the sums for the episodes of a block."""
        found = self._compiled(block)
        if found is not None:
            return found
        return np.stack([sum((one(block) for one in some), np.zeros(block.n)) for some in self.each])

    def _compiled(self, block: Block) -> FloatArray | None:
        log = block.log
        columns = (log.states, log.actions, log.rewards, log.offsets, block.rows)
        if (
            kernel.KERNEL is None
            or log.discounting is not None
            or not all(map(kernel.readable, (*columns, *log.ends)))
            or self._tables is None
        ):
            return None
        fold_of = None if self.folds is None else self.folds(block)
        count = 1 if self.folds is None else self.folds.count
        found = np.empty((block.n, len(self.each)))
        sizes = (count, self.n_states, self.n_actions, len(self.each))
        done = kernel.KERNEL.model_influences(
            columns, log.ends, fold_of, *sizes, self._tables, found.reshape(-1)
        )
        return found.T if done else None

    @cached_property
    def _tables(self) -> tuple[IntArray | None, FloatArray, FloatArray] | None:
        """Places of pairs and successors, slopes and levels; None where they would be too large.

        Where most successors of most pairs have been seen, each has its own place, which nobody looks up.
        """
        pairs, width = self.n_states * self.n_actions, self.n_states + 2
        if pairs * width > MOST_CELLS:
            return None
        layouts = dict.fromkeys(one.layout for some in self.each for one in some)
        logged = np.zeros(pairs * (self.n_states + 1), dtype=bool)
        for layout in layouts:
            logged[layout.keys] = True
        union: IntArray = np.flatnonzero(logged)
        dense = pairs * width <= DENSE * len(union)
        places, folds = len(union) + pairs + 1, 1 if self.folds is None else self.folds.count
        pair, after = np.divmod(union, self.n_states + 1)
        known, unknown = np.arange(len(union)), len(union) + np.arange(pairs)
        if dense:
            places, known, unknown = pairs * width, pair * width + after, np.arange(1, pairs + 1) * width - 1
        if folds * places * len(self.each) > MOST_NUMBERS:
            return None
        number = np.cumsum(logged) - 1
        place_in = {layout: known[number[layout.keys]] for layout in layouts}
        slope = np.zeros((folds, pairs, len(self.each)))
        level = np.zeros((folds, places, len(self.each)))
        for column, some in enumerate(self.each):
            for one in some:
                seen = [fold for fold in range(folds) if self.folds is None or fold != one.fold]
                at, size = place_in[one.layout], len(one.layout.keys)
                slope[seen, :, column] += one.slope
                for fold in seen:
                    level[fold, at, column] += one.level[:size]
                    level[fold, unknown, column] += one.level[size : size + pairs]
        if dense:
            return None, _in_packs(slope), _in_packs(level)
        cells = np.full((pairs, width), places - 1, dtype=np.int64)
        cells[pair, after] = known
        cells[:, -1] = unknown
        return cells.reshape(-1), _in_packs(slope), _in_packs(level)


def _in_packs(table: FloatArray) -> FloatArray:
    """The columns of (folds, rows, columns) as the kernel takes them: eight at a time, then four, two, one.

    Each pack is a table of its own, which fits in a nearer cache than all of them would.
    """
    packed, first = aligned_zeros(table.size), 0
    while first < table.shape[2]:
        size = min(MOST_COLUMNS, 1 << ((table.shape[2] - first).bit_length() - 1))
        pack = table[..., first : first + size]
        packed[table[..., :first].size :][: pack.size] = pack.reshape(-1)
        first += size
    return packed
