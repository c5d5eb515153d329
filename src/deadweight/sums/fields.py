"""Fields: a value for each step of a log, wherever it comes from.

Policies, action values, advantages and drops are fields. A `Table` has a value for each state, and if need be
for each action and each time; a `Column` one for each row of a log; `Logged` is a column that the log has
itself; `ByFold` takes the values of each episode from the field of its fold. Estimators ask for the values
`on` a block and need not know which it is. Where a table is needed, with a row for each state, `table_of`
says so.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.basics.once import once
from deadweight.errors import DeadweightError, EstimationError
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

# So many entries of an array are looked at to tell it from others; equality looks at all.
SAMPLE = 4096


class Field(ABC):
    """A value for each step."""

    found = "no table"  # what an error says there is instead of a table

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
        some = self.values.ravel()[:: max(1, self.values.size // SAMPLE)]
        return zlib.crc32(some.tobytes())  # unlike hash(), the same in every process

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
        """(m, H) where the values of a block's steps lie in the table."""
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
        values: AnyArray = self.values.ravel().take(index)
        return values


@dataclass(frozen=True, eq=False)
class Column(_Array, Field):
    """A value for each row of a log in one piece, (steps,)."""

    found = "one flag for each step"

    def _values(self, block: Block) -> AnyArray:
        return block.take(self.values, 0)

    def along(self, log: Trajectories) -> AnyArray:
        """(steps,) the values themselves."""
        return self.values


@dataclass(frozen=True)
class Logged(Field):
    """A column of the log itself: `propensities`, or `target_probs`."""

    name: str
    found = "only the log's target_prob of the action taken"

    def _values(self, block: Block) -> AnyArray:
        return block.take(self.along(block.log), 0)

    def along(self, log: Trajectories) -> AnyArray:
        """(steps,) the column."""
        column: AnyArray | None = getattr(log, self.name)
        assert column is not None, "policies are paired with logs that have it"
        return column


@dataclass(frozen=True, eq=False)
class Folds:
    """Which fold each episode is in, by its number in the whole log: however that is cut into parts.

    Attributes:
      count: number of folds.
      first: (parts,) the number, in the whole log, of each part's first episode.
    """

    count: int
    first: IntArray

    @classmethod
    def of(cls, count: int, sizes: Sequence[int]) -> Folds:
        """Folds of a log whose parts have so many episodes."""
        return cls(count, np.cumsum([0, *sizes[:-1]]))

    def __call__(self, block: Block) -> IntArray:
        """(m,) the fold of each episode of a block."""
        fold_of: IntArray = (self.first[block.part] + block.first + block.rows) % self.count
        return fold_of


@dataclass(frozen=True, eq=False)
class ByFold(Field):
    """The field of an episode's fold: a model that has not seen it.

    Args:
      fields: one a fold.
      folds: which fold an episode is in.
    """

    fields: tuple[Field, ...]
    folds: Folds

    @cached_property
    def _side_by_side(self) -> tuple[Table, FloatArray] | None:
        """Tables of one shape, whose values are looked up together: one of them, and the values of all."""
        tables = [one for one in self.fields if isinstance(one, Table)]
        shapes = {(one._kind, one.values.shape) for one in tables}
        if len(tables) < len(self.fields) or len(shapes) > 1:
            return None
        return tables[0], np.concatenate([one.values.ravel() for one in tables])

    def _values(self, block: Block) -> AnyArray:
        if self._side_by_side is not None:
            table, values = self._side_by_side
            found = values.take(table.places(block) + (self.folds(block) * table.values.size)[:, None])
            if block.alive is not None:
                found[~block.alive] = 0
            return found
        own, cells = self.folds(block), np.zeros((block.n, block.horizon))
        for fold, field in enumerate(self.fields):
            cells[own == fold] = field._values(block)[own == fold]
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

    Args:
      field: any.
      need: who needs a table of what, as in "TMIS needs the evaluation policy for all actions".
      fix: what to do where there is none.
      error: the error to raise then.
    """
    if isinstance(field, Table):
        return field.values
    raise error(f"{need}; found {field.found}.", fix=fix)


def stacked(field: Field) -> tuple[AnyArray, Folds | None]:
    """(folds, ...) the tables of all folds, and the folds; None where there is but one."""
    if isinstance(field, ByFold):
        return np.stack([stacked(one)[0][0] for one in field.fields]), field.folds
    return table_of(field, "A walk at all levels needs tables of values", "Leave out the path.")[None], None
