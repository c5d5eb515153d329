r"""The direct method (DM): the value of pi_e in the fitted model, without any ratio.

.. math:: \hat G = \sum_s \hat d_0(s) \hat V_0(s)

Its influence is that of each episode on the first states, which is V_0, and on the model, see
`deadweight.values.model_influence`. Its standard error is that of the influence and of what pairs that were
hardly seen could do, see `deadweight.values.model_influence.unseen_errors`: both variances together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.estimators.product import Fit
from deadweight.mdp.tabular import TabularMDP, state_values
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import Added
from deadweight.tools.limits import NUMBER, require
from deadweight.typing import FloatArray
from deadweight.values.model import Counts
from deadweight.values.model_influence import FittedModel, Surprise, at_steps
from deadweight.values.rows import OfEpisodes, RowValues
from deadweight.values.until_end import Settled


@dataclass(frozen=True)
class Episodes(Added):
    """A number of episodes."""

    n: int


@dataclass(frozen=True, eq=False)
class Direct:
    """DM. Without counts the model is a given one, whose value has no sampling noise."""

    model: TabularMDP  # the fitted model, or the one that the user gives
    pi_e: FloatArray  # (S, A)
    horizon: int  # steps over which the model is solved
    gamma: float
    counts: Counts | None  # what the model was fitted to
    unseen: str = "pool"  # what unseen actions do in the fitted model, see `fit_mdp`
    settled: Settled | None = None  # values until the end, where the model has no horizon

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("direct", self.model, self.gamma)

    def summarise(self, block: Block) -> Episodes:
        """Nothing to sum: the model has it all."""
        return Episodes(block.n)

    def finish(self, summary: Episodes, weighted: bool) -> Fit:
        """The model's value, and the influence of each episode on it."""
        v = self.v
        value = float(self.model.d0 @ v[0])
        if self.counts is None:
            return Fit(value, std_error=0.0)
        chain = None if self.settled is None else self.settled.until_end
        fitted = FittedModel(
            self.model, self.counts, self.pi_e, v, chain is not None, self.gamma, self.unseen, until_end=chain
        )
        (by_model,) = fitted.influences([self._start], summary.n)
        return Fit(value, influence=Together((FirstStates(v[0]), by_model)))

    @cached_property
    def v(self) -> FloatArray:
        """(H, S) state values at the steps of the model; one row for all of them where they settle."""
        if self.settled is not None:
            return self.settled.v[None, :]
        require(
            NUMBER * float(self.horizon) * self.model.n_states,
            f"V of {self.horizon:,} steps x {self.model.n_states:,} states",
            "Use coarser states, or estimators without a model (WIS, WPDIS).",
        )
        return state_values(self.model, self.pi_e, self.horizon, self.gamma)

    def surprise(self, steps: int) -> Surprise | None:
        """The errors of the model's values on a log of so many steps; None for a given model."""
        if self.counts is None:
            return None
        if self.settled is not None:
            return Surprise(self.model, np.append(self.settled.v, 0.0)[None, :], self.gamma)
        after = self.v[steps] if steps < len(self.v) else np.zeros(self.model.n_states)
        return Surprise(self.model, at_steps(self.v[:steps], after), self.gamma)

    def _start(self, t: int) -> FloatArray | None:
        """(S * A,) the derivative by Q_t: that of V_0 in the first states."""
        return (self.model.d0[:, None] * self.pi_e).ravel() if t == 0 else None


@dataclass(frozen=True, eq=False)
class DirectByRow:
    """DM where states are rows: the mean of V at the first row of each episode."""

    values: RowValues

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("direct", self.values)

    def summarise(self, block: Block) -> Episodes:
        """Nothing to sum: the model has it all."""
        return Episodes(block.n)

    def finish(self, summary: Episodes, weighted: bool) -> Fit:
        """The mean, and the influence of each episode on it."""
        start = self.values.start
        influence, by_model = OfEpisodes(start), self.values.start_influence
        return Fit(
            float(start.mean()), influence=influence if by_model is None else Together((influence, by_model))
        )


@dataclass(frozen=True, eq=False)
class Together:
    """The sum of several influences."""

    addends: tuple[Callable[[Block], FloatArray], ...]

    def __call__(self, block: Block) -> FloatArray:
        """(m,) of a block's episodes, up to a constant."""
        return sum((influence(block) for influence in self.addends), start=np.zeros(block.n))


@dataclass(frozen=True, eq=False)
class FirstStates:
    """Influence of episodes by their first states."""

    values: FloatArray  # (S,) V_0

    def __call__(self, block: Block) -> FloatArray:
        """(m,) influence, up to a constant."""
        return self.values[block.log.states[block.log.offsets[block.rows]]]
