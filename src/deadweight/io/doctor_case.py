"""Case: what a check of the doctor looks at, each part made once and only if a check asks for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.errors import PolicyError, TooLarge
from deadweight.io.read import limited
from deadweight.io.schema import show
from deadweight.io.table import LogTable
from deadweight.log.interface import in_memory
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.sums.ends import TimeLimit
from deadweight.sums.pairs import PolicyPair, pair_policies
from deadweight.tools.arithmetic import sums_by
from deadweight.typing import AnyArray, FloatArray, IntArray, Labels

# --------------------------------------------------------------------------------------------------------
# Seen: the pairs of state and action that a log has, and how often, without a table of all pairs.
#
# With continuous states or actions nearly every step is a pair of its own: states x actions would be many
# gigabytes, of which the log fills one cell a step.

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


# --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Case:
    """A table, and the policy to be evaluated if there is one."""

    table: LogTable
    target: TabularPolicy | None = None
    time_limit: TimeLimit = "infer"

    @cached_property
    def log(self) -> Trajectories:
        """The log; only for checks that run when the table has no error."""
        return limited(self.table.trajectories(), self.time_limit, self.table.says_ends, _say_nothing)

    @cached_property
    def returns(self) -> FloatArray:
        """(n,) sum of rewards of each episode."""
        return np.add.reduceat(self.log.rewards, self.log.offsets[:-1])

    @cached_property
    def seen(self) -> Seen:
        """The pairs of state and action that were logged."""
        return Seen.of(self.log.states, self.log.actions, self.log.n_states, self.log.n_actions)

    @cached_property
    def pair(self) -> PolicyPair | PolicyError | TooLarge | None:
        """The target in the log's order; the error where it does not fit; None without a target."""
        if self.target is None:
            return None
        # Only the target is looked at, so it does not matter whether there are propensities.
        labels = replace(in_memory(self.log).labels, logged=frozenset({"propensities"}))
        try:
            return pair_policies(labels, self.target, None)
        except (PolicyError, TooLarge) as error:
            return error

    @cached_property
    def ratios(self) -> FloatArray | None:
        """(steps,) pi_e / pi_b of the logged actions: from the columns, or target and counts."""
        log = self.log
        behaviour = log.propensities
        if behaviour is None and not log.has_states:
            return None
        if behaviour is None:
            behaviour = self.seen.count[self.seen.of_step] / self.seen.visits[log.states]
        if isinstance(self.pair, PolicyPair) and self.pair.pi_e is not None:
            return np.asarray(self.pair.pi_e[log.states, log.actions] / behaviour)
        return None if log.target_probs is None else log.target_probs / behaviour

    def rows(self, steps: AnyArray) -> IntArray:
        """The user's rows of these steps of the log (numbers or a mask)."""
        return np.sort(self.table.order[steps])

    def rows_of_episodes(self, episodes: AnyArray) -> IntArray:
        """The user's first row of each of these episodes (numbers or a mask)."""
        return self.rows(self.log.offsets[:-1][episodes])


def _say_nothing(assumption: str) -> None:
    """What was taken for granted is a finding of its own."""


def named(labels: Labels | list[Any], which: AnyArray, most: int = 3) -> str:
    """The first few of these labels, and how many more."""
    indices = np.flatnonzero(which) if which.dtype == bool else which
    text = ", ".join(show(labels[int(i)]) for i in indices[:most])
    return text + (f" and {len(indices) - most:,} more" if len(indices) > most else "")
