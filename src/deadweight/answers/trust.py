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

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.model_tests import (
    ENOUGH,
    CalibrationSlope,
    labels_are_noise,
    residual_test,
)
from deadweight.answers.plans import plan_of
from deadweight.answers.rounds import Job, OfInfluences, Summing, Sums, Task, carry_out, together
from deadweight.estimators.estimator import BUILT_IN
from deadweight.estimators.product import SelfNormalised
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
    slope = CalibrationSlope.of(question, q, question.n)
    z: float = carry_out(question, _calibration(question, slope))[0]
    return z


def _calibration(question: Question, slope: CalibrationSlope) -> Task[float]:
    """z of a calibration slope."""
    yield Sums([slope])
    residuals, totals = slope.residuals(Summing(question).found(slope).value), list[Total]()
    yield OfInfluences([Job([], residuals, totals.append)])
    return residuals.z(totals[0])


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


def cross_checks(question: Question) -> Task[CrossChecks]:
    """The cross-checks of a question, made once; a path's passes may take them along."""
    if CrossChecks not in question.sums:
        by_label = question.row_values is None
        question.sums[CrossChecks] = (
            (yield from _cross_checks(question)) if by_label else _cross_checks_of_rows(question)
        )
    checks: CrossChecks = question.sums[CrossChecks]
    return checks


def _cross_checks(question: Question) -> Task[CrossChecks]:
    """Where states have labels: WDR, windows and the calibration of models of other episodes."""
    robust, direct = (plan_of(question, BUILT_IN[name], NOTHING_DROPPED) for name in ("WDR", "DM"))
    steps, values = model_steps(question), unseen_values(question)
    windows = [SelfNormalised(windowed(question, steps, window)) for window in WINDOWS]
    answers = Answers(question, [robust, direct], model_known=True)

    def estimates() -> Task[None]:
        yield Sums([*answers.wanted().wanted, *windows])
        yield from answers.std_errors([robust])

    calibration = [] if values is None else [CalibrationSlope.of(question, values.q, ENOUGH)]
    _, *scores = yield from together(estimates(), *(_calibration(question, slope) for slope in calibration))
    z = scores[0] if scores else math.inf
    moved = [each.family.finish(answers.found(each), weighted=True).value for each in windows]
    ess, by_model = answers.ess(robust) or 0.0, answers.fit(direct).value
    meaningless = z < thresholds.TELLS_PAY and labels_are_noise(question)
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


def cross_checks_of(question: Question) -> CrossChecks:
    """The cross-checks of a question; by passes of their own where no path has taken them along."""
    checks: CrossChecks = carry_out(question, cross_checks(question))[0]
    return checks


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


def confounding_test(question: Question) -> Task[Confounding | None]:
    """What the test of `ConfoundingSums` finds; None where it cannot be made, or no probabilities differ."""
    if Confounding not in question.sums and _has_logged_probabilities(question):
        logged = LoggedByPair(question)
        yield Sums([logged])
        sums, totals = ConfoundingSums.of(question, Summing(question).found(logged)), list[Total]()
        yield OfInfluences([] if sums is None else [Job([], sums, totals.append)])
        question.sums[Confounding] = Confounding.of(np.asarray(totals[0].value)) if totals else None
    confounding: Confounding | None = question.sums.get(Confounding)
    return confounding


def confounding_of(answers: Answers) -> Confounding | None:
    """The same, by passes of its own where no others were shared."""
    confounding: Confounding | None = carry_out(answers.question, confounding_test(answers.question))[0]
    return confounding


def is_confounded(answers: Answers) -> bool:
    """Whether the check has been made, and has found something."""
    confounding = answers.question.sums.get(Confounding)
    return confounding is not None and confounding.found
