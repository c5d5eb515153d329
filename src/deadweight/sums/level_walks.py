r"""Walks at every level of a path: one reading of a block gives the sums of all its nested drop sets.

The drop sets of a path are nested: a state is dropped from one level on, its *entry*, and kept at all levels
before it. A step therefore multiplies the running weights of the levels before its entry by its ratio and
leaves the others alone. The first walk sums, for each step and level,

.. math:: \sum_i W_t, \quad \sum_i W_t y_t, \quad \sum_i W_{t-1} v_t, \quad
   \sum_i W_{t-1} 1\{s_t \in D\} \delta_t

with y = r for per-decision terms, and y = r - Q, v = V for doubly robust ones. The second walk gives the
influence of each episode, once the normalisers are known. Both are compiled where there is a kernel, with
the same operations in numpy otherwise; a block whose products leave the range of doubles is declined.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.sums import kernel
from deadweight.sums.blocks import Block, discounts
from deadweight.sums.running import SAFE_LOG
from deadweight.sums.weighting import Weighting
from deadweight.typing import AnyArray, FloatArray, IntArray

# Levels lie in memory in groups that fill a vector register.
LANES = 4


@dataclass(frozen=True, eq=False)
class NestedDrops:
    """From which level on each state is dropped.

    Attributes:
      entry: (S,) level at which a state is first dropped.
      n_levels: number of levels; a state with this entry is never dropped.
    """

    entry: IntArray
    n_levels: int

    @property
    def width(self) -> int:
        """Levels in memory; those past the last are walked along and thrown away."""
        return -(-self.n_levels // LANES) * LANES


@dataclass(frozen=True, eq=False)
class LevelValues:
    """What is weighed besides rewards: advantages of dropped steps and, for doubly robust terms, Q and V.

    Attributes:
      delta: (T, S).
      q: (folds, T, S, A); None for per-decision terms.
      v: (folds, T, S).
      fold_of: (n,) which fold an episode uses; None: the only one.
    """

    delta: FloatArray
    q: FloatArray | None = None
    v: FloatArray | None = None
    fold_of: IntArray | None = None

    @property
    def arguments(self) -> tuple[AnyArray | None, ...]:
        """What the kernel is told of the values."""
        q, v = (None if table is None else table.reshape(-1) for table in (self.q, self.v))
        return (q, v, self.delta.reshape(-1), self.fold_of)


@dataclass(frozen=True, eq=False)
class LevelSums:
    """Sums over the episodes of a block, each (H, L); `before` only for doubly robust terms."""

    weight: FloatArray
    weighted: FloatArray
    lost: FloatArray
    before: FloatArray | None
    final: FloatArray  # (m, L) whole weights
    returns: FloatArray  # (m,)


@dataclass(frozen=True, eq=False)
class LevelFactors:
    """Factors of the influence of each step, (T, L): W_t (y slope - pull), likewise for weights before it."""

    slope: FloatArray
    pull: FloatArray
    slope_before: FloatArray
    pull_lost: FloatArray
    pull_before: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class LevelInfluences:
    """Influence of each episode at each level, (m, L); `lost` is there for per-decision terms."""

    terms: FloatArray
    lost: FloatArray | None
    final: FloatArray


class LevelWalk:
    """A block, walked along at every level.

    Args:
      block: some episodes.
      weighting: their ratios, nothing dropped.
      drops: the drop sets.
      values: what is weighed.
    """

    def __init__(self, block: Block, weighting: Weighting, drops: NestedDrops, values: LevelValues) -> None:
        self.block, self.weighting, self.drops, self.values = block, weighting, drops, values
        self.ratios = weighting.for_kernel(block.log)

    @property
    def _columns(self) -> tuple[AnyArray, ...]:
        log = self.block.log
        return (log.states, log.actions, log.rewards, log.offsets, self.block.rows)

    @property
    def _compiled(self) -> bool:
        arrays = (*self._columns, *self.ratios.arrays, *self.values.arguments)
        return kernel.KERNEL is not None and all(map(kernel.readable, arrays))

    @property
    def _levels(self) -> tuple[object, ...]:
        ratios, drops = self.ratios, self.drops
        level, entry = np.arange(drops.width, dtype=np.float64), drops.entry.astype(np.float64)
        return (*ratios.arrays[:5], entry, level, ratios.n_actions, ratios.stride)

    def sums(self, gamma: float) -> LevelSums | None:
        """The first walk; None where a product leaves the range of doubles."""
        if (self.ratios.log_bound or 0.0) > SAFE_LOG:
            return None
        if not self._compiled:
            return _numpy_sums(self, gamma)
        horizon, width, m = self.block.horizon, self.drops.width, self.block.n
        robust = self.values.q is not None
        weight, weighted, lost = (np.zeros((horizon, width)) for _ in range(3))
        before = np.zeros((horizon, width)) if robust else np.zeros((0, width))
        ended, final, returns = np.zeros((horizon + 1, width)), np.empty((m, width)), np.empty(m)
        results = tuple(a.reshape(-1) for a in (weight, weighted, before, lost, ended, final, returns))
        assert kernel.KERNEL is not None
        discount = discounts(gamma, horizon)
        if not kernel.KERNEL.path_sums(self._columns, self._levels, self.values.arguments, discount, results):
            return None
        levels = slice(self.drops.n_levels)
        return LevelSums(
            weight[:, levels],
            weighted[:, levels],
            lost[:, levels],
            before[:, levels] if robust else None,
            final[:, levels],
            returns,
        )

    def influences(self, factors: LevelFactors) -> LevelInfluences:
        """The second walk, of a block whose products have been in range in the first."""
        if not self._compiled:
            return _numpy_influences(self, factors)
        horizon, width, m = self.block.horizon, self.drops.width, self.block.n
        robust = self.values.q is not None
        pulls = factors.pull if factors.pull_before is None else factors.pull + factors.pull_before
        padded = [
            None if table is None else _padded(table, width)
            for table in (
                factors.slope[:horizon],
                factors.pull[:horizon],
                factors.slope_before[:horizon],
                factors.pull_before[:horizon] if factors.pull_before is not None else None,
                None if robust else factors.pull_lost[:horizon],
                _from_here_on(pulls)[: horizon + 1],
                None if robust else _from_here_on(factors.pull_lost)[: horizon + 1],
            )
        ]
        terms, final = np.zeros((m, width)), np.empty((m, width))
        lost = None if robust else np.zeros((m, width))
        results = tuple(None if a is None else a.reshape(-1) for a in (terms, lost, final))
        assert kernel.KERNEL is not None
        done = kernel.KERNEL.path_influences(
            self._columns, self._levels, self.values.arguments, tuple(padded), results
        )
        assert done, "the same products have been in range before"
        levels = slice(self.drops.n_levels)
        return LevelInfluences(terms[:, levels], None if lost is None else lost[:, levels], final[:, levels])


def _padded(table: FloatArray, width: int) -> FloatArray:
    """(T * width,) the table with columns of zeros after the last."""
    padded = np.zeros((len(table), width))
    padded[:, : table.shape[1]] = table
    return padded.reshape(-1)


def _from_here_on(table: FloatArray) -> FloatArray:
    """(T + 1, L) sums over the rows from each one on."""
    sums: FloatArray = np.zeros((len(table) + 1, table.shape[1]))
    np.cumsum(table[::-1], axis=0, out=sums[-2::-1] if len(table) else None)
    return sums


@dataclass(frozen=True, eq=False)
class _Cells:
    """The columns of a block step by step, (H, m), for the walks in numpy."""

    rho: FloatArray
    entry: IntArray
    value: FloatArray
    delta: FloatArray
    v: FloatArray | None


def _cells(walk: LevelWalk) -> _Cells:
    block, values = walk.block, walk.values
    states, actions, times = block.states.T, block.actions.T, block.times.T
    alive = np.ones(states.shape, dtype=bool) if block.alive is None else block.alive.T
    value, v = block.rewards.T, None
    if values.q is not None and values.v is not None:
        fold = 0 if values.fold_of is None else values.fold_of[block.rows]
        value = np.where(alive, value - values.q[fold, times, states, actions], 0.0)
        v = np.where(alive, values.v[fold, times, states], 0.0)
    delta = np.where(alive, values.delta[times, states], 0.0)
    return _Cells(walk.weighting.on(block).full.T, walk.drops.entry[states], value, delta, v)


def _in_range(weights: FloatArray) -> bool:
    positive = weights[weights > 0]
    return positive.size == 0 or bool(
        positive.max() <= np.exp(SAFE_LOG) and positive.min() >= np.exp(-SAFE_LOG)
    )


def _numpy_sums(walk: LevelWalk, gamma: float) -> LevelSums | None:
    cells, block, n_levels = _cells(walk), walk.block, walk.drops.n_levels
    level, weights = np.arange(n_levels), np.ones((block.n, n_levels))
    shape = (block.horizon, n_levels)
    weight, weighted, lost = np.empty(shape), np.empty(shape), np.empty(shape)
    before = None if cells.v is None else np.empty(shape)
    stride = walk.ratios.stride
    for t in range(block.horizon):
        kept = level < cells.entry[t][:, None]  # (m, L)
        lost[t] = np.einsum("ml,ml,m->l", weights, ~kept, cells.delta[t])
        if before is not None and cells.v is not None:
            before[t] = cells.v[t] @ weights
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weights *= np.where(kept, cells.rho[t][:, None], 1.0)
        if ((t + 1) % stride == 0 or t + 1 == block.horizon) and not _in_range(weights):
            return None
        weight[t], weighted[t] = weights.sum(axis=0), cells.value[t] @ weights
    return LevelSums(weight, weighted, lost, before, weights, block.returns(gamma))


def _numpy_influences(walk: LevelWalk, factors: LevelFactors) -> LevelInfluences:
    cells, block, n_levels = _cells(walk), walk.block, walk.drops.n_levels
    level, weights = np.arange(n_levels), np.ones((block.n, n_levels))
    terms = np.zeros((block.n, n_levels))
    lost = np.zeros((block.n, n_levels)) if cells.v is None else None
    for t in range(block.horizon):
        kept = level < cells.entry[t][:, None]
        if cells.v is not None and factors.pull_before is not None:
            terms += weights * (cells.v[t][:, None] * factors.slope_before[t] - factors.pull_before[t])
        if lost is not None:
            gain = np.where(kept, 0.0, cells.delta[t][:, None])
            lost += weights * (gain * factors.slope_before[t] - factors.pull_lost[t])
        weights *= np.where(kept, cells.rho[t][:, None], 1.0)
        terms += weights * (cells.value[t][:, None] * factors.slope[t] - factors.pull[t])
    # All of these have ended, while longer episodes of other blocks go on.
    after = factors.pull if factors.pull_before is None else factors.pull + factors.pull_before
    terms -= weights * after[block.horizon :].sum(axis=0)
    if lost is not None:
        lost -= weights * factors.pull_lost[block.horizon :].sum(axis=0)
    return LevelInfluences(terms, lost, weights)
