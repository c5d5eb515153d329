r"""Lanes: running weights under many drops at once, and what is summed of them in one reading of a block.

A lane is one set of dropped states. A step multiplies the running weights of all lanes that keep its state by
its ratio and leaves the others alone, so that one reading of the log serves every level of a path, and every
name of a table. The first walk sums, for each step and lane,

.. math:: \sum_i W_t, \quad \sum_i W_t r_t, \quad \sum_i W_t (r_t - Q_t), \quad \sum_i W_{t-1} V_t, \quad
   \sum_i W_{t-1} 1\{s_t \in D\} \delta_t

and, for the influence of a model, the weights by step and state, or pair. The second walk gives the influence
of each episode, once the normalisers are known. Both are compiled where there is a kernel, with the same
operations in numpy otherwise, step by step over all episodes of a block (`numpy_sums`, `numpy_influences`); a
block whose products leave the range of doubles is declined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from deadweight.sums import kernel
from deadweight.sums.blocks import Block, Folds, discounts, readable
from deadweight.sums.summaries import WholeSums
from deadweight.sums.weighting import SAFE_LOG, Weighting
from deadweight.tools.arithmetic import sums_by
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
        """Number of lanes that are walked along; those past the last are thrown away."""
        return -(-len(self) // LANES) * LANES

    @property
    def width(self) -> int:
        """Number of lanes in memory: where there are many, each row begins with a line of cache."""
        return self.walked if self.walked == LANES else -(-len(self) // LINE) * LINE

    @cached_property
    def patterns(self) -> tuple[IntArray, IntArray]:
        """(S,) each state's row in a table (patterns, width): all bits in lanes that keep it, none in others.

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
    """The values that are weighed besides rewards; T = 1 where those of a state are the same at all steps."""

    delta: FloatArray | None = None  # (T, S) advantage of a dropped step; None where nobody corrects
    q: FloatArray | None = None  # (folds, T, S, A) for doubly robust terms; None for none
    v: FloatArray | None = None  # (folds, T, S) likewise
    folds: Folds | None = None  # the fold that an episode uses; None: the only one

    @property
    def count(self) -> int:
        """Number of folds."""
        return 1 if self.folds is None else self.folds.count

    def fold_of(self, block: Block) -> IntArray | None:
        """(m,) the fold of each episode; None: the only one."""
        return None if self.folds is None else self.folds(block)


@dataclass(frozen=True)
class Wanted:
    """The sums that are wanted besides those of the weights."""

    steps: bool = False  # of W r
    robust: bool = False  # of W (r - Q) and W_before V
    lost: bool = False  # of W_before delta on dropped steps
    by_state: bool = False  # weights before each step by state
    by_pair: bool = False  # weights after each step by state and action

    def __or__(self, other: Wanted) -> Wanted:
        return Wanted(*(a or b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True, eq=False)
class LaneSums:
    """Sums over episodes; they merge. What was not wanted is None.

    Tables by state and pair may have more lanes after the last; whoever merges gives them away.
    """

    n: int  # episodes
    declined: bool  # a block has left the range of doubles, and there are no sums
    weight: FloatArray  # (T, L) of W, with the last weights of ended episodes
    whole: WholeSums | None  # of whole weights; None where they were declined
    weighted: FloatArray | None = None  # (T, L), as the next three
    robust: FloatArray | None = None
    before: FloatArray | None = None
    lost: FloatArray | None = None
    by_state: FloatArray | None = None  # (folds, T, S, L)
    by_pair: FloatArray | None = None  # (folds, T, S * A, L)

    @classmethod
    def none(cls, n: int) -> LaneSums:
        """No sums, of a block that was declined."""
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
            _both(self.weighted, other.weighted),
            _both(self.robust, other.robust),
            _both(self.before, other.before),
            _both(self.lost, other.lost),
            _both_places(self.by_state, other.by_state),
            _both_places(self.by_pair, other.by_pair),
        )


def _both(a: FloatArray | None, b: FloatArray | None) -> FloatArray | None:
    return None if a is None or b is None else added(a, b)


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


def added(a: FloatArray, b: FloatArray, stays: bool = False) -> FloatArray:
    """Sum of two tables of steps; the shorter one goes on with its last row, or with nothing."""
    if len(a) < len(b):
        a, b = b, a
    total = a.copy()
    total[: len(b)] += b
    if stays:
        total[len(b) :] += b[-1]
    return total


@dataclass(frozen=True, eq=False)
class LaneFactors:
    """Factors of the influence of each step, (T, L): W (r slope - pull), and so for the other terms.

    Factors of terms that are not wanted are None; weights before a step have slopes of their own.
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
        pulls = (self.pull, robust, self.pull_lost)
        return tuple(None if pull is None else _from_here_on(pull) for pull in pulls)


@dataclass(frozen=True, eq=False)
class LaneInfluences:
    """Influence of each episode in each lane, (m, L), of the terms that were wanted, and whole weights."""

    steps: FloatArray | None
    robust: FloatArray | None
    lost: FloatArray | None
    final: FloatArray


class LaneWalk:
    """A block, walked along in every lane; of the weighting nothing is dropped but what the lanes drop."""

    def __init__(self, block: Block, weighting: Weighting, lanes: Lanes, values: LaneValues) -> None:
        self.block, self.weighting, self.lanes, self.values = block, weighting, lanes, values
        self.ratios = weighting.for_kernel(block.log)
        self.fold_of = values.fold_of(block)

    @property
    def _tables(self) -> tuple[AnyArray | None, ...]:
        values = self.values
        tables = (values.q, values.v, values.delta)
        return tuple(None if table is None else table.reshape(-1) for table in tables)

    @cached_property
    def _compiled(self) -> bool:
        arrays = (*self.block.columns, *self.ratios.arrays, *self._tables)
        return kernel.KERNEL is not None and all(map(readable, arrays))

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
            self.block.columns,
            lanes,
            (*self._tables, self.fold_of, horizon, self.values.count),
        )

    def sums(self, gamma: float, wanted: Wanted) -> LaneSums:
        """The first walk; declined where a product leaves the range of doubles."""
        if (self.ratios.log_bound or 0.0) > SAFE_LOG:
            return LaneSums.none(self.block.n)
        if not self._compiled:
            return numpy_sums(self, gamma, wanted)
        horizon, width, m = self.block.horizon, self.lanes.width, self.block.n
        cells, folds, n_states = (horizon, width), self.values.count, self.lanes.n_states

        def zeros(*shape: int, when: bool = True) -> FloatArray | None:
            return aligned_zeros(*shape) if when else None

        wanted_by_step = (wanted.steps, wanted.robust, wanted.robust, wanted.lost)
        by_step = [zeros(*cells, when=when) for when in wanted_by_step]
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
        lanes = slice(len(self.lanes))  # without those past the last
        sums = [*(None if a is None else a[..., lanes] for a in by_step), *by_place]
        whole = WholeSums.of(final[:, lanes], self.block.returns(gamma))
        return LaneSums(m, False, weight[:, lanes], whole, *sums)

    def influences(self, factors: LaneFactors) -> LaneInfluences | None:
        """The second walk; None where a product leaves the range, as the first has found then."""
        if not self._compiled:
            return numpy_influences(self, factors)
        horizon, width, m = self.block.horizon, self.lanes.width, self.block.n
        tables = [getattr(factors, each.name) for each in fields(factors)]  # in the order of the kernel
        padded = [None if table is None else _padded(table[:horizon], width) for table in tables]
        after = [None if pull is None else _padded(pull[: horizon + 1], width) for pull in factors.after]
        terms = [None if pull is None else aligned_zeros(m, width) for pull in factors.after]
        final = np.empty((m, width))
        results = tuple(None if a is None else a.reshape(-1) for a in (*terms, final))
        assert kernel.KERNEL is not None
        if not kernel.KERNEL.lane_influences(*self._arguments, (*padded, *after), results):
            return None
        lanes = slice(len(self.lanes))
        steps, robust, lost = (None if term is None else term[:, lanes] for term in terms)
        return LaneInfluences(steps, robust, lost, final[:, lanes])


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


# --- The walks without the kernel.


@dataclass(frozen=True, eq=False)
class _Cells:
    """The columns of a block step by step, (H, m)."""

    rho: FloatArray
    kept: BoolArray  # (S, L)
    state: IntArray
    action: IntArray
    reward: FloatArray
    alive: BoolArray
    error: FloatArray | None
    v: FloatArray | None
    delta: FloatArray | None

    def keeps(self, t: int) -> BoolArray:
        """(m, L) where the ratio of step t is kept."""
        return np.asarray(self.kept[self.state[t]])

    def times(self, t: int, weights: FloatArray) -> None:
        """Multiply by the kept ratios of step t."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weights *= np.where(self.keeps(t), self.rho[t][:, None], 1.0)

    def gain(self, t: int) -> FloatArray:
        """(m, L) advantage of a step where it is dropped."""
        assert self.delta is not None
        return np.where(self.keeps(t), 0.0, self.delta[t][:, None])


def _cells(walk: LaneWalk) -> _Cells:
    block, values = walk.block, walk.values
    states, actions, times = block.states.T, block.actions.T, block.times.T
    alive = np.ones(states.shape, dtype=bool) if block.alive is None else block.alive.T
    error = v = delta = None
    if values.q is not None and values.v is not None:
        fold, at = 0 if walk.fold_of is None else walk.fold_of, np.minimum(times, values.v.shape[1] - 1)
        error = np.where(alive, block.rewards.T - values.q[fold, at, states, actions], 0.0)
        v = np.where(alive, values.v[fold, at, states], 0.0)
    if values.delta is not None:
        delta = np.where(alive, values.delta[np.minimum(times, len(values.delta) - 1), states], 0.0)
    rho, kept = walk.weighting.on(block).full.T, np.ascontiguousarray(~walk.lanes.dropped.T)
    return _Cells(rho, kept, states, actions, block.rewards.T, alive, error, v, delta)


def _in_range(weights: FloatArray) -> bool:
    positive = weights[weights > 0]
    return positive.size == 0 or bool(
        positive.max() <= np.exp(SAFE_LOG) and positive.min() >= np.exp(-SAFE_LOG)
    )


class _Tables:
    """Weights by step and place, in every lane."""

    def __init__(self, walk: LaneWalk, size: int) -> None:
        folds, lanes = walk.values.count, len(walk.lanes)
        self.sums = np.zeros((folds, walk.block.horizon, size, lanes))
        self._size = size
        self._first = 0 if walk.fold_of is None else walk.fold_of * size

    def add(self, t: int, place: IntArray, alive: BoolArray, weights: FloatArray) -> None:
        """The weights of one step."""
        lanes = weights.shape[1]
        index = ((self._first + place)[alive][:, None] * lanes + np.arange(lanes)).ravel()
        folds = len(self.sums)
        sums = sums_by(index, weights[alive].ravel(), folds * self._size * lanes)
        self.sums[:, t] += sums.reshape(folds, self._size, lanes)


def numpy_sums(walk: LaneWalk, gamma: float, wanted: Wanted) -> LaneSums:
    """The first walk."""
    cells, block, n_lanes = _cells(walk), walk.block, len(walk.lanes)
    n_states, n_actions = walk.lanes.n_states, walk.ratios.n_actions
    weight, weights = np.empty((block.horizon, n_lanes)), np.ones((block.n, n_lanes))
    wanted_by_step = (wanted.steps, wanted.robust, wanted.robust, wanted.lost)
    by_step = [np.empty_like(weight) if each else None for each in wanted_by_step]
    weighted, robust, before, lost = by_step
    by_state = _Tables(walk, n_states) if wanted.by_state else None
    by_pair = _Tables(walk, n_states * n_actions) if wanted.by_pair else None
    for t in range(block.horizon):
        if by_state is not None:
            by_state.add(t, cells.state[t], cells.alive[t], weights)
        _sum_step(before, t, cells.v, weights)
        if lost is not None:
            lost[t] = np.einsum("ml,ml->l", weights, cells.gain(t))
        cells.times(t, weights)
        if ((t + 1) % walk.ratios.stride == 0 or t + 1 == block.horizon) and not _in_range(weights):
            return LaneSums.none(block.n)
        weight[t] = weights.sum(axis=0)
        _sum_step(weighted, t, cells.reward, weights)
        _sum_step(robust, t, cells.error, weights)
        if by_pair is not None:
            by_pair.add(t, cells.state[t] * n_actions + cells.action[t], cells.alive[t], weights)
    tables = [None if table is None else table.sums for table in (by_state, by_pair)]
    whole = WholeSums.of(weights, block.returns(gamma))
    return LaneSums(block.n, False, weight, whole, *by_step, *tables)


def _sum_step(sums: FloatArray | None, t: int, values: FloatArray | None, weights: FloatArray) -> None:
    """The weighted sum of the values of step t, (H, m), in row t of the sums, if they are wanted."""
    if sums is not None and values is not None:
        sums[t] = values[t] @ weights


def numpy_influences(walk: LaneWalk, factors: LaneFactors) -> LaneInfluences:
    """The second walk."""
    cells, block, n_lanes = _cells(walk), walk.block, len(walk.lanes)
    weights = np.ones((block.n, n_lanes))
    steps, robust, lost = (None if pull is None else np.zeros((block.n, n_lanes)) for pull in factors.after)
    slope, slope_before = factors.slope, factors.slope_before
    for t in range(block.horizon):
        if lost is not None and slope_before is not None and factors.pull_lost is not None:
            lost += weights * (cells.gain(t) * slope_before[t] - factors.pull_lost[t])
        _pull_step(robust, t, cells.v, weights, slope_before, factors.pull_before)
        cells.times(t, weights)
        _pull_step(steps, t, cells.reward, weights, slope, factors.pull)
        _pull_step(robust, t, cells.error, weights, slope, factors.pull_robust)
    # All of these have ended, while longer episodes of other blocks go on.
    for term, after in zip((steps, robust, lost), factors.after, strict=True):
        if term is not None and after is not None:
            term -= weights * after[block.horizon]
    return LaneInfluences(steps, robust, lost, weights)


def _pull_step(
    term: FloatArray | None,
    t: int,
    values: FloatArray | None,
    weights: FloatArray,
    slope: FloatArray | None,
    pull: FloatArray | None,
) -> None:
    """Add W (value slope - pull) of step t to a term, if it is wanted."""
    if term is not None and slope is not None and pull is not None:
        assert values is not None
        term += weights * (values[t][:, None] * slope[t] - pull[t])
