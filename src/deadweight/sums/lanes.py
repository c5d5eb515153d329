r"""Lanes: running weights under many drops at once, and what is summed of them in one reading of a block.

A lane is one set of dropped states. A step multiplies the running weights of all lanes that keep its state by
its ratio and leaves the others alone, so that one reading of the log serves every level of a path, and every
name of a table. The first walk sums, for each step and lane,

.. math:: \sum_i W_t, \quad \sum_i W_t r_t, \quad \sum_i W_t (r_t - Q_t), \quad \sum_i W_{t-1} V_t, \quad
   \sum_i W_{t-1} 1\{s_t \in D\} \delta_t

and, for the influence of a model, the weights by step and state, or pair. The second walk gives the influence
of each episode, once the normalisers are known. Both are compiled where there is a kernel, with the same
operations in numpy otherwise (`lanes_by_numpy`); a block whose products leave the range of doubles is
declined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.sums import kernel
from deadweight.sums.blocks import Block, discounts
from deadweight.sums.fields import Folds
from deadweight.sums.running import SAFE_LOG
from deadweight.sums.weighting import Weighting
from deadweight.sums.whole_sums import WholeSums
from deadweight.typing import AnyArray, BoolArray, FloatArray, IntArray

# Lanes are walked along in groups that fill a vector register; a line of cache has two of them.
LANES = 4
LINE = 8


@dataclass(frozen=True, eq=False)
class Lanes:
    """The states that each lane drops, (L, S)."""

    dropped: BoolArray

    def __len__(self) -> int:
        return len(self.dropped)

    @property
    def n_states(self) -> int:
        """S."""
        return int(self.dropped.shape[1])

    @property
    def walked(self) -> int:
        """Lanes that are walked along; those past the last are thrown away."""
        return -(-len(self) // LANES) * LANES

    @property
    def width(self) -> int:
        """Lanes in memory: where there are many, each row begins with a line of cache."""
        return self.walked if self.walked == LANES else -(-len(self) // LINE) * LINE

    @cached_property
    def patterns(self) -> tuple[IntArray, IntArray]:
        """(S,) the row that a state has in (patterns, width): all bits in lanes that keep it, none in others.

        Sets of a path are nested, so that there are few of these.
        """
        packed = np.ascontiguousarray(np.packbits(self.dropped.T, axis=1))  # (S, bytes)
        rows = packed.view([("", packed.dtype)] * packed.shape[1])[:, 0]
        _, first, pattern = np.unique(rows, return_index=True, return_inverse=True)
        keep = np.full((len(first), self.width), -1, dtype=np.int64)
        keep[:, : len(self)] = np.where(self.dropped.T[first], 0, -1)
        return pattern.astype(np.int64), keep


@dataclass(frozen=True, eq=False)
class LaneValues:
    """What is weighed besides rewards.

    Attributes:
      delta: (T, S) advantage of a dropped step; None where nobody corrects. (1, S) where the values of a
        state are the same at all steps.
      q, v: (folds, T, S, A) and (folds, T, S), likewise, for doubly robust terms; None for none.
      folds: which fold an episode uses; None: the only one.
    """

    delta: FloatArray | None = None
    q: FloatArray | None = None
    v: FloatArray | None = None
    folds: Folds | None = None

    @property
    def count(self) -> int:
        """Number of folds."""
        return 1 if self.folds is None else self.folds.count

    def fold_of(self, block: Block) -> IntArray | None:
        """(m,) the fold of each episode; None: the only one."""
        return None if self.folds is None else self.folds(block)


@dataclass(frozen=True)
class Wanted:
    """Which sums are wanted besides those of the weights.

    Attributes:
      steps: of W r.
      robust: of W (r - Q) and W_before V.
      lost: of W_before delta on dropped steps.
      by_state: weights before each step by state.
      by_pair: weights after each step by state and action.
    """

    steps: bool = False
    robust: bool = False
    lost: bool = False
    by_state: bool = False
    by_pair: bool = False

    def __or__(self, other: Wanted) -> Wanted:
        return Wanted(*(a or b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True, eq=False)
class LaneSums:
    """Sums over episodes; they merge. What was not wanted is None.

    Attributes:
      n: episodes.
      declined: a block has left the range of doubles, and there are no sums.
      weight: (T, L) of W, with the last weights of ended episodes.
      weighted, robust, before, lost: (T, L).
      by_state, by_pair: (folds, T, S, L), (folds, T, S * A, L), or with more lanes after the last. Whoever
        merges gives them away.
      whole: of whole weights; None where they were declined.
    """

    n: int
    declined: bool
    weight: FloatArray
    whole: WholeSums | None
    weighted: FloatArray | None = None
    robust: FloatArray | None = None
    before: FloatArray | None = None
    lost: FloatArray | None = None
    by_state: FloatArray | None = None
    by_pair: FloatArray | None = None

    @classmethod
    def none(cls, n: int) -> LaneSums:
        """Of a block that was declined."""
        return cls(n, True, np.zeros((0, 0)), None)

    def merge(self, other: LaneSums) -> LaneSums:
        """Sums over the episodes of both; none if either was declined."""
        n = self.n + other.n
        if self.declined or other.declined or self.whole is None or other.whole is None:
            return LaneSums.none(n)
        return LaneSums(
            n,
            False,
            added(self.weight, other.weight, stays=True),
            self.whole.merge(other.whole),
            *(_both(getattr(self, name), getattr(other, name), 0) for name in _BY_STEP),
            *(_both_places(getattr(self, name), getattr(other, name)) for name in _BY_PLACE),
        )


_BY_STEP = ("weighted", "robust", "before", "lost")
_BY_PLACE = ("by_state", "by_pair")


def _both(a: FloatArray | None, b: FloatArray | None, axis: int) -> FloatArray | None:
    return None if a is None or b is None else added(a, b, axis)


def _both_places(a: FloatArray | None, b: FloatArray | None) -> FloatArray | None:
    """Sum of weights by place, which are large: it takes the place of one of them."""
    if a is None or b is None:
        return None
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    if a.shape[-1] != b.shape[-1]:  # one of them has lanes after the last
        lanes = min(a.shape[-1], b.shape[-1])
        a, b = a[..., :lanes], b[..., :lanes]
    if not a.flags.writeable:  # from a worker of Ray, whose store it lies in
        a = a.copy()
    a[:, : b.shape[1]] += b
    return a


def added(a: FloatArray, b: FloatArray, axis: int = 0, stays: bool = False) -> FloatArray:
    """Sum of two tables of steps; the shorter one goes on with its last row, or with nothing."""
    if a.shape[axis] < b.shape[axis]:
        a, b = b, a
    total = a.copy()
    head = (slice(None),) * axis + (slice(b.shape[axis]),)
    total[head] += b
    if stays:
        total[len(b) :] += b[-1]
    return total


@dataclass(frozen=True, eq=False)
class LaneFactors:
    """Factors of the influence of each step, (T, L): W (r slope - pull), and likewise of the other terms.

    Those of terms that nobody wants are None; weights before a step have slopes of their own.
    """

    slope: FloatArray | None = None
    slope_before: FloatArray | None = None
    pull: FloatArray | None = None
    pull_robust: FloatArray | None = None
    pull_before: FloatArray | None = None
    pull_lost: FloatArray | None = None

    @cached_property
    def after(self) -> tuple[FloatArray | None, ...]:
        """(T + 1, L) sums of the pulls from each step on: what ended episodes still pull."""
        robust = None
        if self.pull_robust is not None and self.pull_before is not None:
            robust = self.pull_robust + self.pull_before
        return tuple(
            None if one is None else _from_here_on(one) for one in (self.pull, robust, self.pull_lost)
        )


@dataclass(frozen=True, eq=False)
class LaneInfluences:
    """Influence of each episode in each lane, (m, L), of the terms that were wanted, and whole weights."""

    steps: FloatArray | None
    robust: FloatArray | None
    lost: FloatArray | None
    final: FloatArray


class LaneWalk:
    """A block, walked along in every lane.

    Args:
      block: some episodes.
      weighting: their ratios, nothing dropped.
      lanes: what each of them drops.
      values: what is weighed.
    """

    def __init__(self, block: Block, weighting: Weighting, lanes: Lanes, values: LaneValues) -> None:
        self.block, self.weighting, self.lanes, self.values = block, weighting, lanes, values
        self.ratios = weighting.for_kernel(block.log)
        self.fold_of = values.fold_of(block)

    @property
    def _columns(self) -> tuple[AnyArray, ...]:
        log = self.block.log
        return (log.states, log.actions, log.rewards, log.offsets, self.block.rows)

    @property
    def _tables(self) -> tuple[AnyArray | None, ...]:
        values = self.values
        return tuple(None if one is None else one.reshape(-1) for one in (values.q, values.v, values.delta))

    @cached_property
    def _compiled(self) -> bool:
        arrays = (*self._columns, *self.ratios.arrays, *self._tables)
        return kernel.KERNEL is not None and all(map(kernel.readable, arrays))

    @cached_property
    def _arguments(self) -> tuple[object, ...]:
        ratios, (pattern, keep) = self.ratios, self.lanes.patterns
        horizon = self.block.horizon if self.values.delta is None else len(self.values.delta)
        if self.values.v is not None:
            horizon = self.values.v.shape[1]
        numbers = (ratios.n_actions, self.lanes.width, self.lanes.walked, ratios.stride)
        lanes = (*ratios.arrays[:5], pattern, keep.reshape(-1), *numbers)
        return (
            self.block.horizon,
            self._columns,
            lanes,
            (*self._tables, self.fold_of, horizon, self.values.count),
        )

    def sums(self, gamma: float, wanted: Wanted) -> LaneSums:
        """The first walk; declined where a product leaves the range of doubles."""
        if (self.ratios.log_bound or 0.0) > SAFE_LOG:
            return LaneSums.none(self.block.n)
        if not self._compiled:
            from deadweight.sums.lanes_by_numpy import numpy_sums

            return numpy_sums(self, gamma, wanted)
        horizon, width, m = self.block.horizon, self.lanes.width, self.block.n
        cells, folds, n_states = (horizon, width), self.values.count, self.lanes.n_states

        def zeros(*shape: int, when: bool = True) -> FloatArray | None:
            return aligned_zeros(*shape) if when else None

        by_step = [
            zeros(*cells, when=wanted.steps),
            zeros(*cells, when=wanted.robust),
            zeros(*cells, when=wanted.robust),
            zeros(*cells, when=wanted.lost),
        ]
        places = width if len(self.lanes) > 2 else len(self.lanes)  # tables by place are large
        by_place = [
            zeros(folds, horizon, n_states, places, when=wanted.by_state),
            zeros(folds, horizon, n_states * self.ratios.n_actions, places, when=wanted.by_pair),
        ]
        weight, ended, final = aligned_zeros(*cells), np.zeros((horizon + 1, width)), np.empty((m, width))
        returns = None if gamma in self.block.walked_returns else np.empty(m)
        results = tuple(
            None if a is None else a.reshape(-1) for a in (weight, *by_step, ended, *by_place, final, returns)
        )
        assert kernel.KERNEL is not None
        if not kernel.KERNEL.lane_sums(*self._arguments, discounts(gamma, horizon), results):
            return LaneSums.none(m)
        if returns is not None:
            self.block.walked_returns[gamma] = returns
        some = slice(len(self.lanes))
        found = [*(None if a is None else a[..., some] for a in by_step), *by_place]
        whole = WholeSums.of(final[:, some], self.block.returns(gamma))
        return LaneSums(m, False, weight[:, some], whole, *found)

    def influences(self, factors: LaneFactors) -> LaneInfluences | None:
        """The second walk; None where a product leaves the range, as the first has found then."""
        if not self._compiled:
            from deadweight.sums.lanes_by_numpy import numpy_influences

            return numpy_influences(self, factors)
        horizon, width, m = self.block.horizon, self.lanes.width, self.block.n
        tables = [
            factors.slope,
            factors.slope_before,
            factors.pull,
            factors.pull_robust,
            factors.pull_before,
            factors.pull_lost,
        ]
        padded = [None if one is None else _padded(one[:horizon], width) for one in tables]
        after = [None if one is None else _padded(one[: horizon + 1], width) for one in factors.after]
        terms = [None if one is None else aligned_zeros(m, width) for one in factors.after]
        final = np.empty((m, width))
        results = tuple(None if a is None else a.reshape(-1) for a in (*terms, final))
        assert kernel.KERNEL is not None
        if not kernel.KERNEL.lane_influences(*self._arguments, (*padded, *after), results):
            return None
        some = slice(len(self.lanes))
        steps, robust, lost = (None if one is None else one[:, some] for one in terms)
        return LaneInfluences(steps, robust, lost, final[:, some])


def aligned_zeros(*shape: int) -> FloatArray:
    """Zeros that begin with a line of cache, so that no vector of a row lies across two of them."""
    size = math.prod(shape)
    room = np.zeros(size + LINE)
    first = -(room.ctypes.data // room.itemsize) % LINE
    return room[first : first + size].reshape(shape)


def _padded(table: FloatArray, width: int) -> FloatArray:
    """(T * width,) the table with columns of zeros after the last."""
    padded = aligned_zeros(len(table), width)
    padded[:, : table.shape[1]] = table
    return padded.reshape(-1)


def _from_here_on(table: FloatArray) -> FloatArray:
    """(T + 1, L) sums over the rows from each one on."""
    sums: FloatArray = np.zeros((len(table) + 1, table.shape[1]))
    np.cumsum(table[::-1], axis=0, out=sums[-2::-1] if len(table) else None)
    return sums
