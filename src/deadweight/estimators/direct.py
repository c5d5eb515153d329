r"""The direct method (DM): the value of pi_e in the fitted model, without any ratio.

.. math:: \hat G = \sum_s \hat d_0(s) \hat V_0(s)

Its standard error is that of the influence of each episode on the first states, which is V_0, and on the
model, see `deadweight.values.model_influence`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from deadweight.basics.memory import NUMBER, require
from deadweight.estimators.base import Fit
from deadweight.mdp.tabular import TabularMDP, backward
from deadweight.sums.blocks import Block
from deadweight.typing import FloatArray
from deadweight.values.model import Counts
from deadweight.values.model_influence import FittedModel, ModelInfluence
from deadweight.values.settling import Settled


@dataclass(frozen=True)
class Episodes:
    """A number of episodes."""

    n: int

    def merge(self, other: Episodes) -> Episodes:
        """Both together."""
        return Episodes(self.n + other.n)


class Direct:
    """DM.

    Args:
      model: the fitted model, or the one that the user gives.
      pi_e: (S, A).
      horizon: steps over which the model is solved.
      gamma: discount.
      counts: what the model was fitted to; None for a given model, whose value has no sampling noise.
      unseen: what unseen actions do in the fitted model, see `deadweight.values.model.fit_mdp`.
      settled: values until the end, where the model has no horizon.
    """

    def __init__(
        self,
        model: TabularMDP,
        pi_e: FloatArray,
        horizon: int,
        gamma: float,
        counts: Counts | None,
        unseen: str = "pool",
        settled: Settled | None = None,
    ) -> None:
        self.model, self.pi_e, self.horizon, self.gamma = model, pi_e, horizon, gamma
        self.counts, self.unseen, self.settled = counts, unseen, settled

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("direct", self.model, self.gamma)

    def summarise(self, block: Block) -> Episodes:
        """Nothing to sum: the model has it all."""
        return Episodes(block.n)

    def finish(self, summary: Episodes, weighted: bool) -> Fit:
        """The model's value, and the influence of each episode on it."""
        if self.settled is not None:
            v = self.settled.v[None, :]
        else:
            require(
                NUMBER * float(self.horizon) * self.model.n_states,
                f"V of {self.horizon:,} steps x {self.model.n_states:,} states",
                "Use coarser states, or estimators without a model (WIS, WPDIS).",
            )
            v = np.empty((self.horizon, self.model.n_states))
            for t, _, v_t in backward(self.model, self.pi_e, self.horizon, self.gamma):
                v[t] = v_t
        value = float(self.model.d0 @ v[0])
        if self.counts is None:
            return Fit(value, std_error=0.0)
        settled = self.settled is not None
        fitted = FittedModel(self.model, self.counts, self.pi_e, v, settled, self.gamma, self.unseen)
        return Fit(value, influence=DirectInfluence(v[0], fitted.influence(self._start, summary.n)))

    def _start(self, t: int) -> FloatArray | None:
        """The derivative by Q_t: that of V_0 in the first states."""
        return direct_start(self.model, self.pi_e) if t == 0 else None


def direct_start(model: TabularMDP, pi_e: FloatArray) -> FloatArray:
    """(S * A,) the derivative of the model's value by Q_0."""
    return (model.d0[:, None] * pi_e).ravel()


@dataclass(frozen=True, eq=False)
class DirectInfluence:
    """Influence of the episodes of a block by their first states and by the model."""

    first: FloatArray  # (S,) V_0
    model: ModelInfluence

    def __call__(self, block: Block) -> FloatArray:
        """(m,) influence, up to a constant."""
        found: FloatArray = self.first[block.states[:, 0]] + self.model(block)
        return found
