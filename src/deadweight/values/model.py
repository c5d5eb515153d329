r"""The fitted model: counts of a log turned into a `TabularMDP`.

.. math:: \hat P(s'|s,a) = n(s,a,s') / n(s,a), \qquad \hat r(s,a) = \text{mean reward}, \qquad
   \hat d_0 = \text{first states}

pooled over time. The last step of a terminated episode leads to termination; that of a truncated one to its
logged successor, or nowhere when none was logged (its reward counts all the same). Everything is done on flat
arrays of the distinct (s, a, s'), sorted; a matrix is made once, at the end.

Cross-fitting: an episode's fold follows from its number in the whole log, so that folds do not depend on how
the log is cut into blocks and parts. One pass counts all folds; the model that has not seen a fold is that of
the others' counts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.errors import OptionError
from deadweight.log.columns import require_labels
from deadweight.log.interface import require_log
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP
from deadweight.sums import kernel
from deadweight.sums.blocks import Block, readable
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import KeyedSums
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.tools.limits import require, require_table
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from deadweight.mdp.tabular import Sparse


# Bytes of an entry of a sparse matrix while it is added up: value, place, and both once more.
ENTRY = 32
UNSEEN = ("pool", "terminate", "mean")
SMOOTHING = 1e-9
FOLDS = 5  # of a cross-fitted model, where nobody says how many
COUNT_CELLS = 1 << 20
# The kernel counts in tables of all (s, a, s') of no more cells than this, or than this many for each step.
FEW_CELLS, CELLS_A_STEP = 1 << 16, 4
# With no more cells than this, (s, a, s') is looked up in a table of all of them; else among the sorted keys.
MOST_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Transitions of (S, A) pairs, by key (s * A + a) * (S + 1) + s', s' = S for termination."""

    moves: KeyedSums  # their number and, where transitions have discounts of their own, the sums of these
    n_states: int
    n_actions: int

    @property
    def pairs(self) -> IntArray:
        """The pair of each transition."""
        return np.asarray(self.moves.keys // (self.n_states + 1))

    @property
    def totals(self) -> FloatArray:
        """(S * A,) number of transitions of each pair."""
        return sums_by(self.pairs, self.moves.sums[0], self.n_states * self.n_actions)

    def pooled(self) -> ModelRows:
        """Transitions in which an unseen pair has those of its state, all actions together."""
        unseen = np.flatnonzero(self.totals == 0)
        if not unseen.size:
            return self
        width = self.n_states + 1
        pairs, after = np.divmod(self.moves.keys, width)
        borrowed = KeyedSums.of(pairs // self.n_actions * width + after, *self.moves.sums)
        states = unseen // self.n_actions
        first, last = (np.searchsorted(borrowed.keys, at * width) for at in (states, states + 1))
        lengths = last - first
        require(
            ENTRY * (float(lengths.sum()) + len(pairs)),
            f"A model in which {unseen.size:,} pairs never seen behave like their states",
            'Use fewer, coarser states and actions, or unseen="terminate".',
        )
        begins = np.cumsum(lengths) - lengths
        at = np.repeat(first - begins, lengths) + np.arange(int(lengths.sum()))
        keys = np.repeat(unseen * width, lengths) + borrowed.keys[at] % width
        return self._with(keys, borrowed.sums[:, at])

    def ended(self) -> ModelRows:
        """Transitions in which a pair without any successor ends; no discount is left of it."""
        rest = np.flatnonzero(self.totals == 0)
        if not rest.size:
            return self
        sums = np.zeros((len(self.moves.sums), rest.size))
        sums[0] = 1.0
        return self._with(rest * (self.n_states + 1) + self.n_states, sums)

    def _with(self, keys: IntArray, sums: FloatArray) -> ModelRows:
        """These and others, whose keys are not among them."""
        every = np.concatenate([self.moves.keys, keys])
        order = np.argsort(every, kind="stable")
        both = np.concatenate([self.moves.sums, sums], axis=1)[:, order]
        return ModelRows(KeyedSums(every[order], both), self.n_states, self.n_actions)

    def matrix(self, totals: FloatArray) -> Sparse:
        """(S * A, S + 1) what is last in the sums, over the totals of the pairs; without zeros."""
        from scipy import sparse

        pairs, columns = np.divmod(self.moves.keys, self.n_states + 1)
        shares: FloatArray = (1.0 / totals)[pairs] * self.moves.sums[-1]
        there: BoolArray = shares != 0
        if not there.all():
            pairs, columns, shares = pairs[there], columns[there], shares[there]
        ends = np.zeros(self.n_states * self.n_actions + 1, dtype=np.int64)
        np.cumsum(np.bincount(pairs, minlength=len(ends) - 1), out=ends[1:])
        shape = (len(ends) - 1, self.n_states + 1)
        kind = np.int32 if max(*shape, len(shares)) < 2**31 else np.int64
        matrix: Any = sparse.csr_array((shares, columns.astype(kind), ends.astype(kind)), shape=shape)
        matrix.has_canonical_format = True  # keys are sorted and distinct
        return matrix  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of transitions, rewards and first states; a model is made of them, and they merge."""

    n_states: int
    n_actions: int
    transitions: KeyedSums  # key (s * A + a) * (S + 1) + s', s' = S for termination: number, and discounts
    pairs: KeyedSums  # key s * A + a: number, sum of rewards
    starts: KeyedSums  # key s: number of episodes
    layouts: dict[str, Any] = field(default_factory=dict, init=False, repr=False)  # made once, by `unseen`

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
        """Counts with all actions as one: the chain that the log itself has followed."""
        rows, after = np.divmod(self.transitions.keys, self.n_states + 1)
        moves = rows // self.n_actions * (self.n_states + 1) + after
        return Counts(
            self.n_states,
            1,
            KeyedSums.of(moves, *self.transitions.sums),
            KeyedSums.of(self.pairs.keys // self.n_actions, *self.pairs.sums),
            self.starts,
        )

    @property
    def by_duration(self) -> bool:
        """Whether transitions have discounts of their own."""
        return len(self.transitions.sums) > 1

    def without_durations(self) -> Counts:
        """Counts without discounts: where steps lead, however long they take."""
        return replace(self, transitions=KeyedSums(self.transitions.keys, self.transitions.sums[:1]))

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
        return table.reshape(self.n_states, self.n_actions)

    def start_distribution(self) -> FloatArray:
        """(S,) share of episodes that begin in each state."""
        d0: FloatArray = np.zeros(self.n_states)
        d0[self.starts.keys] = self.starts.sums[0] / self.starts.sums[0].sum()
        return d0


def count(parts: Sequence[Trajectories], n_states: int, n_actions: int, workers: int = 1) -> Counts:
    """Counts of a log, or of its parts."""
    summarise = partial(_count_block, n_states, n_actions)
    counts: Counts = reduce_log(parts, summarise, workers, COUNT_CELLS, by_ends=True)[0]
    return counts


def _count_block(
    n_states: int, n_actions: int, block: Block, fold_of: IntArray | None = None, folds: int = 1
) -> list[Counts]:
    """Counts of the episodes of a block, those of each fold by themselves; `fold_of` is (m,)."""
    counted = _counted(n_states, n_actions, block, fold_of, folds)
    if counted is not None:
        return counted
    if fold_of is None:
        return [_count_rows(n_states, n_actions, block)]
    return [_count_rows(n_states, n_actions, block, fold_of == k) for k in range(folds)]


def _counted(
    n_states: int, n_actions: int, block: Block, fold_of: IntArray | None, folds: int
) -> list[Counts] | None:
    """These counts by the kernel, in tables of all transitions; None where it cannot or they are large."""
    log, pairs, width = block.log, n_states * n_actions, n_states + 2
    columns = block.columns
    steps = int(block.lengths.sum())
    if (
        kernel.KERNEL is None
        or log.discounting is not None
        or folds * pairs * width > max(FEW_CELLS, CELLS_A_STEP * steps)
        or not all(map(readable, (*columns, *log.ends, fold_of)))
    ):
        return None
    transitions, rewards = np.zeros(folds * pairs * width), np.zeros(folds * pairs)
    starts = np.zeros(folds * n_states)
    results = (transitions, rewards, starts)
    if not kernel.KERNEL.count_steps(columns, log.ends, fold_of, folds, n_states, n_actions, results):
        return None
    return [
        _from_tables(n_states, n_actions, *tables)
        for tables in zip(
            transitions.reshape(folds, pairs, width),
            rewards.reshape(folds, pairs),
            starts.reshape(folds, n_states),
            strict=True,
        )
    ]


def _from_tables(
    n_states: int, n_actions: int, transitions: FloatArray, rewards: FloatArray, starts: FloatArray
) -> Counts:
    visits = transitions.sum(axis=1)
    moves = transitions[:, :-1].ravel()  # without those that lead nobody knows where
    seen, moved, started = np.flatnonzero(visits), np.flatnonzero(moves), np.flatnonzero(starts)
    return Counts(
        n_states,
        n_actions,
        KeyedSums(moved, moves[moved][None]),
        KeyedSums(seen, np.stack([visits[seen], rewards[seen]])),
        KeyedSums(started, starts[started][None]),
    )


def _count_rows(n_states: int, n_actions: int, block: Block, rows: BoolArray | None = None) -> Counts:
    """Counts of the episodes of a block, or of some of them."""
    pair = block.pairs(n_actions)
    successor = successors(block, n_states)
    known = successor >= 0
    alive = block.alive
    if rows is not None:
        known = known & rows[:, None]
        alive = np.broadcast_to(rows[:, None], pair.shape) if alive is None else alive & rows[:, None]
    steps, rewards = (pair.ravel(), block.paid.ravel()) if alive is None else (pair[alive], block.paid[alive])
    starts = block.states[:, 0]
    discounts = () if block.during is None else (block.during[known],)
    return Counts(
        n_states,
        n_actions,
        KeyedSums.of(pair[known] * (n_states + 1) + successor[known], 1.0, *discounts),
        KeyedSums.of(steps, 1.0, rewards),
        KeyedSums.of(starts if rows is None else starts[rows], 1.0),
    )


def successors(block: Block, end: int) -> IntArray:
    """(m, H) where each step leads: a state, `end` for termination, -1 for unknown and on padding."""
    ended = block.last & block.log.terminated[block.rows][:, None]
    return np.where(ended, end, block.next_states)


@dataclass(frozen=True, eq=False)
class FoldCounts:
    """The counts of each fold of some episodes; merges.

    How many episodes come before a part is known only after the pass, so each part counts as if it were the
    first. Put behind others, its folds are turned by their number.
    """

    part: int  # of the log that these episodes come from, or the last of several
    n: int  # episodes
    own: tuple[Counts, ...]  # of each fold

    def merge(self, other: FoldCounts) -> FoldCounts:
        """Both together; the parts of `other` come after, unless it is more of the same one."""
        turn, folds = (0 if other.part == self.part else self.n), len(self.own)
        merged = (counts.merge(other.own[(fold - turn) % folds]) for fold, counts in enumerate(self.own))
        return FoldCounts(other.part, self.n + other.n, tuple(merged))


def counts_by_fold(
    parts: Sequence[Trajectories], folds: int, n_states: int, n_actions: int, workers: int = 1
) -> FoldCounts:
    """The counts of each of so many folds, in one pass that need not know how many episodes there are."""
    summarise = partial(_count_folds, folds, n_states, n_actions)
    counts: FoldCounts = reduce_log(parts, summarise, workers, COUNT_CELLS, by_ends=True)[0]
    return counts


def together(folds: Sequence[Counts]) -> Counts:
    """The counts of all folds."""
    return reduce(Counts.merge, folds)


def without_each(folds: Sequence[Counts]) -> list[Counts]:
    """For each fold the counts of all episodes but its own."""
    return [together([*folds[:k], *folds[k + 1 :]]) for k in range(len(folds))]


def _count_folds(folds: int, n_states: int, n_actions: int, block: Block) -> list[FoldCounts]:
    fold_of: IntArray = (block.first + block.rows) % folds
    return [FoldCounts(block.part, block.n, tuple(_count_block(n_states, n_actions, block, fold_of, folds)))]


# --- The model


def fit_mdp(
    log: Trajectories, n_states: int | None = None, n_actions: int | None = None, unseen: str = "pool"
) -> TabularMDP:
    """The model of a log, with the longest episode as its horizon.

    Where no episode was cut, that is no limit of the task: given to an estimator as `model=`, it is solved
    until its values settle, as the model that is fitted by default is.

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
    require_labels(require_log(log), "A model from counts")
    if unseen not in UNSEEN:
        raise OptionError(
            f"unseen must be one of {', '.join(UNSEEN)}; found {unseen!r}.", fix='For example unseen="pool".'
        )
    sizes = (max(n_states or 0, log.n_states), max(n_actions or 0, log.n_actions))
    uncut = log.time_limit is None and bool(log.terminated.all())
    return mdp_from_counts(count([log], *sizes), log.horizon, unseen, open_end=uncut)


def mdp_from_counts(
    counts: Counts, horizon: int, unseen: str = "pool", *, open_end: bool = False
) -> TabularMDP:
    """The model that these counts make; `open_end`: the horizon is that of the longest episode only.

    Where transitions have discounts of their own, they are part of the model: what a discount takes away ends
    there, and the values of the model without any discount are the discounted ones.
    """
    n_states, n_actions = counts.n_states, counts.n_actions
    require_table(n_states, n_actions, "A model of the log: a table")
    moves = ModelRows(counts.transitions.without_zeros(), n_states, n_actions)
    visits, reward_sums = counts.visits(), counts.rewards()
    r = np.divide(reward_sums, visits, out=np.zeros_like(visits), where=visits > 0)
    spread: FloatArray | None = None
    if unseen == "mean":
        r = np.where(visits > 0, r, r[visits > 0].mean())
        totals = moves.totals + (n_states + 1) * SMOOTHING
        spread = SMOOTHING / totals
    else:
        if unseen == "pool":
            state_visits = visits.sum(axis=1, keepdims=True)
            pooled = divide(reward_sums.sum(axis=1, keepdims=True), state_visits)
            r = np.where(visits > 0, r, pooled)
            moves = moves.pooled()
        moves = moves.ended()
        totals = moves.totals
    P: Any = moves.matrix(totals)
    if counts.by_duration:
        P = _ending(P, spread)
        P.sort_indices()
    return TabularMDP._trusted(P, r, counts.start_distribution(), horizon, spread=spread, open_end=open_end)


def _ending(kept: Any, spread: FloatArray | None) -> Any:
    """Transitions in which all that is missing from a row ends."""
    from scipy import sparse

    pairs, columns = kept.shape
    missing = 1.0 - np.asarray(kept.sum(axis=1)) - (0.0 if spread is None else columns * spread)
    place = (np.arange(pairs), np.full(pairs, columns - 1))
    return sparse.csr_array(kept + sparse.csr_array((np.maximum(missing, 0.0), place), kept.shape))


class Layout:
    """Which derivatives concern which logged transition, and which entry of a table a logged step is.

    Entries are the distinct logged (s, a, s'); after them come the pairs, for steps of which nobody knows
    where they led, and one entry for padding. Besides there are, for the unseen actions of s that borrow its
    pooled transitions, the distinct logged (s, s').
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
        pooled, self.pooled = distinct(state * (n_states + 1) + self.after, n_states * (n_states + 1))
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
        return np.asarray(np.where(self.borrows_moves, cells, 0.0).sum(axis=-1))

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


def distinct(keys: IntArray, cells: int) -> tuple[IntArray, IntArray]:
    """The distinct keys, sorted, and the place of each key among them; by a table where that is small."""
    if cells > MOST_CELLS:
        return np.unique(keys, return_inverse=True)
    seen = np.zeros(cells, dtype=bool)
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]


def pairs_of(block: Block, n_actions: int) -> IntArray:
    """(m, H) the pair of each step; with a single action all actions count as one."""
    return block.pairs(n_actions) if n_actions > 1 else block.states
