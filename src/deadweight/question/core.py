"""Question: a log, two policies and a discount, with everything that several estimators share.

The fitted model, its Q values and the visit counts are computed when first asked for and kept, so that a
table of ten estimators fits one model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from deadweight.basics.memory import NUMBER, require
from deadweight.errors import EstimationError, OptionError
from deadweight.log.interface import Log, in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP, backward, gaps, occupancies
from deadweight.policy.policies import frequencies
from deadweight.question.cut_weights import CutWeights
from deadweight.question.facts import Facts, Shape
from deadweight.question.options import Options
from deadweight.sums.blocks import powers
from deadweight.sums.fields import ByDuration, ByFold, Field, Folds, Table, table_of
from deadweight.sums.pairs import PolicyPair
from deadweight.typing import FloatArray, IntArray
from deadweight.values.hardly_seen import SquaresByState, unseen_errors
from deadweight.values.model import Counts, mdp_from_counts
from deadweight.values.model_influence import FittedModel
from deadweight.values.row_values import RowValues
from deadweight.values.settling import Settled, settle
from deadweight.values.until_end import UntilEnd

# Nobody who did not ask for a model gets a table of Q_t(s, a) larger than this, 256 MiB.
MOST_VALUES = 1 << 25

F = TypeVar("F", bound=Field, covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Values(Generic[F]):
    """Q_t(s, a) of the actions taken, and V_t(s), of pi_e, and the models that they are fitted by.

    A given model is not fitted: no episode moves it.
    """

    q: F
    v: F
    after: FloatArray  # (folds, S) V after the last of the log's steps
    fits: tuple[Any, ...] = ()  # FittedModel, or RowValues
    folds: Folds | None = None
    times: IntArray | None = None  # (S,) the step of each row, where rows are states; else any state any step


@dataclass(frozen=True, eq=False)
class _Solved:
    """The values of one model at the steps of the log, and after the last of them."""

    q: Table  # (T, S, A)
    v: Table  # (T, S)
    after: FloatArray  # (S,)
    until_end: UntilEnd | None  # where they are settled


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a log.

    Attributes:
      parts: the log, or runs of its episodes, in memory or stored.
      pair: the policies in the log's index order.
      gamma: discount in (0, 1].
      options: see `deadweight.question.options`.
      workers: threads of a fold in memory.
      by_duration: rewards are discounted by durations already, and gamma is 1; see `log.durations`.
      asked_gamma: the discount that was asked for, where it is another.
      cut_weights: how rows stand for those that were cut off; None where they do not.
      behaviour_flags: what must be known of where the behaviour policy comes from.
      known: facts of the log that were found for other policies already.
      keeps_influences: those of all episodes on a blend's estimates are kept, for a comparison.
      paths: epsilon paths, and evidence for a blend, that were made already; see
        `deadweight.negligible.epsilon_path` and `deadweight.blend.evidence`.
      sums: what was summed already, by key; see `deadweight.answers.summing`.
    """

    parts: Log
    pair: PolicyPair
    gamma: float = 1.0
    options: Options = field(default_factory=Options)
    workers: int = 1
    behaviour_flags: tuple[str, ...] = ()
    known: Facts | None = field(default=None, repr=False)
    keeps_influences: bool = False
    by_duration: bool = False
    asked_gamma: float | None = None
    cut_weights: CutWeights | None = None
    paths: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    sums: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def about(self, log: Trajectories) -> Question:
        """The same question about some of the episodes of its log."""
        return replace(self, parts=in_memory(log), known=None)

    def made_once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key before, or is made now and kept in `sums`."""
        if key not in self.sums:
            self.sums[key] = make()
        found: T = self.sums[key]
        return found

    @cached_property
    def facts(self) -> Facts:
        """What is known of the log."""
        return Facts(self.parts, self.workers) if self.known is None else self.known

    @property
    def shape(self) -> Shape:
        """Number of states and of actions, of log and policies."""
        return self.pair.n_states, self.pair.n_actions

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of episodes of each part."""
        return self.parts.census.sizes

    @property
    def n(self) -> int:
        """Number of episodes."""
        return self.parts.census.n

    @property
    def horizon(self) -> int:
        """T, the longest episode."""
        return self.parts.census.horizon

    @cached_property
    def terminated(self) -> int:
        """Number of episodes that ended by termination."""
        _ = self.time_limit
        return self.parts.census.terminated

    @cached_property
    def counts(self) -> Counts:
        """Transition counts of the log."""
        return self.facts.counts(self.shape)

    def count_folds(self, folds: int) -> None:
        """Take the counts of so many folds with those of the log, in one pass, if neither is there yet."""
        if self.options.model is None and self.parts.has_states:  # of rows there is nothing to count
            self.facts.count_folds(folds, self.shape)

    @cached_property
    def visits(self) -> FloatArray:
        """(S,) visits of each state."""
        at_hand = None if self.facts.has_counts(self.shape) else self.parts.visits(self.pair.n_states)
        return self.counts.visits_by("state") if at_hand is None else at_hand

    def share_of(self, drop: Field) -> float:
        """Share of the logged steps that a drop drops."""
        if self.parts.has_rows and not (isinstance(drop, Table) and self.parts.has_states):
            return np.count_nonzero(drop.along(self.parts[0])) / self.parts.n_steps
        mask = table_of(drop, "A log that is read in parts needs a drop of states", "Pass states.")
        return float(self.visits[mask].sum() / self.visits.sum())

    @cached_property
    def pi_b(self) -> FloatArray:
        """(S, A) pi_b of all actions: as given, or as observed when only propensities were logged."""
        return frequencies(self.counts.visits()) if self.pair.pi_b is None else self.pair.pi_b

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

    @property
    def discount(self) -> float:
        """Gamma as it was asked for."""
        return self.gamma if self.asked_gamma is None else self.asked_gamma

    def discounted(self, field: Field) -> Field:
        """Values as an estimate weighs them: with what each row counts, where that is not the same."""
        return ByDuration(field) if self.by_duration or self.cut_weights is not None else field

    @cached_property
    def chain(self) -> TabularMDP:
        """The model's transitions as they are, without a discount that durations have put into them."""
        if not self.by_duration:
            return self.model
        return mdp_from_counts(self.counts.without_durations(), self.horizon, self.options.unseen)

    @property
    def time_limit(self) -> int | None:
        """Steps after which episodes were cut, where there is such a limit."""
        return self.parts.time_limit

    @property
    def known_time_limit(self) -> int | None:
        """The same, without a pass over a stored log that nobody has asked for its limit."""
        return self.parts.known_limit

    @cached_property
    def cut_early(self) -> int:
        """Number of episodes that were cut elsewhere than at the time limit."""
        return self.parts.census.cut_early

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

    def pi_e(self, what: str) -> FloatArray:
        """(S, A) pi_e of all actions, which `what` needs."""
        return self.pair.require_pi_e(what)

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
        solved: _Solved,
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
    def gain(self) -> FloatArray:
        """(S, A) pi_e - pi_b."""
        return self.pi_e("The bias of a drop") - self.pi_b

    @cached_property
    def gaps(self) -> FloatArray:
        """(S,) the Q gap, max_t (max_a Q_t - min_a Q_t) over the steps of the log: the only one there is."""
        if self.settled is not None:
            q = self.settled.q
            return np.asarray(q.max(axis=1) - q.min(axis=1))
        if "values" not in vars(self):  # a running maximum needs no table of all steps
            pi_e = self.pi_e("The Q gap")
            return gaps(self.model, pi_e, self.model_horizon, self.gamma, before=self.horizon)
        q = self.values.q.values
        high, low = q[:, :, 0].copy(), q[:, :, 0].copy()
        for action in range(1, q.shape[2]):
            np.maximum(high, q[:, :, action], out=high)
            np.minimum(low, q[:, :, action], out=low)
        return np.asarray(np.subtract(high, low).max(axis=0))

    @cached_property
    def delta(self) -> Table:
        """(T, S) sum_a (pi_e - pi_b)(a|s) Q_t(s, a): what one dropped visit loses."""
        return Table(np.einsum("tsa,sa->ts", self.values.q.values, self.gain), by_time=True)

    def _settled(self, model: TabularMDP) -> Settled | None:
        return settle(model, self.pi_e("A model of the log"), self.gamma, self.horizon)

    def _solve(self, model: TabularMDP) -> _Solved:
        require(
            NUMBER * float(self.horizon) * (model.r.size + model.n_states) * (self.options.cross_fit or 1),
            f"Q of {self.horizon:,} steps x {model.n_states:,} states x {model.n_actions:,} actions",
            "Use coarser states, or estimators without a model (WIS, WPDIS).",
        )
        q = np.empty((self.horizon, *model.r.shape))
        v = np.empty((self.horizon, model.n_states))
        after: FloatArray = np.zeros(model.n_states)
        if self.has_end:
            settled = self.settled if model is self.model else self._settled(model)
            if settled is not None:
                q[:], v[:] = settled.q, settled.v
                return _solved(q, v, settled.v, settled.until_end)
        for t, q_t, v_t in backward(model, self.pi_e("A model of the log"), self.model_horizon, self.gamma):
            if t < self.horizon:
                q[t], v[t] = q_t, v_t
            elif t == self.horizon:
                after = v_t
        return _solved(q, v, after, None)


def _solved(q: FloatArray, v: FloatArray, after: FloatArray, until_end: UntilEnd | None) -> _Solved:
    return _Solved(Table(q, by_time=True, by_action=True), Table(v, by_time=True), after, until_end)
