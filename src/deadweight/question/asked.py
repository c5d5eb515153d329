"""Asked: a log, two policies, a discount and options, with what follows from them before any model is solved.

`Question` (`deadweight.question.question`) adds the model and its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, TypeGuard, TypeVar

import numpy as np

from deadweight.errors import EstimationError, OptionError, did_you_mean
from deadweight.log.columns import Standing
from deadweight.log.interface import Log, in_memory
from deadweight.log.policies import frequencies
from deadweight.log.trajectories import Trajectories, step_of_rows
from deadweight.mdp.tabular import TabularMDP
from deadweight.sums.blocks import ByDuration, Field, Folds, Table, table_of
from deadweight.sums.old_policies import OldPolicy, old_policies
from deadweight.sums.pairs import PolicyPair
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.model import (
    FOLDS,
    Counts,
    FoldCounts,
    counts_by_fold,
    mdp_from_counts,
    together,
    without_each,
)
from deadweight.values.rows import RowLearner

# --- Weights for episodes that were cut: each row that was seen stands for those that were cut off before it
#
# Where episodes are cut, later rows are seen too seldom, and an average over the log counts what was cut off
# as nothing. If the chance c of being cut at a step depends only on what the log shows of that step, a row at
# step t stands for
#
# .. math:: C_t = \prod_{j < t} \frac{1}{1 - c_j}
#
# rows (inverse probability of censoring; Robins & Rotnitzky, 1992). Its reward counts C_t times, and so do
# the values of a model there: like a discount above 1, so that every estimator is what it is elsewhere. The
# chance is the share of rows that were cut, in groups `by`
#
# | way | rows with the same chance of being cut |
# | --- | --- |
# | "all" | all |
# | "step" | those of one step number |
# | "state" | those in one state |
# | "pair" | those in one state with one action |
# | "state-step" | those in one state at one step number |
#
# and "auto" is the way that best foretells the cuts of episodes which it has not seen. Rows at the last step
# of all are not at risk: nothing that counts comes after them. Where the log does not say what a cut step led
# to, it may have been the end, and all rows are at risk. Where it says so for all of them, only those that go
# on are, and the state of a group is the one in which they were cut.
#
# What nobody can see, such as a diagnosis that is not in the table, may decide who is cut: then these weights
# are wrong as well, and only bounds (`deadweight.verbs.cut_bounds`) are valid.

WAYS = ("all", "step", "state", "pair", "state-step")
WORDS = {
    "all": "the same for all rows",
    "step": "by step",
    "state": "by state",
    "pair": "by state and action",
    "state-step": "by state and step",
}


@dataclass(frozen=True)
class CutWeights:
    """How the cuts of a log were weighed.

    Attributes:
      by: the way that was taken, see above.
      n_cut: episodes that were cut before the last step.
      largest: the most rows that one row stands for.
      blind: share of the rows in groups of which all were cut, so that nothing stands for what follows.
      scores: of each way, minus the mean logarithm of the chance given to what happened, for episodes that
        it has not seen; less is better.
    """

    by: str
    n_cut: int
    largest: float
    blind: float
    scores: dict[str, float]

    @property
    def sentence(self) -> str:
        """What was done, in words."""
        said = (
            f"{self.n_cut:,} episodes were cut; rows that were seen stand for what was cut off, by the "
            f"chance of being cut {WORDS[self.by]} (one row for at most {self.largest:.3g}). That is right "
            "only if nothing else decided who was cut."
        )
        if self.blind == 0.0:
            return said
        return f"{said} In groups with {self.blind:.1%} of the rows all were cut: nobody knows what follows."


def weigh_cuts(log: Log, way: str, finished: str) -> tuple[Log, CutWeights | None]:
    """The log with rows that stand for others, and how; as it was if none was cut before the last step."""
    if not (log.has_rows and log.has_states):
        raise EstimationError(
            "cut_weights needs a log in memory whose states have labels; this one "
            + ("is read in parts." if not log.has_rows else "has rows for states."),
            fix="Read it with deadweight.read (--no-stream), with a column state; or leave cut_weights out "
            "and see how much the cuts could matter: cut_bounds (--cut-range).",
        )
    if finished != "absorb":
        raise OptionError(
            f"cut_weights needs finished='absorb'; found {finished!r}: episodes that leave the normaliser "
            "would be counted twice.",
            fix="Leave finished out, or leave cut_weights out.",
        )
    whole = log[0]
    risk = _Risk(whole)
    if not risk.cut.any():
        return log, None
    scores = {kind: risk.score(kind) for kind in WAYS}
    by = min(scores, key=lambda kind: scores[kind]) if way == "auto" else way
    standing, blind = risk.standing(by)
    weights = CutWeights(by, int(risk.cut.sum()), float(standing.rows.max()), blind, scores)
    return in_memory(whole.standing_for(standing)), weights


class _Risk:
    """Rows after which an episode can be cut, and those after which it was."""

    def __init__(self, log: Trajectories) -> None:
        self.log, last = log, log.offsets[1:] - 1
        self.steps: IntArray = step_of_rows(log)
        final = self.steps == max(log.horizon, log.time_limit or 0) - 1
        cut = np.zeros(log.n_steps, dtype=bool)
        cut[last[~log.terminated]] = True
        self.cut: BoolArray = cut & ~final
        self.shows_outcomes = bool((log.next_states[self.cut] >= 0).all())
        self.at_risk: BoolArray = ~final
        if self.shows_outcomes:
            self.at_risk[last[log.terminated]] = False

    def groups(self, way: str) -> tuple[IntArray, int]:
        """(rows at risk,) the group of each, and their number."""
        log, rows = self.log, self.at_risk
        states = (log.next_states if self.shows_outcomes else log.states)[rows]
        keys = {
            "all": np.zeros(len(states), dtype=np.int64),
            "step": self.steps[rows],
            "state": states,
            "pair": states * log.n_actions + log.actions[rows],
            "state-step": self.steps[rows] * log.n_states + states,
        }[way]
        labels, group = np.unique(keys, return_inverse=True)
        return group, len(labels)

    def score(self, way: str) -> float:
        """The held-out score of a way; chances of small groups lean towards that of all rows."""
        group, n = self.groups(way)
        episode = np.repeat(np.arange(self.log.n_episodes), self.log.lengths)[self.at_risk]
        cell, cut = group + n * (episode % FOLDS), self.cut[self.at_risk]
        rows, cuts = (np.bincount(cell, weights, FOLDS * n).reshape(FOLDS, n) for weights in (None, cut))
        rows, cuts = rows.sum(axis=0) - rows, cuts.sum(axis=0) - cuts  # of all the other folds
        overall = (cuts.sum(axis=1) + 1.0) / (rows.sum(axis=1) + 2.0)
        chance = ((cuts + overall[:, None]) / (rows + 1.0)).ravel()[cell]
        return float(-np.log(np.where(cut, chance, 1.0 - chance)).mean())

    def standing(self, way: str) -> tuple[Standing, float]:
        """For how many rows each row stands, and the share of rows for which none does."""
        group, n = self.groups(way)
        chance = np.bincount(group, self.cut[self.at_risk], n) / np.bincount(group, minlength=n)
        factor = np.ones(self.log.n_steps)
        # Where all were cut no row follows, and the factor is used nowhere.
        factor[self.at_risk] = (1.0 / np.where(chance < 1.0, 1.0 - chance, 1.0))[group]
        rows = self._running(factor)
        outcomes = rows if self.shows_outcomes else rows * factor
        return Standing(rows, outcomes), float((chance[group] == 1.0).mean())

    def _running(self, factor: FloatArray) -> FloatArray:
        """(steps,) the product of the factors of all rows before each row of an episode."""
        log, product = self.log, np.ones(self.log.n_steps)
        by_length = np.argsort(-log.lengths, kind="stable")
        starts, lengths = log.offsets[:-1][by_length], log.lengths[by_length]
        for t in range(1, log.horizon):
            rows = starts[: int(np.searchsorted(-lengths, -t, side="left"))] + t
            product[rows] = product[rows - 1] * factor[rows - 1]
        return product


# --- Options of the estimators, checked once where they enter
#
# An option that does not concern an estimator is ignored by it, so that one set of options can serve a whole
# table; an option that does not exist is an error.

CHOICES: Mapping[str, tuple[str | None, ...]] = MappingProxyType(
    {
        "finished": ("absorb", "leave", "survivors"),
        "variance": ("estimator", "sample"),
        "ended_ratios": ("absorb", "one"),
        "mode": (None, "policy", "episodic", "corrected", "published", "literal"),
        "unseen_actions": ("renormalise", "zero"),
        "given": ("state", "reward", "return"),
        "unseen": ("pool", "terminate", "mean"),
        "solve": ("settled", "longest"),
        "cut_weights": (None, "auto", *WAYS),
    }
)

PUBLISHED: Mapping[str, Any] = MappingProxyType(
    {
        "finished": "absorb",
        "variance": "sample",
        "ended_ratios": "one",
        "drop_first": False,
        "mode": "published",
        "unseen_actions": "zero",
        "unseen": "terminate",
        "solve": "longest",
    }
)
"""The conventions of the authors' code. It leaves `window` alone: None in their lift tables, 10 elsewhere."""


@dataclass(frozen=True)
class Options:
    """All options with their defaults.

    Attributes:
      finished: what ended episodes do in per-step normalisers: "absorb" (stay with their last weight),
        "leave", or "survivors" (mean over the survivors times their share).
      window: most recent ratios that INCRIS may keep; None for no limit.
      variance: INCRIS compares the variance of the "estimator" (Var / n) or, as published, of the "sample".
      ended_ratios: ended episodes enter INCRIS with their own ratios ("absorb") or with A = B = "one".
      drop_first: DRSIS may drop the first step's ratio; False as published.
      cross_fit: folds of a cross-fitted DR model; 0 fits and evaluates on the same episodes. None: 0 where
        states have labels, 5 where features describe them.
      mode: of SDRE; None chooses by how the episodes end.
      unseen_actions: TMIS "renormalise"s pi_e over the actions seen, or counts unseen ones as "zero".
      given: what CIS conditions on.
      model: a `TabularMDP` to use instead of the fitted one, or, row by row, `LinearQ`, `RegressorQ` or
        `GivenQ`.
      unseen: what an unseen (s, a) does in the fitted model; see `fit_mdp`.
      solve: a model without a horizon of its own is solved until its values are "settled" if no episode was
        cut, over the longest episode's steps otherwise; or always over the "longest" episode's.
      cut_weights: rows that were seen stand for those that were cut off, by the chance of being cut: "all",
        "step", "state", "pair", "state-step" or "auto"; see `deadweight.question.asked`. None: what was
        cut off counts as nothing.
      return_range: lowest and highest return that an episode can have, for intervals that hold in any sample.
      bias_trust: how many times the estimated biases the "auto" interval allows for.
      cross_check: the "auto" interval also allows for the distance between an estimate that leans on weights
        and one that leans on a model. It takes a fitted model.
      resamples: of the bootstrap.
      seed: of the bootstrap.
    """

    finished: str = "absorb"
    window: int | None = 10
    variance: str = "estimator"
    ended_ratios: str = "absorb"
    drop_first: bool = True
    cross_fit: int | None = None
    mode: str | None = None
    unseen_actions: str = "renormalise"
    given: str = "state"
    model: TabularMDP | RowLearner | None = None
    unseen: str = "pool"
    solve: str = "settled"
    cut_weights: str | None = None
    return_range: tuple[float, float] | None = None
    bias_trust: float = 1.0
    cross_check: bool = True
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                known = [choice for choice in choices if choice is not None]
                hint = did_you_mean(str(value), known)
                raise OptionError(
                    f"{name} must be one of {', '.join(known)}; found {value!r}.{hint}",
                    fix=f"For example {name}={known[0]!r}.",
                )
        for name, (allowed, words, example) in ALLOWED.items():
            value = getattr(self, name)
            if not allowed(value):
                raise OptionError(
                    f"{name} must be {words}; found {value!r}.", fix=f"For example {name}={example}."
                )
        if self.model is not None and not isinstance(self.model, TabularMDP | RowLearner):
            raise OptionError(
                f"model must be a TabularMDP, LinearQ, RegressorQ or GivenQ; found "
                f"{type(self.model).__name__}.",
                fix="Values that are there already are GivenQ(q); a regressor goes into RegressorQ(it).",
            )
        if self.return_range is not None:
            object.__setattr__(self, "return_range", _checked_range(self.return_range))


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


# Options that are numbers: what they may be, in words, and an example.
ALLOWED: dict[str, tuple[Callable[[Any], bool], str, str]] = {
    "window": (
        lambda steps: steps is None or (_is_whole(steps) and steps >= 1),
        "a whole number of at least 1, or None",
        "10",
    ),
    "cross_fit": (
        lambda folds: folds is None or (_is_whole(folds) and (folds == 0 or folds >= 2)),
        "0, or 2 or more folds",
        "5",
    ),
    "bias_trust": (
        lambda times: isinstance(times, int | float) and 0 <= times < math.inf,
        "a number of at least 0",
        "1.0",
    ),
    "cross_check": (lambda checks: isinstance(checks, bool), "True or False", "True"),
    "resamples": (
        lambda count: _is_whole(count) and count >= 1,
        "a whole number of at least 1",
        "1000",
    ),
    "seed": (_is_whole, "a whole number", "0"),
}


# Arguments of the verbs, which a misspelt option may mean, and those of `deadweight.read`.
ARGUMENTS = ("estimators", "drop", "baseline", "gamma", "interval", "level", "also", "background", "workers")
READING = ("columns", "time_format", "fill_reward", "open_episodes", "time_limit", "features")


def read_options(given: Mapping[str, Any]) -> Options:
    """Options from keyword arguments."""
    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            raise OptionError(
                f"There is no option {name!r}.{did_you_mean(name, [*known, *ARGUMENTS])}",
                fix=f"Read the log with it: deadweight.read(path, {name}=...)."
                if name in READING
                else f"Options are: {', '.join(known)}.",
            )
    return Options(**given)


def _checked_range(given: Any) -> tuple[float, float]:
    try:
        lowest, highest = (float(end) for end in given)
    except (TypeError, ValueError):
        lowest = highest = math.nan
    if not -math.inf < lowest < highest < math.inf:
        raise OptionError(
            f"return_range must be (lowest, highest), two finite numbers in that order; found {given!r}.",
            fix="Give the smallest and the largest return that an episode can possibly have.",
        )
    return lowest, highest


# --- Facts: what depends on a log alone, made once for all policies that are asked about
#
# A question is about a log and two policies. Counts, the counts without each fold, and the models fitted to
# them do not know the new policy: ten questions about one log share them.

Shape = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a log.

    Attributes:
      parts: the log, or runs of its episodes, in memory or stored.
      workers: threads of a pass in memory.
    """

    parts: Log
    workers: int = 1
    _known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def shared(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made under this key before, or is made now."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def counts(self, shape: Shape) -> Counts:
        """Transition counts over so many states and actions.

        They are the sum of those of each fold: who needs a model will need the folds, and a pass costs more
        than the counting. The order of the sums, and so their last bits, must not depend on who asked first.
        """

        counts: Counts = self.shared(
            (Counts, shape), lambda: together(self._counts_by_fold(FOLDS, shape).own)
        )
        return counts

    def has_counts(self, shape: Shape) -> bool:
        """Whether these have been counted already."""
        return (Counts, shape) in self._known

    def counts_without(self, folds: int, shape: Shape) -> tuple[Folds, list[Counts]]:
        """So many folds of the episodes, and for each the counts of all episodes but its own."""

        def make() -> tuple[Folds, list[Counts]]:
            counts = self._counts_by_fold(folds, shape)  # first: its pass finds the sizes as well
            return Folds.of(folds, self.parts.sizes), without_each(counts.own)

        folds_and_counts: tuple[Folds, list[Counts]] = self.shared((Folds, folds, shape), make)
        return folds_and_counts

    def _counts_by_fold(self, folds: int, shape: Shape) -> FoldCounts:
        def make() -> FoldCounts:
            self.parts.will_be_read_again()  # by whoever needs a model
            return counts_by_fold(self.parts, folds, *shape, self.workers)

        counts: FoldCounts = self.shared((FoldCounts, folds, shape), make)
        return counts

    def model(self, shape: Shape, unseen: str) -> TabularMDP:
        """The model of all episodes."""
        model: TabularMDP = self.shared(
            (TabularMDP, shape, unseen), lambda: self._fitted(self.counts(shape), unseen)
        )
        return model

    def models_without(self, folds: int, shape: Shape, unseen: str) -> list[TabularMDP]:
        """For each fold the model of all episodes but its own."""
        models: list[TabularMDP] = self.shared(
            (TabularMDP, folds, shape, unseen),
            lambda: [self._fitted(counts, unseen) for counts in self.counts_without(folds, shape)[1]],
        )
        return models

    def _fitted(self, counts: Counts, unseen: str) -> TabularMDP:
        return mdp_from_counts(counts, self.parts.horizon, unseen)


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of a log.

    Attributes:
      parts: the log, or runs of its episodes, in memory or stored.
      pair: the policies in the log's index order.
      gamma: discount in (0, 1].
      options: see `deadweight.question.asked`.
      workers: threads of a pass in memory.
      by_duration: rewards are discounted by durations already, and gamma is 1; see `log.durations`.
      asked_gamma: the discount that was asked for, where it is another.
      cut_weights: how rows stand for those that were cut off; None where they do not.
      behaviour_flags: what must be known of where the behaviour policy comes from.
      made_by: the log with the ids of its old policies, which `parts` need not have; None without any.
      known: facts of the log that were found for other policies already.
      keeps_influences: those of all episodes on a blend's estimates are kept, for a comparison.
      paths: epsilon paths, and evidence for a blend, that were made already; see
        `deadweight.negligible.path` and `deadweight.answers.blend`.
      sums: what was summed already, by key; see `deadweight.answers.answering`.
    """

    parts: Log
    pair: PolicyPair
    gamma: float = 1.0
    options: Options = field(default_factory=Options)
    workers: int = 1
    behaviour_flags: tuple[str, ...] = ()
    made_by: Log | None = field(default=None, repr=False)
    known: Facts | None = field(default=None, repr=False)
    keeps_influences: bool = False
    by_duration: bool = False
    asked_gamma: float | None = None
    cut_weights: CutWeights | None = None
    paths: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)
    sums: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def about(self, log: Trajectories) -> Self:
        """The same question about some of the episodes of its log."""
        return replace(self, parts=in_memory(log), known=None)

    def made_once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under this key before, or is made now and kept in `sums`."""
        if key not in self.sums:
            self.sums[key] = make()
        value: T = self.sums[key]
        return value

    @cached_property
    def facts(self) -> Facts:
        """What is known of the log."""
        return Facts(self.parts, self.workers) if self.known is None else self.known

    @property
    def old_policies(self) -> list[OldPolicy]:
        """What the log says of its old policies; none where it has no ids. Takes two passes."""
        source = self.made_by
        if source is None:
            return []
        policies: list[OldPolicy] = self.facts.shared(OldPolicy, lambda: old_policies(source))
        return policies

    @property
    def has_mixed_worlds(self) -> bool:
        """Whether the old policies of the log worked under different conditions."""
        return any(policy.drifted for policy in self.old_policies)

    @property
    def shape(self) -> Shape:
        """Number of states and of actions, of log and policies."""
        return self.pair.n_states, self.pair.n_actions

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of episodes of each part."""
        return self.parts.sizes

    @property
    def n(self) -> int:
        """Number of episodes."""
        return self.parts.n_episodes

    @property
    def horizon(self) -> int:
        """T, the longest episode."""
        return self.parts.horizon

    @cached_property
    def terminated(self) -> int:
        """Number of episodes that ended by termination."""
        return self.parts.census.terminated

    @cached_property
    def counts(self) -> Counts:
        """Transition counts of the log."""
        return self.facts.counts(self.shape)

    def learn_sizes(self) -> None:
        """Make sure that the lengths of episodes are known, which a stored log learns in a pass."""
        if self.parts.known is None:
            self.facts.counts(self.shape)

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

    def pi_e(self, what: str) -> FloatArray:
        """(S, A) pi_e of all actions, which `what` needs."""
        return self.pair.require_pi_e(what)

    @cached_property
    def gain(self) -> FloatArray:
        """(S, A) pi_e - pi_b."""
        return self.pi_e("The bias of a drop") - self.pi_b

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
        return self.parts.cut_early

    @property
    def discount(self) -> float:
        """Gamma as it was asked for."""
        return self.gamma if self.asked_gamma is None else self.asked_gamma

    def discounted(self, field: Field) -> Field:
        """Values as an estimate weighs them: with what each row counts, where that is not the same."""
        return ByDuration(field) if self.by_duration or self.cut_weights is not None else field
