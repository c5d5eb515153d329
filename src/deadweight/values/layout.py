"""Layout: which entry of a table by transition a logged step is.

Entries are the distinct logged (s, a, s'); after them come the pairs, for steps of which nobody knows where
they led, and one entry for padding.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.sums.blocks import Block
from deadweight.typing import FloatArray, IntArray
from deadweight.values.model import Counts, successors

# With no more cells than this, (s, a, s') is looked up in a table of all of them; else among the sorted keys.
MOST_CELLS = 1 << 22


class Layout:
    """Which derivatives concern which logged transition.

    Besides the logged (s, a, s') there are, for the unseen actions of s that borrow its pooled transitions,
    the distinct logged (s, s').
    """

    def __init__(self, counts: Counts, unseen: str) -> None:
        n_states, n_actions = counts.n_states, counts.n_actions
        self.keys, self.number = counts.transitions.keys, counts.transitions.sums[0]
        self.discount = counts.transitions.sums[-1]  # the number itself, unless transitions have discounts
        self.n_states, self.n_actions = n_states, n_actions
        self.pair, self.after = np.divmod(self.keys, n_states + 1)
        self.visits = counts.visits()
        self.moves = sums_by(self.pair, self.number, n_states * n_actions).reshape(n_states, n_actions)
        state = self.pair // n_actions
        pooled, self.pooled = _distinct(state * (n_states + 1) + self.after, n_states * (n_states + 1))
        self.pooled_state, self.pooled_after = np.divmod(pooled, n_states + 1)
        pool = unseen == "pool"
        self.borrows_reward = (self.visits == 0) & pool
        self.borrows_moves = (self.moves == 0) & pool

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.keys) + self.n_states * self.n_actions + 1

    def lent(self, f: FloatArray) -> FloatArray:
        """(..., S) what the unseen actions of each state have together, of (..., S * A)."""
        cells = f.reshape(*f.shape[:-1], *self.moves.shape)
        by_state: FloatArray = np.where(self.borrows_moves, cells, 0.0).sum(axis=-1)
        return by_state

    @cached_property
    def cells(self) -> IntArray | None:
        """(S * A * (S + 2),) the entry of each pair and successor: a state, the end, nobody knows.

        None where there would be too many. A transition that was not seen is one of another fold, which
        nobody asks for.
        """
        pairs, width = self.n_states * self.n_actions, self.n_states + 2
        if pairs * width > MOST_CELLS:
            return None
        table = np.full((pairs, width), self.size - 1, dtype=np.int64)
        table[self.pair, self.after] = np.arange(len(self.keys))
        table[:, -1] = len(self.keys) + np.arange(pairs)
        return table.reshape(-1)

    def on(self, block: Block) -> IntArray:
        """(m, H) the entry of each step; looked up once."""
        return block.once(self, self._place)

    def _place(self, block: Block) -> IntArray:
        pairs, after = pairs_of(block, self.n_actions), successors(block, self.n_states)
        if self.cells is not None:
            place: IntArray = block.look_up(
                self.cells, pairs * (self.n_states + 2) + np.where(after < 0, self.n_states + 1, after)
            )
        else:
            at = np.searchsorted(self.keys, pairs * (self.n_states + 1) + np.maximum(after, 0))
            place = np.where(after >= 0, np.minimum(at, len(self.keys) - 1), len(self.keys) + pairs)
        if block.alive is not None:
            place[~block.alive] = self.size - 1
        return place


def _distinct(keys: IntArray, cells: int) -> tuple[IntArray, IntArray]:
    """The distinct keys, sorted, and the place of each key among them; by a table where that is small."""
    if cells > MOST_CELLS:
        return np.unique(keys, return_inverse=True)
    seen = np.zeros(cells, dtype=bool)
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]


def pairs_of(block: Block, n_actions: int) -> IntArray:
    """(m, H) the pair of each step; with a single action all actions count as one."""
    return block.pairs(n_actions) if n_actions > 1 else block.states
