"""Question: a log, two policies and a discount, with everything that several estimators share.

The fitted model, its Q values and the visit counts are computed when first asked for and kept, so that a
table of ten estimators fits one model.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from deadweight.basics.memory import NUMBER, require
from deadweight.errors import EstimationError, OptionError
from deadweight.log.interface import Log, LogLike, as_log, in_memory
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP, backward, check_gamma, gaps
from deadweight.policy.policies import TabularPolicy, frequencies
from deadweight.question.options import Options
from deadweight.sums.fields import ByFold, Field, Folds, Table, table_of
from deadweight.sums.pairs import PolicyPair, pair_policies
from deadweight.sums.weighting import refuse_unsupported
from deadweight.typing import FloatArray
from deadweight.values.crossfit import counts_without
from deadweight.values.model import Counts, count, mdp_from_counts
from deadweight.values.model_influence import FittedModel
from deadweight.values.settling import Settled, settle

# Nobody who did not ask for a model gets a table of Q_t(s, a) larger than this, 256 MiB.
MOST_VALUES = 1 << 25
Policy = TabularPolicy | npt.ArrayLike | None


F = TypeVar("F", bound=Field, covariant=True)


@dataclass(frozen=True, eq=False)
class Values(Generic[F]):
    """Q_t(s, a) of the actions taken, and V_t(s), of pi_e, and the models that they are fitted by.

    A given model is not fitted: no episode moves it.
    """

    q: F
    v: F
    after: FloatArray  # (folds, S) V after the last of the log's steps
    fits: tuple[FittedModel, ...] = ()
    folds: Folds | None = None


@dataclass(frozen=True, eq=False)
class _Solved:
    """The values of one model at the steps of the log, and after the last of them."""

    q: Table  # (T, S, A)
    v: Table  # (T, S)
    after: FloatArray  # (S,)
    settled: bool


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a log.

    Attributes:
      parts: the log, or runs of its episodes, in memory or stored.
      pair: the policies in the log's index order.
      gamma: discount in (0, 1].
      options: see `deadweight.question.options`.
      workers: threads of a fold in memory.
      paths: epsilon paths that were made already; see `deadweight.negligible.path`.
    """

    parts: Log
    pair: PolicyPair
    gamma: float = 1.0
    options: Options = field(default_factory=Options)
    workers: int = 1
    paths: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def about(self, log: Trajectories) -> Question:
        """The same question about some of the episodes of its log."""
        return replace(self, parts=in_memory(log))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of episodes of each part."""
        return self.parts.census.sizes

    @property
    def n(self) -> int:
        """Number of episodes."""
        return sum(self.sizes)

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
        _ = self.time_limit  # first: it says what the last steps lead to
        return count(self.parts, self.pair.n_states, self.pair.n_actions, self.workers)

    @cached_property
    def visits(self) -> FloatArray:
        """(S,) visits of each state."""
        at_hand = self.parts.visits(self.pair.n_states)
        return self.counts.visits_by("state") if at_hand is None else at_hand

    def share_of(self, drop: Field) -> float:
        """Share of the logged steps that a drop drops."""
        if self.parts.has_rows:
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
        given = self.options.model
        if given is None:
            return mdp_from_counts(self.counts, self.horizon, self.options.unseen)
        if given.r.shape != (self.pair.n_states, self.pair.n_actions):
            raise OptionError(
                f"model has {given.n_states} states and {given.n_actions} actions; log and policies have "
                f"{self.pair.n_states} and {self.pair.n_actions}.",
                fix="Number states and actions of the model as in the log and the policies.",
            )
        return given

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
        given = self.options.model
        return (
            self.options.solve == "settled"
            and (given is None or given.horizon is None)
            and self.time_limit is None
            and self.terminated == self.n
        )

    @cached_property
    def settled(self) -> Settled | None:
        """Values until the end; None where the model has a horizon, or where they never settle."""
        model = self.model  # first: the pass for its counts takes a stored log's census as well
        return self._settled(model) if self.has_end else None

    @cached_property
    def model_horizon(self) -> int:
        """Steps over which a model that is not settled is solved, at least the longest episode.

        A given model may have a horizon of its own, and a fitted one that of a time limit which no episode
        has reached; else it is the longest episode.
        """
        given = self.options.model
        own = given.horizon if given is not None else None
        if own is None and self.options.solve == "settled":
            own = self.time_limit
        return max(self.horizon, own or 0)

    def pi_e(self, what: str) -> FloatArray:
        """(S, A) pi_e of all actions, which `what` needs."""
        return self.pair.require_pi_e(what)

    @property
    def can_solve_model(self) -> bool:
        """Whether Q of all steps can be had: pi_e is known for all actions, the table not too large."""
        if self.pair.pi_e is None:
            return False
        if self.parts.known is None:
            _ = self.counts  # whose pass over the parts finds the horizon as well
        return self.horizon * self.pair.pi_e.size <= MOST_VALUES

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
        return self.values if folds == 0 else self.cross_fitted(folds)

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
        _ = self.time_limit  # first: it says what the last steps lead to
        folds = Folds.of(count, self.sizes)
        size = (self.pair.n_states, self.pair.n_actions)
        solved, fits = [], []
        for fold, counts in enumerate(counts_without(self.parts, folds, *size, self.workers)):
            model = mdp_from_counts(counts, self.horizon, self.options.unseen)
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
        if not solved.settled and self.model_horizon > self.horizon:  # a time limit that nobody reached
            later = [v_t for _, _, v_t in backward(model, pi_e, self.model_horizon, self.gamma)]
            v = np.stack(later[::-1])
        return FittedModel(
            model, counts, pi_e, v, solved.settled, self.gamma, self.options.unseen, fold, folds
        )

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
            NUMBER * float(self.horizon) * (model.r.size + model.n_states) * max(self.options.cross_fit, 1),
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
                return _solved(q, v, settled.v, True)
        for t, q_t, v_t in backward(model, self.pi_e("A model of the log"), self.model_horizon, self.gamma):
            if t < self.horizon:
                q[t], v[t] = q_t, v_t
            elif t == self.horizon:
                after = v_t
        return _solved(q, v, after, False)


def _solved(q: FloatArray, v: FloatArray, after: FloatArray, settled: bool) -> _Solved:
    return _Solved(Table(q, by_time=True, by_action=True), Table(v, by_time=True), after, settled)


def ask(
    log: LogLike,
    pi_e: Policy = None,
    pi_b: Policy = None,
    gamma: float = 1.0,
    options: Options | None = None,
    workers: int = 1,
) -> Question:
    """The question about a log, in memory or stored, with policies in the user's own order.

    What the policies make unnecessary is not read from a stored log.
    """
    parts = as_log(log)
    unused = [
        column for column, policy in (("target_prob", pi_e), ("behaviour_prob", pi_b)) if policy is not None
    ]
    pair = pair_policies(parts.labels, pi_e, pi_b)
    return ask_pair(parts, pair, gamma, options, workers, unused)


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
    parts = log.viewed(partial(refuse_unsupported, pair) if zeros else None, unused)
    return Question(parts, pair, gamma, Options() if options is None else options, workers)
