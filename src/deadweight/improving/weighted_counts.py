"""Counts of a log in which episodes have weights: many models from one pass.

A weight of 0 or 1 makes the model of some of the episodes, weights drawn from the exponential distribution
one of the Bayesian bootstrap (Rubin, 1981): how a model differs from one such draw to the next is how little
the log pins it down. The counts of an episode are the same for all of them, so a block is counted once and
multiplied by all its weights at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.log.interface import Log
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Folds
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.typing import AnyArray, FloatArray, IntArray
from deadweight.values.model import COUNT_CELLS, Counts, successors

# Keys below this are numbered by way of a table.
MOST_PLACES = 1 << 22


@dataclass(frozen=True, eq=False)
class WeightedCounts:
    """Counts under several sets of weights, one a column of each sum; merges."""

    n_states: int
    n_actions: int
    transitions: KeyedSums  # keys as in `Counts`; the discounts of all sets, if any, follow their numbers
    visits: KeyedSums
    rewards: KeyedSums
    starts: KeyedSums

    def merge(self, other: WeightedCounts) -> WeightedCounts:
        """Counts of both."""
        return WeightedCounts(
            self.n_states,
            self.n_actions,
            self.transitions.merge(other.transitions),
            self.visits.merge(other.visits),
            self.rewards.merge(other.rewards),
            self.starts.merge(other.starts),
        )

    def of(self, column: int) -> Counts:
        """The counts under one set of weights, without what has weight 0."""
        seen = self.visits.sums[column] > 0
        sets = len(self.visits.sums)
        moves = self.transitions.sums[column::sets]  # the number and, where there is one, the discount
        there = moves[0] > 0
        numbers = np.stack([self.visits.sums[column][seen], self.rewards.sums[column][seen]])
        return Counts(
            self.n_states,
            self.n_actions,
            KeyedSums(self.transitions.keys[there], moves[:, there]),
            KeyedSums(self.visits.keys[seen], numbers),
            _column(self.starts, column),
        )

    def stacked(self, columns: Sequence[int]) -> Counts:
        """The counts of several sets of weights as those of one problem that is as many problems at once.

        State s of the k-th is state k * S + s. No step leads from one into another, so that whatever is
        solved of the whole is solved of each.
        """
        size, ends = self.n_states, len(columns) * self.n_states
        parts = [self.of(column) for column in columns]
        moves, pairs, starts = [], [], []
        for place, part in enumerate(parts):
            rows, after = np.divmod(part.transitions.keys, size + 1)
            rows = rows + place * size * self.n_actions
            moves.append(rows * (ends + 1) + np.where(after == size, ends, after + place * size))
            pairs.append(part.pairs.keys + place * size * self.n_actions)
            starts.append(part.starts.keys + place * size)
        return Counts(
            ends,
            self.n_actions,
            _side_by_side(moves, [part.transitions for part in parts]),
            _side_by_side(pairs, [part.pairs for part in parts]),
            _side_by_side(starts, [part.starts for part in parts]),
        )


def _column(sums: KeyedSums, column: int) -> KeyedSums:
    there = sums.sums[column] > 0
    return KeyedSums(sums.keys[there], sums.sums[column : column + 1, there])


def _side_by_side(keys: list[IntArray], sums: list[KeyedSums]) -> KeyedSums:
    """Sums with keys that are larger from part to part."""
    return KeyedSums(np.concatenate(keys), np.concatenate([one.sums for one in sums], axis=1))


def count_weighted(
    parts: Log, weights: FloatArray, sizes: tuple[int, int], workers: int = 1
) -> WeightedCounts:
    """Counts of a log under each of the weights.

    Args:
      parts: the log.
      weights: (k, n) of each episode, in the order of the log.
      sizes: number of states and of actions.
      workers: see `reduce_log`.
    """
    place = Folds.of(1, parts.sizes)
    summarise = partial(_count_block, np.ascontiguousarray(weights.T), place.first, sizes)
    counts: WeightedCounts = reduce_log(parts, summarise, workers, COUNT_CELLS, by_ends=True)[0]
    return counts


def _count_block(
    weights: FloatArray, first: IntArray, sizes: tuple[int, int], block: Block
) -> list[WeightedCounts]:
    """Of a block; `weights` is (n, k)."""
    n_states, n_actions = sizes
    own = weights[first[block.part] + block.first + block.rows]  # (m, k)
    pair, after = block.pairs(n_actions), successors(block, n_states)
    known = after >= 0
    episode = np.broadcast_to(np.arange(block.n)[:, None], pair.shape)
    moves, movers = pair[known] * (n_states + 1) + after[known], episode[known]
    numbers = _weighted(moves, movers, 1.0, own)
    if block.during is not None:
        discounts = _weighted(moves, movers, block.during[known], own)
        numbers = KeyedSums(numbers.keys, np.concatenate([numbers.sums, discounts.sums]))
    steps, by = block.flat(pair), block.flat(episode)
    return [
        WeightedCounts(
            n_states,
            n_actions,
            numbers,
            _weighted(steps, by, 1.0, own),
            _weighted(steps, by, block.flat(block.paid), own),
            _weighted(block.states[:, 0], np.arange(block.n), 1.0, own),
        )
    ]


def _numbered(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct keys in order, and the number of each key among them; without a sort if keys are small."""
    largest = int(keys.max(initial=-1))
    if largest >= MOST_PLACES:
        return np.unique(keys, return_inverse=True)
    there = np.zeros(largest + 1, dtype=bool)
    there[keys] = True
    distinct = np.flatnonzero(there)
    place = np.empty(largest + 1, dtype=np.int64)
    place[distinct] = np.arange(distinct.size)
    return distinct, place[keys]


def _weighted(keys: IntArray, episodes: IntArray, values: AnyArray | float, weights: FloatArray) -> KeyedSums:
    """Sums by key of values times each of the weights of the episode."""
    from scipy import sparse

    distinct, index = _numbered(keys)
    shape = (distinct.size, weights.shape[0])
    entries: Any = np.broadcast_to(np.asarray(values, dtype=np.float64), keys.shape)
    table: Any = sparse.csr_array((entries, (index, episodes)), shape=shape)
    return KeyedSums(distinct, np.ascontiguousarray((table @ weights).T))
