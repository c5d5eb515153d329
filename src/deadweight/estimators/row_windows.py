r"""Windowed weights where states are rows: the model's value, corrected by errors that k ratios weigh.

As Win_k (`windowed`), but without the ratio of the state's probabilities under both policies, which nobody
knows of features, and with the share of the log's episodes that go on in place of the model's:

.. math:: \mathrm{DM} + \sum_t \gamma^t p_t \frac{\sum_i w_{it} \delta_{it}}{\sum_i w_{it}}, \qquad
   w_{it} = \rho_{i, t - k + 1} \cdots \rho_{it}

With a right model the errors have mean zero under any weights. With a wrong one this is no estimate of the
value, but it moves: that the last few actions matter in a way that the model does not see shows here first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.estimators.product import ProductFamily, Terms
from deadweight.question.core import Question
from deadweight.sums.fields import Field
from deadweight.sums.running import Running
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray


@dataclass(frozen=True, eq=False)
class RowWindow:
    """Terms (w_t, p_t delta_t) of each step.

    Attributes:
      q, v: values of the actions taken, and of the rows, by models that have not seen them.
      going: (T,) the share of episodes that have a step t.
      window: k.
    """

    q: Field
    v: Field
    going: FloatArray
    window: int
    n_groups = 1

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step; an episode leaves the normaliser with its end."""
        steps, rho = block.steps, block.full
        alive = np.ones(rho.shape, dtype=bool) if steps.alive is None else steps.alive
        weights = rho.copy()
        for back in range(1, min(self.window, block.horizon)):
            weights[:, back:] *= rho[:, :-back]
        after: FloatArray = np.zeros(rho.shape)
        after[:, :-1] = np.where(alive[:, 1:], self.v.on(steps)[:, 1:], 0.0)
        discount = gamma if steps.during is None else steps.during
        errors = steps.paid + discount * after - self.q.on(steps)
        values = np.where(alive, errors, 0.0) * self.going[: block.horizon]
        if steps.before is not None:
            values = values * steps.before
        return [Terms(Running(weights), values, counted=alive)]


def row_window(question: Question, window: int) -> ProductFamily:
    """The correction of a window, to be finished self-normalised."""
    log, values = question.parts[0], question.values
    going: FloatArray = (log.lengths[None] > np.arange(question.horizon)[:, None]).mean(axis=1)
    made = RowWindow(values.q, values.v, going, window)
    return ProductFamily([made], Weighting(question.pair), question.gamma, "leave")


def value_of_starts(question: Question) -> float:
    """Mean value of the first rows, by models that have not seen them."""
    log = question.parts[0]
    return float(question.values.v.along(log)[log.offsets[:-1]].mean())
