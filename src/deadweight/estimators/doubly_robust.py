r"""Doubly robust estimation (DR, WDR and, with a drop, DRSIS, WDRSIS).

.. math:: \hat G = \sum_i \sum_t \gamma^t \left[ w_{it} (r_{it} - Q_t(s,a)) + w_{i,t-1} V_t(s) \right]

with w_it = W_it / n, or W_it / sum_j W_jt when weighted, and w_{i,-1} = 1 / n. The model's value is the
baseline and the ratios weigh only what it gets wrong. Jiang & Li (2016); Thomas & Brunskill (2016).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from deadweight.estimators.product import Terms
from deadweight.estimators.starts import Cells, QUse
from deadweight.sums.fields import Field, Table
from deadweight.sums.running import Running
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.typing import FloatArray


@dataclass(frozen=True)
class DoublyRobust:
    """Terms of DR: (W_t, r_t - Q_t) and (W_{t-1}, V_t) for each step.

    Attributes:
      q: action values of the actions taken.
      v: state values.
      pi_e: (S, A) the policy whose values they are.
    """

    q: Field
    v: Field
    pi_e: FloatArray = field(compare=False)  # equal values make equal terms
    n_groups = 2
    lane = "robust"

    def weights(self, block: WeightedBlock) -> Running:
        """(m, H) after each step."""
        return block.running

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """Two terms a step; the second's weight is carried one step past the end."""
        q, v = self.q.on(block.steps), self.v.on(block.steps)
        before = np.concatenate([v, np.zeros((block.n, 1))], axis=1)
        weights = self.weights(block)
        return [
            Terms(weights, block.rewards - q, counted=block.members(finished)),
            Terms(weights.lagged, before, counted=block.members(finished, lagged=True)),
        ]

    @property
    def has_tables(self) -> bool:
        """Whether all values are tables, which the walks along lanes need."""
        return all(isinstance(one, Table) for one in self._fields)

    @property
    def by_time(self) -> bool:
        """Whether these tables have a value for each step."""
        return all(isinstance(one, Table) and one.by_time for one in self._fields)

    @property
    def _fields(self) -> list[Field]:
        return [one for field in (self.q, self.v) for one in getattr(field, "fields", (field,))]

    @property
    def uses(self) -> tuple[QUse, QUse]:
        """Minus Q_t in the first term, V_t in the second."""
        return QUse(0), QUse(1, self.pi_e)

    def used(self, block: WeightedBlock) -> tuple[Cells, Cells]:
        """Every step, with the weight after it and with the one before."""
        steps, weights = block.steps, self.weights(block)
        before = weights.lagged.first(block.horizon)
        pairs = steps.pairs(self.pi_e.shape[1])
        return Cells(weights, pairs, steps.alive), Cells(before, steps.states, steps.alive)
