r"""The correction (C-SIS, C-WSIS, C-SPDIS, C-WSPDIS), and with it the bias of every state-based estimate.

Dropping the ratios of a set D evaluates mu_D, the policy equal to pi_b on D and to pi_e elsewhere. By the
performance-difference lemma the value that is lost is

.. math:: m = \frac1n \sum_i \sum_t \gamma^t B_{1:t-1} \, 1\{s_t \in D\} \, \delta_t(s_t), \qquad
   \delta_t(s) = \sum_a (\pi_e(a|s) - \pi_b(a|s)) \, Q_t(s, a)

With the fitted Q this is a low-noise estimate of -bias, where the empirical Cov(A, BG) carries all the noise
that dropping was to avoid. The corrected estimators add m; weighted ones with self-normalised B.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from deadweight.estimators.product import Terms
from deadweight.estimators.starts import Cells, QUse
from deadweight.sums.fields import Field
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.typing import FloatArray


@dataclass(frozen=True)
class MissingAdvantage:
    """Terms of m: (B_{1:t-1}, delta_t(s_t)) at each dropped step.

    Attributes:
      delta: of each step.
      gain: (S, A) pi_e - pi_b, of which delta is the sum with Q_t.
    """

    delta: Field
    gain: FloatArray = field(compare=False)  # equal values of delta make equal terms
    n_groups = 1
    lane = "lost"

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step, zero where the ratio was kept; the weight goes on one step past the end."""
        values = np.zeros((block.n, block.horizon + 1))
        if block.dropped is not None:
            values[:, :-1] = np.where(block.dropped, self.delta.on(block.steps), 0.0)
        members = block.members(finished)
        if members is not None:
            members = np.concatenate([members, np.zeros((block.n, 1), dtype=bool)], axis=1)
        return [Terms(block.running.lagged, values, counted=members)]

    @property
    def uses(self) -> tuple[QUse]:
        """The advantage of a dropped step."""
        return (QUse(0, self.gain),)

    def used(self, block: WeightedBlock) -> tuple[Cells]:
        """The dropped steps, with the weight before them."""
        before, states = block.running.lagged.first(block.horizon), block.steps.states
        nowhere = np.zeros(states.shape, dtype=bool)
        return (Cells(before, states, nowhere if block.dropped is None else block.dropped),)
