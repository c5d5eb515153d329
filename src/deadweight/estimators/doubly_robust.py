r"""Doubly robust estimation (DR, WDR and, with a drop, DRSIS, WDRSIS).

.. math:: \hat G = \sum_i \sum_t \gamma^t \left[ w_{it} (r_{it} - Q_t(s,a)) + w_{i,t-1} V_t(s) \right]

with w_it = W_it / n, or W_it / sum_j W_jt when weighted, and w_{i,-1} = 1 / n. The model's value is the
baseline and the ratios weigh only what it gets wrong. Jiang & Li (2016); Thomas & Brunskill (2016).
"""

from __future__ import annotations

import numpy as np

from deadweight.blocks import Block
from deadweight.estimators.product import Terms
from deadweight.typing import FloatArray, IntArray
from deadweight.weighted_block import WeightedBlock


class DoublyRobust:
    """Terms of DR: (W_t, r_t - Q_t) and (W_{t-1}, V_t) for each step.

    Args:
      q: (folds, T, S, A) action values; one fold unless the model is cross-fitted.
      v: (folds, T, S) state values.
      fold_of: (n,) which fold's values an episode uses; None: the only one.
    """

    def __init__(self, q: FloatArray, v: FloatArray, fold_of: IntArray | None = None) -> None:
        self.q, self.v, self.fold_of = q, v, fold_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DoublyRobust) and other.q is self.q

    def __hash__(self) -> int:
        return hash((DoublyRobust, self.q.shape))

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """Two terms a step; the second's weight is carried one step past the end."""
        q, v = block.steps.once(self, self._values)
        before = np.concatenate([v, np.zeros((block.n, 1))], axis=1)
        weights = block.running
        return [
            Terms(weights, block.rewards - q, counted=block.members(finished)),
            Terms(weights.lagged, before, counted=block.members(finished, lagged=True)),
        ]

    def _values(self, block: Block) -> tuple[FloatArray, FloatArray]:
        """Q_t(s, a) and V_t(s) of each cell, zero on padding."""
        _, horizon, n_states, n_actions = self.q.shape
        at = block.times * n_states + block.states
        if self.fold_of is not None:
            at = at + self.fold_of[block.rows][:, None] * (horizon * n_states)
        q = self.q.ravel().take(at * n_actions + block.actions)
        v = self.v.ravel().take(at)
        if block.alive is not None:
            q[~block.alive] = 0.0
            v[~block.alive] = 0.0
        return q, v
