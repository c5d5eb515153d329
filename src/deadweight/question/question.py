"""Question: what is asked of a log, with the model that several estimators share.

The fitted model, its Q values and the visit counts are computed when first asked for and kept, so that a
table of ten estimators fits one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np

from deadweight.errors import EstimationError, OptionError
from deadweight.log.columns import require_labels
from deadweight.log.interface import Log, LogLike, Source, as_log, check_gamma, check_workers, paths_of
from deadweight.log.trajectories import step_of_rows
from deadweight.mdp.tabular import TabularMDP, backward, gaps, occupancies
from deadweight.question.asked import Asked, Facts, Options, weigh_cuts
from deadweight.question.ratio_check import ratio_flags
from deadweight.question.understanding import one_behaviour, paired
from deadweight.sums.blocks import ByFold, Field, Folds, Table, powers
from deadweight.sums.pairs import PolicyPair
from deadweight.sums.weighting import refuse_unsupported
from deadweight.tools.limits import NUMBER, require
from deadweight.typing import FloatArray, IntArray
from deadweight.values.linear import LinearQ
from deadweight.values.model import FOLDS, Counts, mdp_from_counts
from deadweight.values.model_influence import FittedModel, SquaresByState, unseen_errors
from deadweight.values.rows import MovedValues, RowLearner, Rows, RowValues, state_values
from deadweight.values.until_end import Settled, UntilEnd, settle

# --- Action values of pi_e in a model at every step of a log: what they are, and how they are solved for
#
# A model that settles has the same values at all steps; any other is solved backwards from its horizon.

F = TypeVar("F", bound=Field, covariant=True)


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
class Solved:
    """The values of one model at the steps of the log, and after the last of them."""

    q: Table  # (T, S, A)
    v: Table  # (T, S)
    after: FloatArray  # (S,)
    until_end: UntilEnd | None  # where they are settled


def require_room(model: TabularMDP, horizon: int, models: int) -> None:
    """Refuse tables of so many steps, of so many models, that would not fit into memory."""
    require(
        NUMBER * float(horizon) * (model.r.size + model.n_states) * models,
        f"Q of {horizon:,} steps x {model.n_states:,} states x {model.n_actions:,} actions",
        "Use coarser states, or estimators without a model (WIS, WPDIS).",
    )


def at_all_steps(settled: Settled, horizon: int) -> Solved:
    """Values that have settled, at each of so many steps."""
    q = np.empty((horizon, *settled.q.shape))
    v = np.empty((horizon, *settled.v.shape))
    q[:], v[:] = settled.q, settled.v
    return _solved(q, v, settled.v, settled.until_end)


def solved_backwards(
    model: TabularMDP, pi_e: FloatArray, horizon: int, model_horizon: int, gamma: float
) -> Solved:
    """Values at the first `horizon` of the steps of a model."""
    q = np.empty((horizon, *model.r.shape))
    v = np.empty((horizon, model.n_states))
    after: FloatArray = np.zeros(model.n_states)
    for t, q_t, v_t in backward(model, pi_e, model_horizon, gamma):
        if t < horizon:
            q[t], v[t] = q_t, v_t
        elif t == horizon:
            after = v_t
    return _solved(q, v, after, None)


def widest_gap(q: FloatArray) -> FloatArray:
    """(S,) max_t (max_a q - min_a q) of q (T, S, A), one action after another."""
    high, low = q[:, :, 0].copy(), q[:, :, 0].copy()
    for action in range(1, q.shape[2]):
        np.maximum(high, q[:, :, action], out=high)
        np.minimum(low, q[:, :, action], out=low)
    return np.asarray(np.subtract(high, low).max(axis=0))


def _solved(q: FloatArray, v: FloatArray, after: FloatArray, until_end: UntilEnd | None) -> Solved:
    return Solved(Table(q, by_time=True, by_action=True), Table(v, by_time=True), after, until_end)


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
        horizon = given.horizon if given is not None and given.has_limit else None
        if horizon is None and self.options.solve == "settled":
            horizon = self.time_limit
        return max(self.horizon, horizon or 0)

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
        self.learn_sizes()
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

    def solve(self) -> None:
        """Make sure that there are values of pi_e, as `values` has them."""
        self.values  # noqa: B018

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
        q, v = tuple(solution.q for solution in solved), tuple(solution.v for solution in solved)
        after = np.stack([solution.after for solution in solved])
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


# --- A question about a log whose rows are states of their own: features, or policies row by row
#
# Tables over states are tables over rows then, so ratios, drops and sums are what they are elsewhere. What is
# different is where values come from: there is nothing to count, and a learner (`deadweight.values.rows`)
# gives them for each row, at the step at which it was logged.


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


# --- Asking: from a log and policies as the user has them to a `Question`
#
# The old policies become one, policies are brought into the order of the log, and where a policy or the model
# depends on more than a label, the question is one about rows.

Policy = Any
"""What a user may pass as a policy; see `deadweight.question.understanding`."""


def ask(
    log: LogLike,
    pi_e: Policy = None,
    pi_b: Policy = None,
    gamma: float = 1.0,
    options: Options | None = None,
    workers: int = 1,
    known: Facts | None = None,
) -> Question:
    """The question about a log, in memory or stored, with policies in the user's own order.

    What the policies make unnecessary is not read from a stored log. `known` are facts of the same log that
    were found for other policies.
    """
    source = as_log(log)
    parts, pi_b, filled = one_behaviour(source, pi_b)
    unused = [
        column for column, policy in (("target_prob", pi_e), ("behaviour_prob", pi_b)) if policy is not None
    ]
    by_row = options is not None and isinstance(options.model, RowLearner)
    parts, pair = paired(parts, pi_e, pi_b, by_row)
    question = ask_pair(parts, pair, gamma, options, workers, [*unused, "behaviour_id"])
    flags = ("behaviour-filled",) if filled else ()
    if question.parts.has_rows and not question.parts.has_states:
        flags = (*flags, *ratio_flags(question))
    if known is not None and not question.parts.has_states:
        known = None  # they count states by their labels, and here each row is a state
    made_by = source if source.has_behaviour_ids else None
    return replace(question, behaviour_flags=flags, made_by=made_by, known=known)


def ask_pair(
    log: Log,
    pair: PolicyPair,
    gamma: float = 1.0,
    options: Options | None = None,
    workers: int = 1,
    unused: Sequence[str] = (),
) -> Question:
    """The same with policies in the order of the log; no step of it may be one that pi_b never takes."""
    check_gamma(gamma)
    zeros = pair.pi_b is not None and bool((pair.pi_b == 0).any())
    untimed = ["duration"] if gamma == 1.0 else []
    parts = log.viewed(partial(refuse_unsupported, pair) if zeros else None, [*unused, *untimed])
    chosen = Options() if options is None else options
    by_duration, asked, weighed = gamma < 1.0 and parts.has_durations, gamma, None
    if by_duration:
        parts, gamma = _in_time(parts, gamma), 1.0
    if chosen.cut_weights is not None:
        parts, weighed = weigh_cuts(parts, chosen.cut_weights, chosen.finished)
    if parts.has_states:
        return Question(
            parts,
            pair,
            gamma,
            chosen,
            workers,
            by_duration=by_duration,
            asked_gamma=asked if by_duration else None,
            cut_weights=weighed,
        )

    return RowQuestion(parts, pair, gamma, chosen, workers)


def _in_time(log: Log, gamma: float) -> Log:
    """A log by its durations."""
    if not log.has_states:
        raise EstimationError(
            "Durations with gamma below 1 need states with labels; this log has features for states.",
            fix="Use gamma=1.0, with which durations change nothing; or give it a column state with labels "
            "that say all that matters, which bins of the features rarely do.",
        )
    return log.discounted(gamma)


# --- How a verb opens what it is given: a log at hand as it is, one on disk through the front door, `io.open`
#
# Reading files is a fifth of the package, so it is imported only where there is something to read.


def opened(source: Source, **settings: Any) -> AbstractContextManager[LogLike]:
    """The log, to be used within a `with` statement; `settings` are those of `deadweight.io.open.open_log`.

    >>> from deadweight import Trajectories
    >>> with opened(Trajectories.from_episodes([[(0, 0, 1.0)]]), workers=2) as log:
    ...     log.n_steps
    1
    """
    if paths_of(source) is None:
        check_workers(settings.get("workers", 1))
        return nullcontext(source)  # type: ignore[arg-type]  # whoever asks a question of it says if it is no log
    from deadweight.io.open import open_log

    return open_log(source, **settings)
