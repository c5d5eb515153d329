r"""Windowed weights (Win_k): the model's value, corrected by errors that only the latest k ratios weigh.

.. math:: \hat G = \mathrm{DM} + \sum_t \gamma^t p_t \frac{\sum_i w_{it} \delta_{it}}{\sum_i w_{it}}, \qquad
   w_{it} = \mu_b(s_{ib}) \, \rho_{ib} \cdots \rho_{it}, \quad b = \max(0, t - k + 1)

where delta = r + gamma V_{t+1}(s') - Q_t(s, a) is the model's error at a step, mu_t(s) the ratio of the
state's probabilities at step t under pi_e and pi_b, and p_t the share of episodes that pi_e keeps going so
long, both in the fitted model. With a right model all of it is a small correction; with a wrong one, errors
of rewards and of the next few transitions are found, at a variance that does not grow with the length of the
episodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import divide
from deadweight.estimators.product import Normalised, ProductFamily, Terms
from deadweight.estimators.starts import Cells, QUse, StartSums
from deadweight.estimators.window_walk import WindowWalks
from deadweight.mdp.tabular import occupancies
from deadweight.question.core import Question
from deadweight.sums.blocks import Block
from deadweight.sums.running import Running
from deadweight.sums.summaries import ColumnSums
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.hardly_seen import at_steps, known_successors


@dataclass(frozen=True, eq=False)
class Errors:
    """The model's errors on a block, and where its steps lead.

    Attributes:
      delta: (m, H) 0 where the log does not say where a step leads.
      known: (m, H) where it does.
      after: (m, H) where each step leads, the end included, -1 for unknown and on padding.
    """

    delta: FloatArray
    known: BoolArray
    after: IntArray


class ModelSteps:
    """What the model says of the steps of a log: values, state ratios and the share that goes on.

    Args:
      question: with a model that can be solved.
    """

    def __init__(self, question: Question) -> None:
        values = question.values
        pi_e = question.pi_e("Win_k")
        self.q, self.pi_e, self.gamma = values.q.values, pi_e, question.gamma
        # Row t + 1 has the values after step t, and a last column those of the end.
        self.v = at_steps(values.v.values, values.after[0])
        self.nothing_after = not values.after[0].any()
        self.d_e = question.reached
        d_b = occupancies(question.chain, question.pi_b, question.horizon)
        self.ratios: FloatArray = divide(self.d_e, d_b)
        self.alive: FloatArray = self.d_e.sum(axis=1)
        self.weighting = Weighting(question.pair)
        self.walks = WindowWalks(self)

    def errors(self, block: Block) -> Errors:
        """Those of a block; found once."""
        return block.once(self, self._errors)

    def _errors(self, block: Block) -> Errors:
        after, known = known_successors(block, self.v)
        values = self.q[block.times, block.states, block.actions]
        discount = self.gamma if block.during is None else block.during
        delta = block.paid + discount * self.v[block.times + 1, after] - values
        return Errors(np.where(known, delta, 0.0), known, after)

    def weights(self, block: WeightedBlock, window: int) -> FloatArray:
        """(m, H) mu_b(s_b) times the latest `window` ratios."""
        rho, steps = block.full, block.steps
        ratios = self.ratios[steps.times, steps.states]
        weights = rho.copy()
        for back in range(1, window):
            weights[:, back:] *= rho[:, :-back]
        first = min(window, block.horizon)
        weights[:, first:] *= ratios[:, 1 : block.horizon - window + 1]
        weights[:, :first] *= ratios[:, :1]
        if steps.standing is not None:  # a step whose outcome is known stands for those whose was cut off
            weights *= steps.standing[1]
        return weights


@dataclass(frozen=True)
class Windowed:
    """Terms of Win_k without DM: (w_t, p_t delta_t) for each step whose successor is known.

    Attributes:
      steps: what the model says.
      window: k.
    """

    steps: ModelSteps
    window: int
    n_groups = 1

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step; an episode leaves the normaliser with its end."""
        errors = self.steps.errors(block.steps)
        weights = self.steps.weights(block, self.window)
        values = errors.delta * self.steps.alive[: block.horizon]
        if block.steps.before is not None:
            values = values * _time_discount(block.steps, block.steps.before)
        return [Terms(Running(weights), values, counted=errors.known)]

    def summed(self, block: Block) -> ColumnSums | None:
        """The sums of its terms by the kernel; None where it does not take the block."""
        walk = self.steps.walks.on(block)
        return None if walk is None else walk.column_sums(self.window)

    def start_sums(self, block: Block) -> tuple[StartSums, StartSums] | None:
        """The sums of its uses, likewise."""
        walk = self.steps.walks.on(block)
        return None if walk is None else walk.start_sums(self.window)

    def influence(self, block: Block, on: Normalised) -> FloatArray | None:
        """(m,) the influence of the episodes on it, likewise."""
        found = self.steps.walks.influences(block, [(self.window, on)])
        return None if found is None else found[0]

    @property
    def uses(self) -> tuple[QUse, QUse]:
        """Minus Q_t of the step, and V_{t+1} of its successor."""
        return QUse(0), QUse(0, self.steps.pi_e, later=True)

    def used(self, block: WeightedBlock) -> tuple[Cells, Cells]:
        """The steps whose successor is known, and those of them that lead to a state."""
        steps = self.steps
        errors = steps.errors(block.steps)
        after = errors.after
        goes_on = (after >= 0) & (after < steps.v.shape[1] - 1)
        cells = steps.weights(block, self.window) * steps.alive[: block.horizon]
        if block.steps.standing is not None:  # which the weights hold already
            cells /= block.steps.standing[0]
        weights = Running(cells)
        pairs = block.steps.pairs(steps.pi_e.shape[1])
        return Cells(weights, pairs, errors.known), Cells(weights, np.where(goes_on, after, 0), goes_on)


def model_steps(question: Question) -> ModelSteps:
    """What the model of a question says of the steps of its log; made once."""
    return question.made_once((ModelSteps,), lambda: ModelSteps(question))


def _time_discount(block: Block, counts: FloatArray) -> FloatArray:
    """(m, H) what rows count by their durations alone: the rows that they stand for are in the weights."""
    return counts if block.standing is None else counts / block.standing[0]


def windowed(question: Question, steps: ModelSteps, window: int) -> ProductFamily:
    """Win_k without DM, to be finished self-normalised."""
    return ProductFamily([Windowed(steps, window)], Weighting(question.pair), question.gamma, "leave")
