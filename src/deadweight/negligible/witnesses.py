"""Witnesses: what a log says of the value with other weights than those of a path's levels.

A model that is wrong sees no gaps and has everything dropped; its own bias and standard error do not tell.
What does tell are estimates that drop nothing: WDR with all its ratios, which is right however wrong the
model is and noisy, and Win_3 and Win_2 (`deadweight.estimators.windowed`), which find what the last actions
have done at little noise, but not more. All of them take the passes that a path makes anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from deadweight.answers.answering import Answers
from deadweight.answers.influences import Job, one_pass
from deadweight.answers.plans import FEW_EPISODES, plan_of
from deadweight.estimators.family import Summed
from deadweight.estimators.names import BUILT_IN
from deadweight.estimators.product import SelfNormalised
from deadweight.estimators.row_windows import row_window, value_of_starts
from deadweight.estimators.windowed import model_steps, windowed
from deadweight.negligible.guard import guard_of
from deadweight.negligible.label_memory import SURE_Z, labels_are_noise
from deadweight.negligible.unseen_fit import FOLDS, Proof, unseen_values
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED

WINDOWS = (3, 2)
WINDOWS_OF_ROWS = (2, 3, 5)
# A windowed estimate so many standard errors of the undropped one away from it is no witness.
CONTRADICTED = 3.0
# Below it a model of labels has not shown that it knows anything.
LEAST_Z = 0.5
# So many effective episodes hold a drop without such a proof.
ENOUGH_UNPROVEN = 30.0


@dataclass(frozen=True)
class Witnesses:
    """What was found.

    Attributes:
      undropped, std_error: the estimate that drops nothing, the model taken as known.
      ess: its effective sample size.
      windowed: values of the windowed estimates.
      one_sided: these only tell when something is wrong, not what is right, as where states are rows.
      proven: whether the model has shown that it knows anything of unseen episodes.
      allows: whether anything may be dropped by it.
      meaningless: whether labels tell nothing of what follows or is paid, and values hardly what is earned.
    """

    undropped: float
    std_error: float
    ess: float
    windowed: tuple[float, ...] = ()
    one_sided: bool = False
    proven: bool = True
    allows: bool = True
    meaningless: bool = False

    @property
    def anchored(self) -> bool:
        """Whether enough effective episodes carry the undropped estimate."""
        return self.ess >= FEW_EPISODES

    @property
    def believed(self) -> tuple[float, ...]:
        """Those of the windowed estimates that the undropped one does not contradict.

        With few effective episodes its standard error says little, and it contradicts only from far away.
        """
        reach = CONTRADICTED * self.std_error * max(1.0, FEW_EPISODES / max(self.ess, 1.0)) ** 2
        return tuple(value for value in self.windowed if abs(value - self.undropped) <= reach)


class Hearing:
    """The passes behind the witnesses of a question of labels, which a path's passes may take along.

    Args:
      question: with a model that can be solved.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        question.count_folds(FOLDS)  # both counts in one pass, whoever asks first
        self.plans = [plan_of(question, BUILT_IN[name], NOTHING_DROPPED) for name in ("WDR", "DM")]
        steps = model_steps(question)
        self._windows = [SelfNormalised(windowed(question, steps, window)) for window in WINDOWS]
        values = unseen_values(question)
        self._proof = None if values is None else Proof(question, values)
        self._answers = Answers(question, self.plans, model_known=True)

    @property
    def first(self) -> list[Summed]:
        """What the first pass sums."""
        wanted: list[Summed] = [*self._answers.first_pass(with_errors=False), *self._windows]
        return wanted if self._proof is None else [*wanted, self._proof.summed]

    @property
    def second(self) -> list[Job | None]:
        """What the second pass does."""
        jobs = [self._answers.errors(self.plans[:1])]
        if self._proof is not None and not self._proof.is_made:
            jobs.append(self._proof.job(self._answers))
        return jobs

    @cached_property
    def witnesses(self) -> Witnesses:
        """What they say; by passes of their own where no others have taken them along."""
        answers, (robust, direct) = self._answers, self.plans
        answers.sum(self.first, [robust.weighting])
        one_pass(self.question, self.second)
        by_model = answers.fit(direct).value
        windowed = [one.family.finish(answers.found(one), weighted=True).value for one in self._windows]
        ess, z = answers.ess(robust) or 0.0, math.inf if self._proof is None else self._proof.z
        meaningless = z < SURE_Z and labels_are_noise(self.question)
        proven = z >= LEAST_Z and not meaningless
        return Witnesses(
            answers.fit(robust).value,
            answers.std_error(robust),
            ess,
            tuple(by_model + value for value in windowed),
            proven=proven,
            allows=proven or (ess >= ENOUGH_UNPROVEN and not meaningless),
            meaningless=meaningless,
        )


def hearing_of(question: Question) -> Hearing | None:
    """The hearing of a question's witnesses, made once; None where states are rows, which have a guard."""
    if question.row_values is not None:
        return None
    return question.made_once((Hearing,), lambda: Hearing(question))


def witnesses_of(question: Question) -> Witnesses:
    """The witnesses of a question; by passes of their own where no path has taken them along."""
    hearing = hearing_of(question)
    if hearing is not None:
        return hearing.witnesses
    return question.made_once((Witnesses,), lambda: _of_rows(question))


def _of_rows(question: Question) -> Witnesses:
    """Where states are rows: what the guard has found, and windows without the shares of states."""
    guard, start = guard_of(question), value_of_starts(question)
    families = [row_window(question, window) for window in WINDOWS_OF_ROWS]
    answers = Answers(question, ())
    answers.sum([SelfNormalised(family) for family in families])
    moved = [one.finish(answers.found(SelfNormalised(one)), weighted=True).value for one in families]
    return Witnesses(
        guard.anchor,
        guard.anchor_error,
        guard.ess,
        tuple(start + value for value in moved),
        one_sided=True,
        allows=guard.allows,
    )
