"""Question: what is asked of a log, with the model that several estimators share.

The fitted model, its Q values and the visit counts are computed when first asked for and kept, so that a
table of ten estimators fits one model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.errors import EstimationError, OptionError
from deadweight.mdp.tabular import TabularMDP, backward, gaps, occupancies
from deadweight.question.asked import Asked
from deadweight.question.solved_values import (
    Solved,
    Values,
    at_all_steps,
    require_room,
    solved_backwards,
    widest_gap,
)
from deadweight.sums.blocks import powers
from deadweight.sums.fields import ByFold, Field, Folds, Table
from deadweight.typing import FloatArray
from deadweight.values.hardly_seen import SquaresByState, unseen_errors
from deadweight.values.model import Counts, mdp_from_counts
from deadweight.values.model_influence import FittedModel
from deadweight.values.row_values import RowValues
from deadweight.values.settling import Settled, settle

__all__ = ["MOST_VALUES", "Question", "Values"]

# Largest table of Q_t(s, a), in numbers (256 MiB), that is made for defaults which use a model.
MOST_VALUES = 1 << 25


@dataclass(frozen=True, eq=False)
class Question(Asked):
    """What is asked of a log, the model in use, and its values for pi_e."""

    @cached_property
    def model(self) -> TabularMDP:
        """The model in use: the given one, or the fitted one."""
        given = self._given_model
        if given is None:
            return self.facts.model(self.shape, self.options.unseen)
        if self.by_duration:
            raise OptionError(
                "model= does not say how long steps take, and this log has durations.",
                fix="Leave model out, or use gamma=1.0.",
            )
        if given.r.shape != (self.pair.n_states, self.pair.n_actions):
            raise OptionError(
                f"model has {given.n_states} states and {given.n_actions} actions; log and policies have "
                f"{self.pair.n_states} and {self.pair.n_actions}.",
                fix="Number states and actions of the model as in the log and the policies.",
            )
        return given

    @property
    def _given_model(self) -> TabularMDP | None:
        """The model that the user gives; values row by row make a question of rows."""
        given = self.options.model
        assert given is None or isinstance(given, TabularMDP)
        return given

    @cached_property
    def chain(self) -> TabularMDP:
        """The model's transitions as they are, without a discount that durations have put into them."""
        if not self.by_duration:
            return self.model
        return mdp_from_counts(self.counts.without_durations(), self.horizon, self.options.unseen)

    @property
    def has_end(self) -> bool:
        """Whether the model has no horizon, of its own or by a cut: then it is solved until it settles."""
        given = self._given_model
        return (
            self.options.solve == "settled"
            and (given is None or not given.has_limit)
            and self.time_limit is None
            and self.terminated == self.n
        )

    @cached_property
    def settled(self) -> Settled | None:
        """Values until the end; None where the model has a horizon, or where they never settle."""
        model = self.model  # first: the pass for its counts takes a stored log's census as well
        return self._settled(model) if self.has_end else None

    @property
    def unsettled(self) -> bool:
        """Whether values were to settle, and have not."""
        return self.has_end and self.settled is None

    @cached_property
    def model_horizon(self) -> int:
        """Steps over which a model that is not settled is solved, at least the longest episode.

        A given model may have a horizon of its own, and a fitted one that of a time limit which no episode
        has reached; else it is the longest episode.
        """
        given = self._given_model
        own = given.horizon if given is not None and given.has_limit else None
        if own is None and self.options.solve == "settled":
            own = self.time_limit
        return max(self.horizon, own or 0)

    @cached_property
    def reached(self) -> FloatArray:
        """(T, S) the probability of each state at each step of the log under pi_e, in the model."""
        return occupancies(self.chain, self.pi_e("Visits under pi_e"), self.horizon)

    @cached_property
    def occupancy(self) -> FloatArray:
        """(S,) sum over the steps of the model of gamma^t times the probability of each state under pi_e."""
        if self.settled is not None:
            return self.settled.occupancy
        reached = self.reached
        if self.model_horizon > len(reached) or self.chain is not self.model:
            reached = occupancies(self.model, self.pi_e("Visits under pi_e"), self.model_horizon)
        total: FloatArray = powers(self.gamma, len(reached)) @ reached
        return total

    def unseen_errors(self, squares: SquaresByState) -> FloatArray:
        """(S, A) what pairs that the fitted model hardly saw could do to its value."""
        pi_e, visits = self.pi_e("What was hardly seen"), self.counts.visits()
        return unseen_errors(squares, self.occupancy, pi_e, visits)

    @property
    def can_solve_model(self) -> bool:
        """Whether Q of all steps can be had: pi_e is known for all actions, the table not too large."""
        if self.pair.pi_e is None:
            return False
        if self.parts.known is None:
            _ = self.counts  # whose pass over the parts finds the horizon as well
        return self.horizon * self.pair.pi_e.size <= MOST_VALUES

    @property
    def row_values(self) -> RowValues | None:
        """Values row by row, where states have no labels."""
        return None

    @property
    def has_values(self) -> bool:
        """Whether there may be action values of pi_e at all."""
        return self.pair.pi_e is not None

    @property
    def has_solved(self) -> bool:
        """Whether anybody has asked for them yet."""
        return "values" in vars(self) or self.row_values is not None

    @cached_property
    def values(self) -> Values[Table]:
        """Q and V of pi_e in the model, (T, S, A) and (T, S)."""
        solved = self._solve(self.model)
        fits = () if self.options.model is not None else (self._fit(solved, self.model, self.counts),)
        return Values(solved.q, solved.v, solved.after[None], fits)

    @cached_property
    def cross_fitted_values(self) -> Values[Field]:
        """Q and V with models that have not seen the episodes they are used on, if that is asked for."""
        folds = self.options.cross_fit
        return self.cross_fitted(folds) if folds else self.values

    def cross_fitted(self, count: int) -> Values[Field]:
        """The same with so many folds; a given model has seen no episode at all."""
        if self.options.model is not None:
            return self.values
        if count not in self._cross_fits:
            self._cross_fits[count] = self._cross_fit(count)
        return self._cross_fits[count]

    @cached_property
    def _cross_fits(self) -> dict[int, Values[Field]]:
        return {}

    def _cross_fit(self, count: int) -> Values[Field]:
        if self.n < count:
            raise EstimationError(
                f"cross_fit={count} needs a log of at least {count} episodes; found {self.n}.",
                fix="Use fewer folds, or cross_fit=0.",
            )
        folds, counted = self.facts.counts_without(count, self.shape)
        models = self.facts.models_without(count, self.shape, self.options.unseen)
        solved, fits = [], []
        for fold, (model, counts) in enumerate(zip(models, counted, strict=True)):
            solved.append(self._solve(model))
            fits.append(self._fit(solved[-1], model, counts, fold, folds))
        q, v = tuple(one.q for one in solved), tuple(one.v for one in solved)
        after = np.stack([one.after for one in solved])
        return Values(ByFold(q, folds), ByFold(v, folds), after, tuple(fits), folds)

    def _fit(
        self,
        solved: Solved,
        model: TabularMDP,
        counts: Counts,
        fold: int = 0,
        folds: Folds | None = None,
    ) -> FittedModel:
        """A fitted model with what its influence needs."""
        pi_e, v = self.pi_e("A model of the log"), solved.v.values
        if solved.until_end is None and self.model_horizon > self.horizon:  # a time limit that nobody reached
            later = [v_t for _, _, v_t in backward(model, pi_e, self.model_horizon, self.gamma)]
            v = np.stack(later[::-1])
        chain, unseen = solved.until_end, self.options.unseen
        return FittedModel(model, counts, pi_e, v, chain is not None, self.gamma, unseen, fold, folds, chain)

    @cached_property
    def gaps(self) -> FloatArray:
        """(S,) the Q gap, max_t (max_a Q_t - min_a Q_t) over the steps of the log."""
        if self.settled is not None:
            q = self.settled.q
            return np.asarray(q.max(axis=1) - q.min(axis=1))
        if "values" not in vars(self):  # a running maximum needs no table of all steps
            pi_e = self.pi_e("The Q gap")
            return gaps(self.model, pi_e, self.model_horizon, self.gamma, before=self.horizon)
        return widest_gap(self.values.q.values)

    @cached_property
    def delta(self) -> Table:
        """(T, S) sum_a (pi_e - pi_b)(a|s) Q_t(s, a): what one dropped visit loses."""
        return Table(np.einsum("tsa,sa->ts", self.values.q.values, self.gain), by_time=True)

    def _settled(self, model: TabularMDP) -> Settled | None:
        return settle(model, self.pi_e("A model of the log"), self.gamma, self.horizon)

    def _solve(self, model: TabularMDP) -> Solved:
        require_room(model, self.horizon, self.options.cross_fit or 1)
        if self.has_end:
            settled = self.settled if model is self.model else self._settled(model)
            if settled is not None:
                return at_all_steps(settled, self.horizon)
        pi_e = self.pi_e("A model of the log")
        return solved_backwards(model, pi_e, self.horizon, self.model_horizon, self.gamma)
