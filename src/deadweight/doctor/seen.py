"""Seen: the pairs of state and action that a log has, and how often, without a table of all pairs.

With continuous states or actions nearly every step is a pair of its own: states x actions would be many
gigabytes, of which the log fills one cell a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.typing import FloatArray, IntArray

# Counting in a table is faster than sorting as long as the table is not much longer than the log.
SMALL_TABLE = 1 << 20


@dataclass(frozen=True, eq=False)
class Seen:
    """Distinct pairs in the order of their states, then actions.

    Attributes:
      n_states, n_actions: sizes of the log.
      state, action: (pairs,) their indices.
      count: (pairs,) visits of each.
      of_step: (steps,) the pair of each step.
    """

    n_states: int
    n_actions: int
    state: IntArray
    action: IntArray
    count: IntArray
    of_step: IntArray

    @classmethod
    def of(cls, states: IntArray, actions: IntArray, n_states: int, n_actions: int) -> Seen:
        """The pairs of these steps."""
        cells, size = states * n_actions + actions, n_states * n_actions
        if size <= max(len(cells), SMALL_TABLE):
            table = np.bincount(cells, minlength=size)
            keys = np.flatnonzero(table)
            place = np.zeros(size, dtype=np.int64)
            place[keys] = np.arange(len(keys))
            count, of_step = table[keys], place[cells]
        else:
            keys, of_step, count = np.unique(cells, return_inverse=True, return_counts=True)
        state, action = np.divmod(keys, n_actions)
        return cls(n_states, n_actions, state, action, count, of_step)

    @cached_property
    def visits(self) -> IntArray:
        """(S,) visits of each state."""
        return np.bincount(self.state[self.of_step], minlength=self.n_states)

    @cached_property
    def taken(self) -> IntArray:
        """(A,) how often each action was taken."""
        return np.bincount(self.action[self.of_step], minlength=self.n_actions)

    @cached_property
    def actions_seen(self) -> IntArray:
        """(S,) different actions taken in each state."""
        return np.bincount(self.state, minlength=self.n_states)

    @cached_property
    def states_seen(self) -> IntArray:
        """(A,) different states in which each action was taken."""
        return np.bincount(self.action, minlength=self.n_actions)

    def sums(self, values: FloatArray) -> FloatArray:
        """(pairs,) sum of a column of the log over the visits of each pair."""
        return sums_by(self.of_step, values, len(self.count))

    def sums_of_states(self, values: FloatArray) -> FloatArray:
        """(S,) sum of a number a pair over the pairs of each state."""
        return sums_by(self.state, values, self.n_states)
