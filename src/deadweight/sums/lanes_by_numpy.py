"""The walks of `lanes` without the kernel: the same operations, step by step over all episodes of a block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.sums.lanes import (
    LaneFactors,
    LaneInfluences,
    LaneSums,
    LaneWalk,
    Wanted,
)
from deadweight.sums.running import SAFE_LOG
from deadweight.sums.whole_sums import WholeSums
from deadweight.typing import BoolArray, FloatArray, IntArray


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
        keeps: BoolArray = self.kept[self.state[t]]
        return keeps

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
        found = sums_by(index, weights[alive].ravel(), folds * self._size * lanes)
        self.sums[:, t] += found.reshape(folds, self._size, lanes)


def numpy_sums(walk: LaneWalk, gamma: float, wanted: Wanted) -> LaneSums:
    """The first walk."""
    cells, block, n_lanes = _cells(walk), walk.block, len(walk.lanes)
    n_states, n_actions = walk.lanes.n_states, walk.ratios.n_actions
    shape, weights = (block.horizon, n_lanes), np.ones((block.n, n_lanes))
    weight = np.empty(shape)
    weighted = np.empty(shape) if wanted.steps else None
    robust = np.empty(shape) if wanted.robust else None
    before = np.empty(shape) if wanted.robust else None
    lost = np.empty(shape) if wanted.lost else None
    by_state = _Tables(walk, n_states) if wanted.by_state else None
    by_pair = _Tables(walk, n_states * n_actions) if wanted.by_pair else None
    for t in range(block.horizon):
        if by_state is not None:
            by_state.add(t, cells.state[t], cells.alive[t], weights)
        if before is not None and cells.v is not None:
            before[t] = cells.v[t] @ weights
        if lost is not None:
            lost[t] = np.einsum("ml,ml->l", weights, cells.gain(t))
        cells.times(t, weights)
        if ((t + 1) % walk.ratios.stride == 0 or t + 1 == block.horizon) and not _in_range(weights):
            return LaneSums.none(block.n)
        weight[t] = weights.sum(axis=0)
        if weighted is not None:
            weighted[t] = cells.reward[t] @ weights
        if robust is not None and cells.error is not None:
            robust[t] = cells.error[t] @ weights
        if by_pair is not None:
            by_pair.add(t, cells.state[t] * n_actions + cells.action[t], cells.alive[t], weights)
    tables = [None if one is None else one.sums for one in (by_state, by_pair)]
    whole = WholeSums.of(weights, block.returns(gamma))
    return LaneSums(block.n, False, weight, whole, weighted, robust, before, lost, *tables)


def numpy_influences(walk: LaneWalk, factors: LaneFactors) -> LaneInfluences:
    """The second walk."""
    cells, block, n_lanes = _cells(walk), walk.block, len(walk.lanes)
    weights = np.ones((block.n, n_lanes))
    steps, robust, lost = (None if one is None else np.zeros((block.n, n_lanes)) for one in factors.after)
    for t in range(block.horizon):
        if lost is not None and factors.slope_before is not None and factors.pull_lost is not None:
            lost += weights * (cells.gain(t) * factors.slope_before[t] - factors.pull_lost[t])
        if robust is not None and factors.slope_before is not None and factors.pull_before is not None:
            assert cells.v is not None
            robust += weights * (cells.v[t][:, None] * factors.slope_before[t] - factors.pull_before[t])
        cells.times(t, weights)
        if steps is not None and factors.slope is not None and factors.pull is not None:
            steps += weights * (cells.reward[t][:, None] * factors.slope[t] - factors.pull[t])
        if robust is not None and factors.slope is not None and factors.pull_robust is not None:
            assert cells.error is not None
            robust += weights * (cells.error[t][:, None] * factors.slope[t] - factors.pull_robust[t])
    # All of these have ended, while longer episodes of other blocks go on.
    for found, after in zip((steps, robust, lost), factors.after, strict=True):
        if found is not None and after is not None:
            found -= weights * after[block.horizon]
    return LaneInfluences(steps, robust, lost, weights)
