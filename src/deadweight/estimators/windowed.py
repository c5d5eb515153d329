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
from deadweight.estimators.product import ProductFamily, Terms
from deadweight.estimators.starts import Cells, QUse
from deadweight.mdp.tabular import occupancies
from deadweight.question.core import Question
from deadweight.sums.blocks import Block, powers
from deadweight.sums.running import Running
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.model import successors


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
        values, model = question.values, question.model
        pi_e = question.pi_e("Win_k")
        self.q, self.pi_e, self.gamma = values.q.values, pi_e, question.gamma
        horizon, n_states = values.v.values.shape
        # Row t + 1 has the values after step t, and a last column those of the end.
        self.v = np.zeros((horizon + 1, n_states + 1))
        self.v[:-1, :-1], self.v[-1, :-1] = values.v.values, values.after[0]
        self.nothing_after = not values.after[0].any()
        self.d_e, d_b = (occupancies(model, pi, horizon) for pi in (pi_e, question.pi_b))
        self.ratios: FloatArray = divide(self.d_e, d_b)
        self.alive: FloatArray = self.d_e.sum(axis=1)

    def occupancy(self, question: Question) -> FloatArray:
        """(S,) sum over the steps of gamma^t times the probability of each state under pi_e."""
        if question.settled is not None:
            return question.settled.occupancy
        d_e = self.d_e
        if question.model_horizon > len(d_e):
            d_e = occupancies(question.model, self.pi_e, question.model_horizon)
        total: FloatArray = powers(self.gamma, len(d_e)) @ d_e
        return total

    def errors(self, block: Block) -> Errors:
        """Those of a block; found once."""
        return block.once(self, self._errors)

    def _errors(self, block: Block) -> Errors:
        after = successors(block, self.v.shape[1] - 1)
        known = after >= 0
        if self.nothing_after and block.horizon == len(self.q):
            # After the last step of all nothing counts, wherever it leads.
            known[:, -1] = block.lengths == block.horizon
        values = self.q[block.times, block.states, block.actions]
        delta = block.rewards + self.gamma * self.v[block.times + 1, after] - values
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
        return [Terms(Running(weights), values, counted=errors.known)]

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
        weights = Running(steps.weights(block, self.window) * steps.alive[: block.horizon])
        pairs = block.steps.pairs(steps.pi_e.shape[1])
        return Cells(weights, pairs, errors.known), Cells(weights, np.where(goes_on, after, 0), goes_on)


def windowed(question: Question, steps: ModelSteps, window: int) -> ProductFamily:
    """Win_k without DM, to be finished self-normalised."""
    return ProductFamily([Windowed(steps, window)], Weighting(question.pair), question.gamma, "leave")
