r"""What another action is worth in each state, in several models at once.

.. math:: A(s, a) = \bar Q(s, a) - \sum_b \pi_b(b|s) \bar Q(s, b), \qquad
   \bar Q(s, a) = \frac{\sum_t \gamma^t d_t(s) \, Q_t(s, a)}{\sum_t \gamma^t d_t(s)}

with Q_t the action values of a policy and d_t the share of episodes in which it is in s at step t: its values
averaged over the steps at which it comes there. In a model that is solved until it settles they are the
same at all steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import divide
from deadweight.basics.memory import NUMBER, require
from deadweight.mdp.tabular import TabularMDP, backward, occupancies
from deadweight.question.core import Question
from deadweight.sums.blocks import powers
from deadweight.typing import FloatArray
from deadweight.values.settling import settle


@dataclass(frozen=True)
class Horizon:
    """Over how many steps models of a log are solved; or until they settle, where they do.

    Attributes:
      steps: at least the longest episode.
      settles: whether no episode was cut, so that values until the end mean something.
      gamma: discount.
    """

    steps: int
    settles: bool
    gamma: float

    @classmethod
    def of(cls, question: Question) -> Horizon:
        """As the log's own model is solved."""
        return cls(question.model_horizon, question.has_end, question.gamma)


@dataclass(frozen=True, eq=False)
class Models:
    """Models of the same states and actions, stacked: state s of the k-th is state k * S + s.

    Attributes:
      stacked: all of them as one.
      count: how many there are.
      horizon: how they are solved.
    """

    stacked: TabularMDP
    count: int
    horizon: Horizon

    def mean_values(self, pi: FloatArray, pi_b: FloatArray) -> FloatArray:
        """(count, S, A) Qbar of a policy (S, A) in each of the models.

        Where it never comes its values are averaged over the steps at which pi_b does: a state that is not
        visited any more, because of what was changed elsewhere, keeps what was found out about it.
        """
        every, horizon = self._tiled(pi), self.horizon
        shape = (self.count, *pi.shape)
        if horizon.settles:
            settled = settle(self.stacked, every, horizon.gamma, horizon.steps)
            if settled is not None:
                return settled.q.reshape(shape)
        visits = self._visits(every)
        never = visits.sum(axis=0) == 0
        if never.any():
            visits[:, never] = self._visits(self._tiled(pi_b))[:, never]
        total = np.zeros(self.stacked.r.shape)
        for t, q_t, _ in backward(self.stacked, every, horizon.steps, horizon.gamma):
            total += visits[t][:, None] * q_t
        return divide(total, visits.sum(axis=0)[:, None]).reshape(shape)

    def _tiled(self, pi: FloatArray) -> FloatArray:
        return np.tile(pi, (self.count, 1))

    def _visits(self, every: FloatArray) -> FloatArray:
        """(steps, count * S) discounted share of episodes in each state at each step."""
        horizon = self.horizon
        require(
            2 * NUMBER * float(horizon.steps) * self.stacked.n_states,
            f"Visits of {horizon.steps:,} steps x {len(every):,} states of {self.count} models",
            "Use coarser states.",
        )
        visits = occupancies(self.stacked, every, horizon.steps, stacked=True)
        visits *= powers(horizon.gamma, horizon.steps)[:, None]
        return visits


def advantages(q: FloatArray, pi_b: FloatArray) -> FloatArray:
    """(..., S, A) what each action is worth above pi_b."""
    above: FloatArray = q - (q * pi_b).sum(axis=-1, keepdims=True)
    return above
