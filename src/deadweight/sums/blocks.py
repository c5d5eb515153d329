"""Blocks: some hundred thousand cells of a log at a time, episodes by steps; and fields, read block by block.

A block holds m episodes as (m, H) matrices, padded where one is shorter than the longest. Padding costs
little because blocks are cut from the episodes in order of length, unless all are of similar length. Blocks
fit in the last level of cache, so a pass over the log costs little more than a read of its columns. Where a
block has many episodes its matrices lie in memory step by step (all episodes' first step, then the second,
...), so that one vector operation serves many episodes; nobody who uses them needs to know. What several
estimators need of a block is computed once and kept with it.

A field is a value for each step of a log, wherever it comes from: policies, action values, advantages and
drops are fields. A `Table` has a value for each state, and if need be for each action and each time; a
`Column` one for each row of a log; `Logged` is a column that the log has itself; `ByFold` takes the values of
each episode from the field of its fold. Estimators ask for the values `on` a block and need not know which it
is. Where a table is needed, with a row for each state, `table_of` says so.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from deadweight.errors import DeadweightError, EstimationError
from deadweight.log.trajectories import Trajectories
from deadweight.sums import kernel
from deadweight.tools.arithmetic import once
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

BLOCK_CELLS = 1 << 19
# Of a pass that keeps many matrices of a block at once: smaller ones keep memory low.
SMALL_CELLS = BLOCK_CELLS // 4
# From this many episodes on, a vector operation over episodes beats a running product along each of them.
MANY_EPISODES = 128
# Episodes of similar lengths stay in the order of memory, padded; reading to and fro costs more than that.
MOST_PADDING = 1.6
# So many entries of an array are looked at to tell it from others; equality looks at all.
SAMPLE = 4096

T = TypeVar("T")


class Block:
    """Some episodes of a log as (m, H) matrices."""

    part = 0  # the number of the part of the log that they come from, where it has several
    first = 0  # episodes of that part that come before `log`

    def __init__(self, log: Trajectories, rows: IntArray, contiguous: bool) -> None:
        self.log = log  # that they come from
        self.rows = rows  # (m,) their episode numbers
        self.lengths: IntArray = log.lengths[rows]  # (m,)
        self.horizon = int(self.lengths.max())  # H
        self._shared: dict[Hashable, Any] = {}
        self.walked_returns: dict[float, FloatArray] = {}  # by discount; a walk sums them on its way
        self._slice = slice(int(log.offsets[rows[0]]), int(log.offsets[rows[-1] + 1])) if contiguous else None

    @property
    def n(self) -> int:
        """Number of episodes, m."""
        return len(self.rows)

    @property
    def by_step(self) -> bool:
        """Whether matrices lie in memory step by step (Fortran order)."""
        return self.n >= MANY_EPISODES

    @cached_property
    def alive(self) -> BoolArray | None:
        """(m, H) False on padding; None when there is none."""
        if self._slice is not None or (self.lengths == self.horizon).all():
            return None
        alive: BoolArray = (np.arange(self.horizon)[:, None] < self.lengths).T
        return alive

    @cached_property
    def _index(self) -> IntArray:
        rows: IntArray = np.minimum(np.arange(self.horizon)[:, None], self.lengths - 1)
        rows += self.log.offsets[self.rows]
        return rows.T

    @property
    def columns(self) -> tuple[AnyArray, ...]:
        """The columns of the log, and the numbers of the episodes, as the kernel takes a block."""
        log = self.log
        return log.states, log.actions, log.rewards, log.offsets, self.rows

    def take(self, column: AnyArray, fill: float) -> AnyArray:
        """(m, H) cells of a per-step column, `fill` on padding. A view where that is possible."""
        if self._slice is not None:
            return column[self._slice].reshape(self.n, self.horizon)
        cells = self.look_up(column, self._index)
        if self.alive is not None:
            cells[~self.alive] = fill
        return cells

    def look_up(self, table: AnyArray, index: IntArray) -> AnyArray:
        """table[index] for an (m, H) index into a flat table."""
        return table.take(index.T).T if self.by_step else table.take(index)

    def flat(self, cells: AnyArray) -> AnyArray:
        """The cells of an (m, H) matrix that are steps of the log, in one row."""
        return cells.ravel() if self.alive is None else cells[self.alive]

    @cached_property
    def states(self) -> IntArray:
        """(m, H), 0 on padding."""
        return self.take(self.log.states, 0)

    @cached_property
    def actions(self) -> IntArray:
        """(m, H), 0 on padding."""
        return self.take(self.log.actions, 0)

    @cached_property
    def rewards(self) -> FloatArray:
        """(m, H), 0 on padding."""
        return np.asarray(self.take(self.log.rewards, 0.0), order="F" if self.by_step else None)

    @cached_property
    def paid(self) -> FloatArray:
        """(m, H) rewards as they were paid, before any discount by durations; 0 on padding."""
        discounting = self.log.discounting
        return self.rewards if discounting is None else self.take(discounting.rewards, 0.0)

    @cached_property
    def before(self) -> FloatArray | None:
        """(m, H) the discount of each row, in a log by its durations; None elsewhere."""
        discounting = self.log.discounting
        return None if discounting is None else self.take(discounting.before, 0.0)

    @cached_property
    def during(self) -> FloatArray | None:
        """(m, H) the discount of what follows a row over the row's own; None without durations."""
        discounting = self.log.discounting
        if discounting is None or discounting.during is None:
            return None
        return self.take(discounting.during, 0.0)

    @cached_property
    def standing(self) -> tuple[FloatArray, FloatArray] | None:
        """(m, H) number of rows that each row, and its outcome, stands for; None for itself only."""
        discounting = self.log.discounting
        if discounting is None or discounting.standing is None:
            return None
        standing = discounting.standing
        return self.take(standing.rows, 1.0), self.take(standing.outcomes, 1.0)

    @cached_property
    def next_states(self) -> IntArray:
        """(m, H), -1 where the task ended, where the log does not say, and on padding."""
        return self.take(self.log.next_states, -1)

    @cached_property
    def times(self) -> IntArray:
        """(m, H) the step number of each cell."""
        return np.broadcast_to(np.arange(self.horizon), (self.n, self.horizon))

    @cached_property
    def last(self) -> BoolArray:
        """(m, H) True at each episode's last step."""
        return np.asarray(self.times == self.lengths[:, None] - 1)

    def returns(self, gamma: float) -> FloatArray:
        """(m,) discounted return of each episode."""
        if gamma not in self.walked_returns:
            log = self.log
            if kernel.KERNEL is None or not readable(log.rewards):
                returns = discounted_sum(self.rewards, gamma)
            else:
                returns, discount = np.empty(self.n), discounts(gamma, self.horizon)
                kernel.KERNEL.returns(log.rewards, log.offsets, self.rows, self.horizon, discount, returns)
            self.walked_returns[gamma] = returns
        return self.walked_returns[gamma]

    def pairs(self, n_actions: int) -> IntArray:
        """(m, H) index s * A + a of each step's state and action."""
        key = ("pairs", n_actions)
        if key not in self._shared:
            index = self.states * n_actions
            index += self.actions
            self._shared[key] = index
        return np.asarray(self._shared[key])

    def members(self, finished: str, lagged: bool = False) -> BoolArray | None:
        """(m, H) the episodes in each per-step normaliser; None where ended episodes stay in it.

        Args:
          finished: what ended episodes do there: "absorb" (stay), "leave" or "survivors".
          lagged: (m, H + 1), the episodes one step earlier.
        """
        if finished == "absorb":
            return None
        alive = np.ones((self.n, self.horizon), dtype=bool) if self.alive is None else self.alive
        if not lagged:
            return alive
        return np.concatenate([np.ones((self.n, 1), dtype=bool), alive], axis=1)

    def forget(self) -> None:
        """Let go of all that was computed of this block: parts of it refer to the block and would stay."""
        self._shared.clear()
        for name in ("_index", "alive", "states", "actions", "rewards", "paid", "next_states", "last"):
            vars(self).pop(name, None)

    def once(self, of: Hashable, make: Callable[[Block], T]) -> T:
        """A quantity of this block that several estimators share, computed once under the key `of`."""
        if of not in self._shared:
            self._shared[of] = make(self)
        value: T = self._shared[of]
        return value


def blocks(log: Trajectories, cells: int = BLOCK_CELLS) -> Iterator[Block]:
    """The log in blocks of about `cells` cells. Which episodes share a block depends on the log only."""
    lengths = log.lengths
    if lengths.min() == lengths.max():
        size = max(1, cells // int(lengths[0]))
        for lo in range(0, log.n_episodes, size):
            yield Block(log, np.arange(lo, min(lo + size, log.n_episodes)), contiguous=True)
    elif int(lengths.max()) * log.n_episodes <= MOST_PADDING * log.n_steps:
        yield from _in_order(log, cells)
    else:
        yield from _by_length(log, cells)


def _in_order(log: Trajectories, cells: int) -> Iterator[Block]:
    count = max(1, round(log.n_steps / cells))
    cuts = np.unique(np.searchsorted(log.offsets, np.linspace(0, log.n_steps, count + 1)))
    for lo, hi in pairwise(cuts.tolist()):
        yield Block(log, np.arange(lo, hi), contiguous=False)


def _by_length(log: Trajectories, cells: int) -> Iterator[Block]:
    lengths = log.lengths
    # Numbers of two bytes are sorted in linear time.
    short = lengths.astype(np.uint16) if lengths.max() < 1 << 16 else lengths
    order = np.argsort(short, kind="stable")
    ordered = lengths[order]
    lo = 0
    while lo < log.n_episodes:
        most = max(1, cells // int(ordered[lo]))
        padded = np.arange(1, most + 1)[: log.n_episodes - lo] * ordered[lo : lo + most]
        size = max(1, int(np.searchsorted(padded, cells, side="right")))
        # In the order of memory, which is read in one direction then.
        yield Block(log, np.sort(order[lo : lo + size]), contiguous=False)
        lo += size


def discounted_sum(cells: FloatArray, gamma: float) -> FloatArray:
    """(m,) sum over the columns of gamma**t * cells."""
    weighted = cells if gamma == 1.0 else cells * powers(gamma, cells.shape[1])
    return np.asarray(np.add.reduce(weighted, axis=1))


def powers(gamma: float, count: int) -> FloatArray:
    """(count,) gamma**0, gamma**1, ..."""
    return np.ones(count) if gamma == 1.0 else np.power(gamma, np.arange(count, dtype=np.float64))


def discounts(gamma: float, count: int) -> FloatArray | None:
    """(count,) powers of gamma; None where all are one."""
    return None if gamma == 1.0 else powers(gamma, count)


def readable(column: AnyArray | None) -> bool:
    """Whether the kernel can read a column where it lies; there may be none."""
    return column is None or (column.flags.c_contiguous and column.flags.aligned)


# --- Fields.


class Field(ABC):
    """A value for each step."""

    shown_as = "no table"  # what an error says there is instead of a table

    def on(self, block: Block) -> AnyArray:
        """(m, H) the values of a block's steps, zero on padding; looked up once, not to be written to."""
        return block.once(self, self._values)

    @abstractmethod
    def _values(self, block: Block) -> AnyArray:
        """(m, H) the values of a block's steps, zero on padding."""

    def along(self, log: Trajectories) -> AnyArray:
        """(steps,) the values of all steps of a log, where they are needed without blocks."""
        raise NotImplementedError(f"A field of class {type(self).__name__} is read block by block.")

    def any(self) -> bool:
        """False where it is known that no value is true."""
        return True


@dataclass(frozen=True, eq=False)
class _Array:
    """An array that is equal to others with the same entries."""

    values: AnyArray

    @property
    def _kind(self) -> tuple[Any, ...]:
        return (type(self),)

    @once
    def _digest(self) -> int:
        sample = self.values.ravel()[:: max(1, self.values.size // SAMPLE)]
        return zlib.crc32(sample.tobytes())  # unlike hash(), the same in every process

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Array) or other._kind != self._kind:
            return False
        return self.values is other.values or np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return self._digest

    def any(self) -> bool:
        """Whether any value is true."""
        return bool(self.values.any())


@dataclass(frozen=True, eq=False)
class Table(_Array, Field):
    """A value for each state.

    Args:
      values: (S,), (S, A), (T, S) or (T, S, A).
      by_time: the first axis is the step number.
      by_action: the last axis is the action; a step has the value of the action that was taken.
    """

    by_time: bool = False
    by_action: bool = False

    @property
    def _kind(self) -> tuple[Any, ...]:
        return (type(self), self.by_time, self.by_action)

    def places(self, block: Block) -> IntArray:
        """(m, H) index of the values of a block's steps in the flat table."""
        n_actions = self.values.shape[-1] if self.by_action else 1
        at = block.pairs(n_actions) if self.by_action else block.states
        return block.times * (self.values.shape[1] * n_actions) + at if self.by_time else at

    def _values(self, block: Block) -> AnyArray:
        if self.by_time:
            cells: AnyArray = self.values.ravel().take(self.places(block))
        elif self.by_action:
            cells = block.look_up(self.values.ravel(), self.places(block))
        else:
            cells = self.values[block.states]
        if block.alive is not None:
            cells[~block.alive] = 0
        return cells

    def along(self, log: Trajectories) -> AnyArray:
        """(steps,) the values of all steps of a log, of a table that does not depend on time."""
        if self.by_time:
            return super().along(log)
        index = log.states
        if self.by_action:
            index = index * self.values.shape[-1]
            index += log.actions
        return np.asarray(self.values.ravel().take(index))


@dataclass(frozen=True, eq=False)
class Column(_Array, Field):
    """A value for each row of a log in one piece, (steps,)."""

    shown_as = "one flag for each step"

    def _values(self, block: Block) -> AnyArray:
        return block.take(self.values, 0)

    def along(self, log: Trajectories) -> AnyArray:
        """(steps,) the values themselves."""
        return self.values


@dataclass(frozen=True)
class Logged(Field):
    """A column of the log itself: `propensities`, or `target_probs`."""

    name: str
    shown_as = "only the log's target_prob of the action taken"

    def _values(self, block: Block) -> AnyArray:
        return block.take(self.along(block.log), 0)

    def along(self, log: Trajectories) -> AnyArray:
        """(steps,) the column."""
        column: AnyArray | None = getattr(log, self.name)
        assert column is not None, "policies are paired with logs that have it"
        return column


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of each episode, by its number in the whole log: however that is cut into parts."""

    count: int  # number of folds
    first: IntArray  # (parts,) the number, in the whole log, of each part's first episode

    @classmethod
    def of(cls, count: int, sizes: Sequence[int]) -> Folds:
        """Folds of a log whose parts have so many episodes."""
        return cls(count, np.cumsum([0, *sizes[:-1]]))

    def __call__(self, block: Block) -> IntArray:
        """(m,) the fold of each episode of a block."""
        return np.asarray((self.first[block.part] + block.first + block.rows) % self.count)


@dataclass(frozen=True, eq=False)
class ByFold(Field):
    """The field of an episode's fold: a model that has not seen it."""

    fields: tuple[Field, ...]  # one a fold
    folds: Folds  # which fold an episode is in

    @cached_property
    def _side_by_side(self) -> tuple[Table, FloatArray] | None:
        """Tables of one shape, whose values are looked up together: one of them, and the values of all."""
        tables = [field for field in self.fields if isinstance(field, Table)]
        shapes = {(table._kind, table.values.shape) for table in tables}
        if len(tables) < len(self.fields) or len(shapes) > 1:
            return None
        return tables[0], np.concatenate([table.values.ravel() for table in tables])

    def _values(self, block: Block) -> AnyArray:
        if self._side_by_side is not None:
            table, values = self._side_by_side
            cells = values.take(table.places(block) + (self.folds(block) * table.values.size)[:, None])
            if block.alive is not None:
                cells[~block.alive] = 0
            return cells
        fold_of, cells = self.folds(block), np.zeros((block.n, block.horizon))
        for fold, field in enumerate(self.fields):
            cells[fold_of == fold] = field._values(block)[fold_of == fold]
        return cells


@dataclass(frozen=True)
class ByDuration(Field):
    """Values times the discount of each row, in a log by its durations."""

    field: Field

    def _values(self, block: Block) -> AnyArray:
        assert block.before is not None
        return self.field.on(block) * block.before


@dataclass(frozen=True)
class ExceptFirst(Field):
    """A drop that spares the first step of each episode."""

    drop: Field

    def _values(self, block: Block) -> BoolArray:
        marks = self.drop.on(block).copy()
        marks[:, 0] = False
        return marks

    def along(self, log: Trajectories) -> BoolArray:
        """(steps,) True where a step is dropped."""
        marks = np.array(self.drop.along(log))
        marks[log.offsets[:-1]] = False
        return marks

    def any(self) -> bool:
        """Whether there is anything to drop."""
        return self.drop.any()


def table_of(field: Field, need: str, fix: str, error: type[DeadweightError] = EstimationError) -> AnyArray:
    """The array of a table: the one place where a row for each state is asked for.

    `need` says who needs a table of what, as in "TMIS needs the evaluation policy for all actions", and `fix`
    what to do where there is none.
    """
    if isinstance(field, Table):
        return field.values
    raise error(f"{need}; found {field.shown_as}.", fix=fix)


def stacked(field: Field) -> tuple[AnyArray, Folds | None]:
    """(folds, ...) the tables of all folds, and the folds; None where there is but one."""
    if isinstance(field, ByFold):
        return np.stack([stacked(each)[0][0] for each in field.fields]), field.folds
    return table_of(field, "A walk at all levels needs tables of values", "Leave out the path.")[None], None
