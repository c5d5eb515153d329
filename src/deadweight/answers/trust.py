"""May the model be trusted? Whether its values may be used at all, and whether they may drop states.

A model of features or labels that mean nothing sees no advantage of any action, and its value is about that
of the behaviour policy: wrong, at a small standard error, and often too close to what weights say to be told
from it. The tests of `deadweight.answers.model_tests` tell, and this is the one place that decides by them:
`is_proven` for any use, `cross_checks_of` for the automatic drop, `confounding_of` for logs whose old policy
looked at more than the states show. Their thresholds are in `deadweight.tools.thresholds`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.influences import Job
from deadweight.answers.model_tests import (
    ENOUGH,
    CalibrationSlope,
    SlopeResiduals,
    labels_are_noise,
    residual_test,
)
from deadweight.answers.plans import plan_of
from deadweight.answers.rounds import OfInfluences
from deadweight.estimators.estimator import BUILT_IN
from deadweight.estimators.product import SelfNormalised, Summed
from deadweight.estimators.windowed import ModelSteps, model_steps, row_window, value_of_starts, windowed
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import MOST_VALUES, Question, Values
from deadweight.sums.blocks import Block, Field, Logged
from deadweight.sums.old_policies import SAME, Confounding, slope_sums
from deadweight.sums.summaries import KeyedSums, Total
from deadweight.tools import thresholds
from deadweight.tools.arithmetic import divide
from deadweight.typing import FloatArray
from deadweight.values.model import FOLDS


def is_proven(question: Question) -> bool:
    """Whether the log bears out the values: what was earned does not contradict them, and goes with them.

    Values that were learned from the log in closed form have a standard error, and need less of a proof.
    Values without any content are contradicted by nothing, so that given ones must also go with rewards.
    """
    given = residual_test(question)
    if question.row_values is None:
        return not labels_are_noise(question) if given is None else given.fits
    checks = row_checks_of(question)
    return checks.z >= thresholds.LEAST_Z if given is None else given.fits and checks.is_sure


def calibration_z(question: Question, q: Field) -> float:
    """z of the `CalibrationSlope` of values over all episodes, by passes of its own."""
    answers, slope = Answers(question, ()), CalibrationSlope.of(question, q, question.n)
    calibration = _Calibration(slope)
    answers.sum([slope])
    OfInfluences([calibration.job(answers)]).serve(question)
    return calibration.z


class _Calibration:
    """A `CalibrationSlope` on its way through its two passes; z is infinite where there is none to make."""

    def __init__(self, summed: CalibrationSlope | None) -> None:
        self.summed, self.z, self.is_made = summed, math.inf, summed is None

    def job(self, answers: Answers) -> Job | None:
        """What the second pass does, once the first is made; None where there is nothing left to do."""
        if self.summed is None or self.is_made:
            return None
        residuals: SlopeResiduals = self.summed.residuals(answers.found(self.summed).value)

        def keep(total: Total) -> None:
            self.z, self.is_made = residuals.z(total), True

        return Job([], residuals, keep)


# --- What holds the automatic drop --------------------------------------------------------------------------
#
# A model that is wrong sees no gaps and has everything dropped; its own bias and standard error do not tell.
# What does tell are estimates that drop nothing: WDR with all its ratios, which is right however wrong the
# model is and noisy, and Win_3 and Win_2 (`deadweight.estimators.windowed`), which find what the last actions
# have done at little noise, but not more. All of them take the passes that a path makes anyway.

WINDOWS = (3, 2)
WINDOWS_OF_ROWS = (2, 3, 5)


@dataclass(frozen=True)
class CrossChecks:
    """Estimates that drop nothing, and whether the model is fit to drop anything.

    Attributes:
      undropped, std_error: the estimate with all ratios, the model taken as known.
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
        return self.ess >= thresholds.FEW_EPISODES

    @property
    def believed(self) -> tuple[float, ...]:
        """Those of the windowed estimates that the undropped one does not contradict.

        With few effective episodes its standard error says little, and it contradicts only from far away.
        """
        reach = (
            thresholds.CONTRADICTED
            * self.std_error
            * max(1.0, thresholds.FEW_EPISODES / max(self.ess, 1.0)) ** 2
        )
        return tuple(value for value in self.windowed if abs(value - self.undropped) <= reach)


class CrossCheckPasses:
    """The passes behind the cross-checks of a question of labels, which a path's passes may take along.

    Args:
      question: with a model that can be solved.
    """

    def __init__(self, question: Question) -> None:
        self.question = question
        self.plans = [plan_of(question, BUILT_IN[name], NOTHING_DROPPED) for name in ("WDR", "DM")]
        steps = model_steps(question)
        self._windows = [SelfNormalised(windowed(question, steps, window)) for window in WINDOWS]
        values = unseen_values(question)
        slope = None if values is None else CalibrationSlope.of(question, values.q, ENOUGH)
        self._calibration = _Calibration(slope)
        self._answers = Answers(question, self.plans, model_known=True)

    @property
    def first(self) -> list[Summed]:
        """What the first pass sums."""
        summed: list[Summed] = [*self._answers.wanted().wanted, *self._windows]
        slope = self._calibration.summed
        return summed if slope is None else [*summed, slope]

    @property
    def second(self) -> list[Job | None]:
        """What the second pass does."""
        return [self._answers.errors(self.plans[:1]), self._calibration.job(self._answers)]

    @cached_property
    def checks(self) -> CrossChecks:
        """What they say; by passes of their own where no others have taken them along."""
        answers, (robust, direct) = self._answers, self.plans
        answers.sum(self.first, [robust.weighting])
        OfInfluences(self.second).serve(self.question)
        by_model = answers.fit(direct).value
        moved = [one.family.finish(answers.found(one), weighted=True).value for one in self._windows]
        ess, z = answers.ess(robust) or 0.0, self._calibration.z
        meaningless = z < thresholds.TELLS_PAY and labels_are_noise(self.question)
        proven = z >= thresholds.LEAST_Z and not meaningless
        return CrossChecks(
            answers.fit(robust).value,
            answers.std_error(robust),
            ess,
            tuple(by_model + value for value in moved),
            proven=proven,
            allows=proven or (ess >= thresholds.ENOUGH_UNPROVEN and not meaningless),
            meaningless=meaningless,
        )


def has_folds(question: Question) -> bool:
    """Whether there are models of a table that have not seen the episodes which they serve."""
    if question.row_values is not None or question.options.model is not None or question.n < FOLDS:
        return False
    return FOLDS * question.values.q.values.size <= MOST_VALUES


def unseen_values(question: Question) -> Values[Field] | None:
    """Values of models that have not seen the episodes they are used on; None where there are none."""
    if question.options.model is not None:
        return question.values
    return question.cross_fitted(FOLDS) if has_folds(question) else None


def cross_check_passes_of(question: Question) -> CrossCheckPasses | None:
    """The passes of a question's cross-checks, made once; None where states are rows."""
    if question.row_values is not None:
        return None
    return question.made_once((CrossCheckPasses,), lambda: CrossCheckPasses(question))


def cross_checks_of(question: Question) -> CrossChecks:
    """The cross-checks of a question; by passes of their own where no path has taken them along."""
    passes = cross_check_passes_of(question)
    if passes is not None:
        return passes.checks
    return question.made_once((CrossChecks,), lambda: _cross_checks_of_rows(question))


def _cross_checks_of_rows(question: Question) -> CrossChecks:
    """Where states are rows: `RowChecks`, and windows without the shares of states."""
    checks, start = row_checks_of(question), value_of_starts(question)
    windows = [SelfNormalised(row_window(question, window)) for window in WINDOWS_OF_ROWS]
    answers = Answers(question, ())
    answers.sum(windows)
    moved = [one.family.finish(answers.found(one), weighted=True).value for one in windows]
    return CrossChecks(
        checks.undropped,
        checks.std_error,
        checks.ess,
        tuple(start + value for value in moved),
        one_sided=True,
        allows=checks.allows,
    )


@dataclass(frozen=True)
class RowChecks:
    """Whether a model of features is of any use, judged by values of unseen episodes and without a drop.

    Two things tell: whether it takes noise away, and whether its values go with what was earned. A drop is
    allowed if the ratio of standard errors is below 1.25 and z above 2; in short logs of rare rewards few
    models get that far, and it is also allowed if the model does take noise away (ratio below 0.9) and z is
    above 1.

    Attributes:
      ratio: standard error of WDR over that of WPDIS, nothing dropped, the model taken as known.
      z: of the `CalibrationSlope` of its values.
      undropped, std_error: value and standard error of the surer of the two estimates.
      ess: undropped effective sample size.
    """

    ratio: float
    z: float
    undropped: float
    std_error: float
    ess: float

    @property
    def is_sure(self) -> bool:
        """Whether values go with what was earned beyond doubt."""
        return self._passes(*thresholds.SURE_BY_FIT)

    @property
    def allows(self) -> bool:
        """Whether anything may be dropped by this model."""
        return self.is_sure or self._passes(*thresholds.SURE_BY_NOISE)

    def _passes(self, most: float, least: float) -> bool:
        return self.ratio < most and self.z > least


def row_checks_of(question: Question) -> RowChecks:
    """The checks of the model of a question about rows; made once."""
    return question.made_once((RowChecks,), lambda: _row_checks(question))


def _row_checks(question: Question) -> RowChecks:
    robust, plain = (plan_of(question, BUILT_IN[name], NOTHING_DROPPED) for name in ("WDR", "WPDIS"))
    answers = Answers(question, [robust, plain], model_known=True)
    answers.wanted().serve(question)
    errors = answers.std_error(robust), answers.std_error(plain)
    ratio = errors[0] / errors[1] if errors[1] > 0 else math.inf if errors[0] > 0 else 1.0
    surer = plain if errors[1] < errors[0] else robust
    z = calibration_z(question, question.values.q)
    return RowChecks(ratio, z, answers.fit(surer).value, min(errors), answers.ess(robust) or 0.0)


# --- Has the old policy looked at something that the state lacks, and that matters? -------------------------

# Probabilities that were counted from the log itself, as this flag says, are no ground to tell.
COUNTED = "behaviour-filled"


class LoggedByPair:
    """Number, sum and sum of squares of the logarithms of logged probabilities, by state and action."""

    key: Hashable = "logged-by-pair"

    def __init__(self, question: Question) -> None:
        self.behaviour, self.n_actions = question.pair.behaviour, question.pair.n_actions

    def summarise(self, block: Block) -> KeyedSums:
        """Of a block."""
        logs = np.log(block.flat(self.behaviour.on(block)))
        return KeyedSums.of(block.flat(block.pairs(self.n_actions)), 1.0, logs, np.square(logs))


@dataclass(frozen=True, eq=False)
class ConfoundingSums:
    r"""The regression of the model's errors on logged probabilities, within states and actions.

    Logged probabilities that differ within a state and action say that the old policy looked at more than the
    state: a week, a version, how ill somebody was. That is harmless unless what it looked at also tells what
    follows. Where it does, the model's error of a step goes along with the logged probability,

    .. math:: \delta_{it} = r_{it} + \gamma V(s_{i,t+1}) - Q(s_{it}, a_{it}) \quad \text{on} \quad
       x_{it} = \log b_{it} - \overline{\log b}_{s_{it} a_{it}},

    pooled over states, with standard errors clustered by episode and as many degrees of freedom as there are
    episodes that effectively carry the slope. Each action has a slope of its own: whatever makes one of them
    more likely makes another less likely, and over all of them the slopes cancel. Weights are not harmed by
    this, if the logged probabilities are right; whatever rests on the model is.

    Attributes:
      steps: the model at the steps of the log.
      behaviour: the logged probabilities.
      means: (S * A,) of their logarithms.
      larger: (S * A,) by how much an error is larger than the one seen, from a mean that it is part of; 0
        where the probabilities do not differ.
    """

    steps: ModelSteps
    behaviour: Field
    means: FloatArray
    larger: FloatArray

    @classmethod
    def of(cls, question: Question, logged: KeyedSums) -> ConfoundingSums | None:
        """None where no probabilities differ."""
        number, total, squares = logged.sums
        mean = total / number
        differ = squares / number - np.square(mean) > SAME**2
        if not differ.any():
            return None
        means, larger = np.zeros((2, question.pair.n_states * question.pair.n_actions))
        means[logged.keys] = mean
        larger[logged.keys] = np.where(differ, divide(number, number - 1), 0.0)
        return cls(model_steps(question), question.pair.behaviour, means, larger)

    def __call__(self, values: FloatArray, block: Block) -> Total:
        """(5, A) of a block's episodes, for `Confounding.of`."""
        n_actions = self.steps.pi_e.shape[1]
        errors, pairs = self.steps.errors(block), block.pairs(n_actions)
        told = errors.known & (self.larger[pairs] > 0)
        at = pairs[told]
        x = np.log(self.behaviour.on(block)[told]) - self.means[at]
        keys = np.nonzero(told)[0] * n_actions + at % n_actions
        return Total(slope_sums(keys, x, errors.delta[told], self.larger[at], n_actions))


def _has_logged_probabilities(question: Question) -> bool:
    """Whether there are logged probabilities, and a table of states that is solved."""
    return (
        isinstance(question.pair.behaviour, Logged)
        and "propensities" in question.parts.labels.logged
        and question.row_values is None
        and COUNTED not in question.behaviour_flags
        and question.can_solve_model
    )


def sums_for(question: Question) -> list[LoggedByPair]:
    """What confounding needs summed in a first pass; nothing where there is nothing to check."""
    return [LoggedByPair(question)] if _has_logged_probabilities(question) else []


def job_for(answers: Answers) -> Job | None:
    """What confounding needs of a second pass, by whoever makes one; None where nothing is left to do."""
    question = answers.question
    if Confounding in question.sums or not _has_logged_probabilities(question):
        return None
    logged = LoggedByPair(question)
    answers.sum([logged])
    sums = ConfoundingSums.of(question, answers.found(logged))
    if sums is None:
        question.sums[Confounding] = None
        return None

    def keep(total: Total) -> None:
        question.sums[Confounding] = Confounding.of(np.asarray(total.value))

    return Job([], sums, keep)


def confounding_of(answers: Answers) -> Confounding | None:
    """What the check finds, by passes of its own where none were shared; None where it cannot be made."""
    OfInfluences([job_for(answers)]).serve(answers.question)
    found: Confounding | None = answers.question.sums.get(Confounding)
    return found


def is_confounded(answers: Answers) -> bool:
    """Whether the check has been made, and has found something."""
    found = answers.question.sums.get(Confounding)
    return found is not None and found.found
