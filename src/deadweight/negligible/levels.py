"""Levels: the nested drop sets of a path, from none to all that may be dropped, by Q gap, and their columns.

Every level of every path is a plan like any other (`deadweight.answers.plans`), and those that are lanes of
one walk take one reading of the log, however many they are: one for the sums, one for the influences.
Others go `LEVELS_AT_ONCE` at a time. What is chosen among them is said in `deadweight.negligible.path`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.lanes import Laned
from deadweight.answers.plans import Plan, plan_of
from deadweight.answers.rounds import OfInfluences, Sums, Task, carry_out
from deadweight.estimators.estimator import Estimator
from deadweight.log.labels import StateSet
from deadweight.negligible.state_tests import may_drop
from deadweight.question.drops import Drop, chosen_drop
from deadweight.question.question import Question
from deadweight.results.saved import saved
from deadweight.tools.arithmetic import freeze_fields, frozen
from deadweight.typing import BoolArray, FloatArray, IntArray, Labels

# Levels of one fold where each is summed by itself: what a block keeps for each of them stays small.
LEVELS_AT_ONCE = 32


@saved
@dataclass(frozen=True, eq=False)
class Levels:
    """Level 0 drops nothing; level k drops the states that may be dropped with gap <= epsilon[k]."""

    epsilon: FloatArray  # (K + 1,) the largest gap dropped at each level, 0 at the first
    entry: IntArray  # (S,) the level at which a state is first dropped; K + 1 for one that never is
    labels: Labels  # (S,) what the user calls each state
    evidence: Mapping[str, FloatArray]  # gap and visits of each state

    def __post_init__(self) -> None:
        evidence = {name: frozen(values) for name, values in self.evidence.items()}
        object.__setattr__(self, "evidence", evidence)
        freeze_fields(self)

    def __len__(self) -> int:
        return len(self.epsilon)

    @property
    def n_dropped(self) -> IntArray:
        """(K + 1,) number of states dropped at each level."""
        return np.bincount(self.entry, minlength=len(self) + 1)[: len(self)].cumsum()

    def mask(self, level: int) -> BoolArray:
        """(S,) the states dropped at a level."""
        dropped: BoolArray = self.entry <= level
        return dropped

    def states(self, level: int, origin: str | None = None) -> StateSet:
        """The set of a level."""
        text = f"Q gap <= {self.epsilon[level]:g}" if level else "nothing dropped"
        return StateSet(self.mask(level), self.labels, origin or text, self.evidence)


class LevelSets(Sequence[StateSet]):
    """The sets of all levels, each made when it is looked at."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels

    def __len__(self) -> int:
        return len(self._levels)

    @overload
    def __getitem__(self, level: int) -> StateSet: ...
    @overload
    def __getitem__(self, level: slice) -> list[StateSet]: ...
    def __getitem__(self, level: int | slice) -> StateSet | list[StateSet]:
        numbers = range(len(self))[level]
        if isinstance(numbers, range):
            return [self._levels.states(number) for number in numbers]
        return self._levels.states(numbers)


def make_levels(question: Question, min_visits: int = 0, most: int | None = None) -> Levels:
    """The levels of a question.

    There is one at each distinct gap of a visited state or, with `most`, at no more than so many quantiles.
    States never visited follow by their gap: dropping them changes nothing.
    """
    question.solve()  # the bias along the path needs values anyway, and from them gaps are quick
    gap, allowed, visits = question.gaps, may_drop(question, min_visits), question.visits
    seen = gap[allowed & (visits > 0)]
    points = np.unique(seen)
    if most is not None and points.size > most:
        points = np.unique(np.quantile(seen, np.linspace(0, 1, most), method="inverted_cdf"))
    if allowed.any():
        points = np.append(points[:-1], gap[allowed].max())  # the last level drops all that may be dropped
    entry = np.where(allowed, np.searchsorted(points, gap) + 1, points.size + 1)
    epsilon = np.concatenate([[0.0], points])
    return Levels(epsilon, entry, question.pair.state_labels, {"gap": gap, "visits": visits})


@dataclass(frozen=True, eq=False)
class Columns:
    """(K + 1,) numbers of each level."""

    estimate: FloatArray  # uncorrected, except for doubly robust names, which hold the correction inside
    std_error: FloatArray  # of the corrected value for names that correct
    bias: FloatArray
    ess: FloatArray


@dataclass(frozen=True, eq=False)
class LevelPlans:
    """The plans of one name at some levels; `bases` are those of the uncorrected estimates."""

    plans: tuple[Plan, ...]
    bases: tuple[Plan, ...]

    @classmethod
    def of(cls, question: Question, estimator: Estimator, drops: Iterable[Drop]) -> LevelPlans:
        """The plans of an estimator with these drops."""
        plans = tuple(plan_of(question, estimator, drop) for drop in drops)
        if not estimator.is_corrected:
            return cls(plans, plans)
        return cls(plans, tuple(plan_of(question, estimator.uncorrected, plan.drop) for plan in plans))

    @property
    def laned(self) -> bool:
        """Whether all of them can be summed in lanes."""
        return all(Laned.of(plan.family) is not None for plan in self.plans)

    @property
    def all(self) -> list[Plan]:
        """The plans of both kinds, each once."""
        return list(dict.fromkeys([*self.plans, *self.bases]))

    def columns(self, answers: Answers) -> Columns:
        """The columns by these answers."""
        rows = [self._row(answers, *pair) for pair in zip(self.plans, self.bases, strict=True)]
        return Columns(*np.array(rows).T)

    def _row(self, answers: Answers, plan: Plan, base: Plan) -> tuple[float, ...]:
        bias, ess = answers.bias(plan), answers.ess(plan)
        assert bias is not None  # there are no gaps without pi_e, and so no levels
        value, error = answers.fit(base).value, answers.std_error(plan)
        return value, error, bias, float(answers.question.n) if ess is None else ess


def level_drops(question: Question, levels: Levels) -> list[Drop]:
    """The drop of each level; made once."""
    if levels not in question.sums:
        question.sums[levels] = [chosen_drop(question, levels.states(k)) for k in range(len(levels))]
    drops: list[Drop] = question.sums[levels]
    return drops


def columns_of(
    question: Question,
    wanted: Sequence[tuple[Estimator, Levels]],
    shown: Sequence[Plan] = (),
) -> Task[list[Columns]]:
    """The columns of the paths of some names.

    Args:
      question: log, policies and options.
      wanted: names with their levels.
      shown: plans whose full standard errors, and those that check them, somebody will ask for: made on
        the way.
    """
    paths = [
        LevelPlans.of(question, estimator, level_drops(question, levels)) for estimator, levels in wanted
    ]
    together = [plans for plans in paths if plans.laned]
    answers = Answers(question, [plan for plans in together for plan in plans.all], model_known=True)
    full = Answers(question, shown if together else ())
    checks = [check for plan in full.plans for check in plan.counterparts]
    of_full = Sums(full.wanted(counterparts=checks, with_errors=True).wanted)
    yield answers.wanted(with_bias=True).joined([of_full])
    errors = answers.errors([plan for plans in together for plan in plans.plans])
    yield OfInfluences([errors, full.errors(full.plans)])
    return [
        plans.columns(answers) if plans in together else level_by_level(question, estimator, levels)
        for plans, (estimator, levels) in zip(paths, wanted, strict=True)
    ]


def level_by_level(question: Question, estimator: Estimator, levels: Levels) -> Columns:
    """The columns of any state-based estimator, some levels at a time."""
    drops, columns = level_drops(question, levels), []
    for lo in range(0, len(drops), LEVELS_AT_ONCE):
        plans = LevelPlans.of(question, estimator, drops[lo : lo + LEVELS_AT_ONCE])
        answers = Answers(question, plans.all, model_known=True)
        answers.wanted(with_bias=True).serve(question)
        carry_out(question, answers.std_errors(plans.plans))
        columns.append(vars(plans.columns(answers)))
    return Columns(*(np.concatenate([part[name] for part in columns]) for name in columns[0]))
