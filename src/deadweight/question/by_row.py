"""A question about a log whose rows are states of their own: features, or policies row by row.

Tables over states are tables over rows then, so ratios, drops and sums are what they are elsewhere. What is
different is where values come from: there is nothing to count, and a learner (`deadweight.values.row_values`)
gives them for each row, at the step at which it was logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.errors import EstimationError, OptionError
from deadweight.log.features import require_labels
from deadweight.log.row_numbers import step_of_rows
from deadweight.question.core import Question
from deadweight.question.solved_values import Values
from deadweight.sums.fields import Field, Table
from deadweight.typing import FloatArray, IntArray
from deadweight.values.crossfit import FOLDS
from deadweight.values.linear import LinearQ
from deadweight.values.model import Counts
from deadweight.values.row_values import MovedValues, RowLearner, Rows, RowValues, state_values


@dataclass(frozen=True, eq=False)
class RowQuestion(Question):
    """What is asked of a log row by row."""

    @cached_property
    def counts(self) -> Counts:
        """There are none: no state is visited twice."""
        require_labels(self.parts, "A table of counts")
        raise AssertionError("rows have no labels")

    @cached_property
    def pi_b(self) -> FloatArray:
        """(S, A) pi_b of all actions: as given, or the action that was taken if only propensities are known.

        In expectation over the actions taken the second is the first.
        """
        if self.pair.pi_b is not None:
            return self.pair.pi_b
        taken: FloatArray = np.full((self.pair.n_states, self.pair.n_actions), 1.0 / self.pair.n_actions)
        log = self.parts[0]
        taken[log.states] = np.eye(self.pair.n_actions)[log.actions]
        return taken

    @property
    def learner(self) -> RowLearner:
        """What gives the action values."""
        given = self.options.model
        if given is None:
            return LinearQ()
        if isinstance(given, RowLearner):
            return given
        raise OptionError(
            f"model must be LinearQ, RegressorQ or GivenQ where states have no labels; found "
            f"{type(given).__name__}.",
            fix="Leave model out, or pass deadweight.LinearQ().",
        )

    @property
    def has_values(self) -> bool:
        """Whether there may be action values of pi_e at all: a model is given, or can be learned."""
        known = self.options.model is not None or self.parts[0].features is not None
        return known and self.pair.pi_e is not None

    @property
    def can_solve_model(self) -> bool:
        """Whether there are values for every row."""
        return self.has_values

    @property
    def has_end(self) -> bool:
        """Whether values are those until the end: no episode was cut."""
        return self.options.solve == "settled" and self.time_limit is None and self.terminated == self.n

    @property
    def unsettled(self) -> bool:
        """Whether they were to settle, and have not."""
        return self.has_end and not self.row_values.settled

    @property
    def model_horizon(self) -> int:
        """Steps over which values are taken that do not settle."""
        limit = self.time_limit if self.options.solve == "settled" else None
        return max(self.horizon, limit or 0)

    @property
    def folds(self) -> int:
        """Number of folds: as asked for, or five of as many episodes."""
        asked = self.options.cross_fit
        if asked is None:
            return FOLDS if self.n >= FOLDS else 0
        if self.n < asked:
            raise EstimationError(
                f"cross_fit={asked} needs a log of at least {asked} episodes; found {self.n}.",
                fix="Use fewer folds, or cross_fit=0.",
            )
        return asked

    @cached_property
    def row_values(self) -> RowValues:
        """What the learner has made of the log."""
        if not self.has_values:
            self.pi_e("A model of the log")
            raise EstimationError(
                "There are no action values: a policy depends on more than the label of a state, and the log "
                "has no features to learn them from.",
                fix="Give the log features, or values by model=deadweight.GivenQ(q). IS to WPDIS need none.",
            )
        return self.learner.fit(self._rows)

    @cached_property
    def default_values(self) -> RowValues | None:
        """What the default makes of the log, where another learner has learned from it; None elsewhere.

        Values that are taken as known are checked in other ways, and more bumps than the default's need none.
        """
        learner = self.learner
        rich = isinstance(learner, LinearQ) and learner.is_rich
        moved = isinstance(self.row_values, MovedValues)
        return LinearQ().fit(self._rows) if moved and not rich else None

    @property
    def _rows(self) -> Rows:
        """What a learner is given."""
        steps = None if self.has_end else self.model_horizon
        return Rows(self.parts[0], self.pi_e("A model of the log"), self.gamma, steps, self.folds)

    @cached_property
    def values(self) -> Values[Table]:
        """Q and V of each row, at its step, from models that have not seen it."""
        q = self.row_values.q
        v = state_values(q, self.pi_e("A model of the log"))
        fits = (self.row_values,) if isinstance(self.row_values, MovedValues) else ()
        return Values(Table(q, by_action=True), Table(v), np.zeros((1, len(v))), fits, times=self.times)

    @property
    def cross_fitted_values(self) -> Values[Field]:
        """The same."""
        return self.values

    def cross_fitted(self, count: int) -> Values[Field]:
        """The same."""
        return self.values

    @cached_property
    def gaps(self) -> FloatArray:
        """(S,) max_a Q - min_a Q of each row, at its step."""
        q = self.row_values.q
        return np.asarray(q.max(axis=1) - q.min(axis=1))

    @cached_property
    def delta(self) -> Table:
        """(S,) sum_a (pi_e - pi_b)(a|x) Q(x, a): what a dropped step loses."""
        return Table(np.einsum("sa,sa->s", self.row_values.q, self.gain))

    @cached_property
    def times(self) -> IntArray:
        """(S,) the step of each row; 0 for what follows an episode."""
        log = self.parts[0]
        times: IntArray = np.zeros(self.pair.n_states, dtype=np.int64)
        times[log.states] = step_of_rows(log)
        return times
