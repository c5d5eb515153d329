r"""The fitted model: counts of a log turned into a `TabularMDP`.

.. math:: \hat P(s'|s,a) = n(s,a,s') / n(s,a), \qquad \hat r(s,a) = \text{mean reward}, \qquad
   \hat d_0 = \text{first states}

pooled over time. The last step of a terminated episode leads to termination; that of a truncated one to its
logged successor, or nowhere when none was logged (its reward counts all the same).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.basics.memory import require, require_table
from deadweight.errors import OptionError
from deadweight.log.interface import require_log
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.typing import BoolArray, FloatArray, IntArray

UNSEEN = ("pool", "terminate", "mean")
SMOOTHING = 1e-9
COUNT_CELLS = 1 << 20
# Bytes of an entry of a sparse matrix while it is added up: value, place, and both once more.
ENTRY = 32


@dataclass(frozen=True, eq=False)
class Counts:
    """What a model is made of; merges."""

    n_states: int
    n_actions: int
    transitions: KeyedSums  # key (s * A + a) * (S + 1) + s', s' = S for termination: number
    pairs: KeyedSums  # key s * A + a: number, sum of rewards
    starts: KeyedSums  # key s: number of episodes

    def merge(self, other: Counts) -> Counts:
        """Counts of both."""
        return Counts(
            self.n_states,
            self.n_actions,
            self.transitions.merge(other.transitions),
            self.pairs.merge(other.pairs),
            self.starts.merge(other.starts),
        )

    def pooled(self) -> Counts:
        """The same with all actions as one: the chain that the log itself has followed."""
        rows, after = np.divmod(self.transitions.keys, self.n_states + 1)
        moves = rows // self.n_actions * (self.n_states + 1) + after
        return Counts(
            self.n_states,
            1,
            KeyedSums.of(moves, *self.transitions.sums),
            KeyedSums.of(self.pairs.keys // self.n_actions, *self.pairs.sums),
            self.starts,
        )

    def visits(self) -> FloatArray:
        """(S, A) number of visits of each pair."""
        return self._table(0)

    def visits_by(self, axis: str) -> FloatArray:
        """(S,) visits of each "state", or (A,) of each "action", without the table of pairs."""
        states, actions = np.divmod(self.pairs.keys, self.n_actions)
        index, size = (states, self.n_states) if axis == "state" else (actions, self.n_actions)
        return sums_by(index, self.pairs.sums[0], size)

    def rewards(self) -> FloatArray:
        """(S, A) sum of rewards of each pair."""
        return self._table(1)

    def _table(self, column: int) -> FloatArray:
        require_table(self.n_states, self.n_actions, "A table of the counts")
        table = np.zeros(self.n_states * self.n_actions)
        table[self.pairs.keys] = self.pairs.sums[column]
        by_state: FloatArray = table.reshape(self.n_states, self.n_actions)
        return by_state

    def start_distribution(self) -> FloatArray:
        """(S,) share of episodes that begin in each state."""
        d0: FloatArray = np.zeros(self.n_states)
        d0[self.starts.keys] = self.starts.sums[0] / self.starts.sums[0].sum()
        return d0


def count(parts: Sequence[Trajectories], n_states: int, n_actions: int, workers: int = 1) -> Counts:
    """Counts of a log, or of its parts."""
    counts: Counts = reduce_log(parts, partial(_count_block, n_states, n_actions), workers, COUNT_CELLS)[0]
    return counts


def _count_block(n_states: int, n_actions: int, block: Block) -> list[Counts]:
    return [count_rows(n_states, n_actions, block)]


def count_rows(n_states: int, n_actions: int, block: Block, rows: BoolArray | None = None) -> Counts:
    """Counts of the episodes of a block, or of some of them."""
    pair = block.pairs(n_actions)
    successor = successors(block, n_states)
    known = successor >= 0
    alive = block.alive
    if rows is not None:
        known = known & rows[:, None]
        alive = np.broadcast_to(rows[:, None], pair.shape) if alive is None else alive & rows[:, None]
    steps, rewards = (
        (pair.ravel(), block.rewards.ravel()) if alive is None else (pair[alive], block.rewards[alive])
    )
    starts = block.states[:, 0]
    return Counts(
        n_states,
        n_actions,
        KeyedSums.of(pair[known] * (n_states + 1) + successor[known], 1.0),
        KeyedSums.of(steps, 1.0, rewards),
        KeyedSums.of(starts if rows is None else starts[rows], 1.0),
    )


def successors(block: Block, end: int) -> IntArray:
    """(m, H) where each step leads: a state, `end` for termination, -1 for unknown and on padding."""
    ended = block.last & block.log.terminated[block.rows][:, None]
    return np.where(ended, end, block.next_states)


def fit_mdp(
    log: Trajectories, n_states: int | None = None, n_actions: int | None = None, unseen: str = "pool"
) -> TabularMDP:
    """The model of a log, with the longest episode as its horizon.

    Args:
      log: the log.
      n_states, n_actions: sizes, when the problem is larger than what was visited.
      unseen: what an unseen (s, a) does. "pool": like the average logged action in s; a state never visited
        ends with reward 0. "terminate": it ends with reward 0. "mean": it earns the mean over the seen pairs,
        and 1e-9 is added to the count of every successor of every pair.

    Example:
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0), (1, 0, 2.0)], [(0, 1, 0.0)]])
      >>> fit_mdp(log).r
      array([[1., 0.],
             [2., 2.]])
    """
    require_log(log)
    check_unseen(unseen)
    sizes = (max(n_states or 0, log.n_states), max(n_actions or 0, log.n_actions))
    return mdp_from_counts(count([log], *sizes), log.horizon, unseen)


def check_unseen(unseen: str) -> None:
    """Refuse a rule that does not exist."""
    if unseen not in UNSEEN:
        raise OptionError(f"unseen must be one of {', '.join(UNSEEN)}; found {unseen!r}.")


def mdp_from_counts(counts: Counts, horizon: int, unseen: str = "pool") -> TabularMDP:
    """The model that these counts make."""
    from scipy import sparse

    n_states, n_actions = counts.n_states, counts.n_actions
    require_table(n_states, n_actions, "A model of the log: a table")
    shape = (n_states * n_actions, n_states + 1)
    rows, columns = np.divmod(counts.transitions.keys, n_states + 1)
    successor_counts: Any = sparse.csr_array((counts.transitions.sums[0], (rows, columns)), shape=shape)
    visits, reward_sums = counts.visits(), counts.rewards()
    r = np.divide(reward_sums, visits, out=np.zeros_like(visits), where=visits > 0)
    spread: FloatArray | None = None
    totals = successor_counts.sum(axis=1)
    if unseen == "mean":
        r = np.where(visits > 0, r, r[visits > 0].mean())
        totals = totals + (n_states + 1) * SMOOTHING
        spread = SMOOTHING / totals
    else:
        if unseen == "pool":
            state_visits = visits.sum(axis=1, keepdims=True)
            pooled = reward_sums.sum(axis=1, keepdims=True) / np.maximum(state_visits, 1)
            r = np.where(visits > 0, r, pooled)
            successor_counts = _pool_unseen(successor_counts, totals == 0, n_actions)
        successor_counts = _end_rest(successor_counts)
        totals = successor_counts.sum(axis=1)
    P = sparse.csr_array(sparse.diags_array(1.0 / totals) @ successor_counts)
    P.sort_indices()
    return TabularMDP._trusted(P, r, counts.start_distribution(), horizon, spread=spread)


def _pool_unseen(successor_counts: Any, unseen: BoolArray, n_actions: int) -> Any:
    """Counts in which an unseen pair has those of its state, all actions together."""
    from scipy import sparse

    pairs = successor_counts.shape[0]
    by_state = sparse.csr_array(
        (np.ones(pairs), (np.arange(pairs) // n_actions, np.arange(pairs))), shape=(pairs // n_actions, pairs)
    )
    pooled = sparse.csr_array(by_state @ successor_counts)
    rows = np.flatnonzero(unseen)
    entries = float(np.diff(pooled.indptr)[rows // n_actions].sum()) + successor_counts.nnz
    require(
        ENTRY * entries,
        f"A model in which {rows.size:,} pairs never seen behave like their states",
        'Use fewer, coarser states and actions, or unseen="terminate".',
    )
    shape = (pairs, pairs // n_actions)
    place = sparse.csr_array((np.ones(rows.size), (rows, rows // n_actions)), shape=shape)
    return sparse.csr_array(successor_counts + place @ pooled)


def _end_rest(successor_counts: Any) -> Any:
    """Counts in which a pair without any successor ends."""
    from scipy import sparse

    pairs, columns = successor_counts.shape
    rest = np.flatnonzero(np.diff(successor_counts.indptr) == 0)
    ends = sparse.csr_array((np.ones(rest.size), (rest, np.full(rest.size, columns - 1))), (pairs, columns))
    return sparse.csr_array(successor_counts + ends)
