"""Evidence: the estimates that BLEND mixes, with the covariance of their full influences.

Two passes over the log: one for the sums of all estimates and of their starts, one for the influences. What a
question has computed already (model, values) is used again, and others may share both passes.

Where states are rows there are no windows, since windowed weights need the share of each state in the model;
models have not seen the rows that they serve as it is, so that WDR is cross-fitted; and values that are taken
as known have no standard error, so that WIN1 (`deadweight.answers.trust`) stands for DM.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.blend import BY_EPISODE, BY_STEP, ROUNDING, SECOND_OPINION, WHOLE_WEIGHTS, Evidence
from deadweight.answers.influences import Job
from deadweight.answers.intervals import ReturnExtent
from deadweight.answers.plans import plan_of
from deadweight.answers.rounds import Counts, OfInfluences, Sums, Task
from deadweight.answers.trust import has_given_model, is_proven, known_values
from deadweight.answers.witnesses import LEAST_Z, fit_of
from deadweight.estimators import estimator
from deadweight.estimators.direct import DirectByRow, Episodes, Together
from deadweight.estimators.estimator import BUILT_IN
from deadweight.estimators.influence import Influence, no_influence
from deadweight.estimators.product import Summed
from deadweight.estimators.windowed import ModelSteps, model_steps
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import MOST_VALUES, Question, RowQuestion
from deadweight.sums.blocks import Block
from deadweight.sums.ends import RewardTiming
from deadweight.sums.reduction import in_log_order, numbered
from deadweight.sums.running import Running, scale
from deadweight.sums.summaries import CoMoments, Kish, Pieces
from deadweight.tools.arithmetic import divide
from deadweight.typing import FloatArray
from deadweight.values.model import FOLDS
from deadweight.values.model_influence import SquaresByState, Surprise

WINDOWS = tuple(one.name for one in estimator.WINDOWS)


def gather(question: Question, answers: Answers | None = None) -> Evidence:
    """All estimates of a question that a blend needs; sums that are there already are not made again."""
    if Evidence not in question.paths:
        Gatherer(question, answers or Answers(question, ())).evidence()
    evidence: Evidence = question.paths[Evidence]
    return evidence


def evidence_of(question: Question) -> Task[Evidence]:
    """The evidence of a question, by passes that others may share."""
    yield Counts()
    gatherer = Gatherer(question, Answers(question, ()))
    yield Sums(gatherer.wanted, [gatherer.plans[BY_STEP].weighting])
    yield OfInfluences([gatherer.job])
    return gatherer.evidence()


def checked(question: Question, answers: Answers, evidence: Evidence, lost: bool) -> Evidence:
    """The evidence once it is known whether the model is lost; whoever gathers again gets it so."""
    if lost or not evidence.model:
        name = BY_EPISODE if evidence.late else BY_STEP
        distance = answers.disagreement(plan_of(question, BUILT_IN[name], NOTHING_DROPPED))
        evidence = replace(evidence, model=False, row_distance=distance or 0.0)
    question.paths[Evidence] = evidence
    return evidence


class Gatherer:
    """What a blend needs of the log, asked for in two passes that others may share.

    Args:
      question: with pi_e of all actions, and a model that can be solved.
      answers: sums that are there already are not made again.
    """

    def __init__(self, question: Question, answers: Answers) -> None:
        self.question, self.answers = question, answers
        self._joint: Joint | None = None
        wanted = [BUILT_IN[name] for name in ("LIN", "DM", "BEHAVIOUR", BY_STEP, BY_EPISODE)]
        wanted.append(estimator.CROSS_FITTED if self._has_folds else BUILT_IN["WDR"])
        if not self._by_row:
            wanted += estimator.WINDOWS
        self.plans = {one.name: plan_of(question, one, NOTHING_DROPPED) for one in wanted}

    @property
    def _by_row(self) -> bool:
        return self.question.row_values is not None

    @cached_property
    def _has_folds(self) -> bool:
        """Whether there are models of a table that have not seen the episodes which they serve."""
        question = self.question
        if self._by_row or question.options.model is not None or question.n < FOLDS:
            return False
        return FOLDS * question.values.q.values.size <= MOST_VALUES

    @cached_property
    def _steps(self) -> ModelSteps:
        return model_steps(self.question)

    @cached_property
    def _facts(self) -> dict[str, Summed]:
        """What is summed beside the estimates, by what it tells."""
        facts: dict[str, Summed] = {
            "timing": RewardTiming(),
            "extent": ReturnExtent(self.question.gamma),
        }
        if not self._by_row:
            facts["surprise"] = WalkedSurprise(self.question.model, self._steps)
            facts["windows"] = WindowSizes(self._steps, 3)
        return facts

    @property
    def wanted(self) -> list[Summed]:
        """What is to be summed in the first pass."""
        of_plans = [one for plan in self.plans.values() for one in (plan.summed, plan.starts)]
        return [*(one for one in of_plans if one is not None), *self._facts.values()]

    @property
    def job(self) -> Job:
        """What is to be done in the second pass."""
        summarise = partial(joint_moments, self._unit, self.question.keeps_influences)
        return Job([influence for _, influence in self._estimates.values()], summarise, self._keep)

    @property
    def _unit(self) -> float:
        """A power of two of the size of returns, in which no third moment leaves the range of numbers."""
        extent = self.answers.found(self._facts["extent"])
        largest = max(abs(extent.lowest), abs(extent.highest))
        return math.ldexp(1.0, math.frexp(largest)[1]) if 0.0 < largest < math.inf else 1.0

    def _keep(self, joint: Joint) -> None:
        self._joint = joint

    @cached_property
    def _estimates(self) -> dict[str, tuple[float, Influence]]:
        """Value and influence of each estimate."""
        answers, plans = self.answers, list(self.plans.values())
        answers.sum(self.wanted, [self.plans[BY_STEP].weighting])
        pairs = zip(plans, answers.influences(plans), strict=True)
        estimates = {plan.name: (answers.fit(plan).value, influence) for plan, influence in pairs}
        direct = estimates["DM"]
        for name in WINDOWS:
            if name in estimates:
                value, influence = estimates[name]
                estimates[name] = direct[0] + value, Together((influence, direct[1]))
        known, second = known_values(self.question), self._second_opinion
        if known is not None:
            estimates["WIN1"] = known.estimate
        if second is not None:
            estimates[SECOND_OPINION] = second
        return estimates

    @property
    def _second_opinion(self) -> tuple[float, Influence] | None:
        """What the default's model says where another one was learned, unless it predicts nothing."""
        question = self.question
        values = question.default_values if isinstance(question, RowQuestion) else None
        if values is None or fit_of(question.parts[0], values.q, question.gamma) < LEAST_Z:
            return None
        fit = DirectByRow(values).finish(Episodes(question.n), weighted=False)
        return fit.value, fit.influence or no_influence

    def evidence(self) -> Evidence:
        """All of it; by passes of its own where no others were shared."""
        question, answers, estimates = self.question, self.answers, self._estimates
        if self._joint is None:
            OfInfluences([self.job]).serve(question)
        assert self._joint is not None
        joint, ess = self._joint, answers.ess(self.plans[BY_STEP]) or 0.0
        covariance = joint.moments.covariance_of_means * self._unit**2
        kept = self._finite(covariance)
        named = tuple(list(estimates)[place] for place in kept)
        unseen = self._unseen()
        evidence = Evidence(
            named,
            np.array([estimates[name][0] for name in named]),
            covariance[np.ix_(kept, kept)],
            np.array([self._size(name, ess) for name in named]),
            question.n,
            ess,
            thirds=joint.standardised[np.ix_(kept, kept, kept)] if question.n > 1 else None,
            unseen_variance=0.0 if unseen is None else float(np.square(unseen).sum()),
            shared_bias=self._shared_bias(),
            # Without other episodes to check it by, or any that acts like the new policy, a model is a guess.
            model=question.n >= FOLDS and ess > 0.0 and is_proven(question),
            late=answers.found(self._facts["timing"]).is_late,
            lacking=self._lacking,
            extent=self._extent,
            left_out=self._left_out,
            influences=tuple(estimates[name][1] for name in named),
            unseen=unseen,
            rows=None if joint.rows is None else in_log_order(joint.rows)[kept],
        )
        question.paths[Evidence] = evidence  # for whoever asks again
        return evidence

    def _finite(self, covariance: FloatArray) -> list[int]:
        """Places of the estimates that have a value.

        Products over a window may leave the range of doubles; all the others carry an exponent.
        """
        known = np.isfinite(np.diag(covariance)) | (self.question.n < 2)
        lost = {
            name
            for (name, (value, _)), fine in zip(self._estimates.items(), known, strict=True)
            if not (fine and np.isfinite(value)) and name in ("LIN", *WINDOWS)
        }
        if not lost.isdisjoint(WINDOWS):
            lost.update(WINDOWS)
        return [place for place, name in enumerate(self._estimates) if name not in lost]

    def _size(self, name: str, ess: float) -> float:
        """Effective episodes behind an estimate: all of them where it has no products of ratios."""
        if name in WINDOWS:  # of the longest, on average over the steps that pi_e reaches
            sizes, alive = self.answers.found(self._facts["windows"]).ess, self._steps.alive
            return float(sizes @ alive[: len(sizes)] / alive.sum())
        return ess if name in WHOLE_WEIGHTS else self.question.n

    @property
    def _left_out(self) -> tuple[str, ...]:
        """What nothing tells the error of: values that were given, and LIN where rows stand for many."""
        given = has_given_model(self.question) or "WIN1" in self._estimates
        return (*(["DM"] if given else []), *(["LIN"] if self.question.cut_weights is not None else []))

    @property
    def _lacking(self) -> float:
        """By how much the mean of the weights of whole episodes, and its standard error, fall short of 1."""
        (sums,), n = self.answers.sums(self.plans[BY_EPISODE]).groups, self.question.n
        mean, ess = float(scale(sums.weight, sums.shift)[0]) / n, self.answers.ess(self.plans[BY_STEP]) or n
        return max(1.0 - mean * (1.0 + math.sqrt(max(1.0 / ess - 1.0 / n, 0.0))), 0.0)

    @property
    def _extent(self) -> float:
        """The range of returns, as the user knows it or the log has it."""
        of_log = self.answers.found(self._facts["extent"])
        lowest, highest = self.question.options.return_range or (of_log.lowest, of_log.highest)
        return float(highest - lowest)

    def _unseen(self) -> FloatArray | None:
        """(S, A) what pairs that were hardly seen could do, of which no influence knows, DM's included."""
        if self._by_row or self.question.options.model is not None:
            return None
        return self.question.unseen_errors(self.answers.found(self._facts["surprise"]))

    def _shared_bias(self) -> float:
        """The jackknife's estimate of the bias of DM, from leaving out one fold after the other."""
        question, values = self.question, self.question.row_values
        if values is not None and values.start_without is not None:
            folds, n = values.start_without.shape
            without = [values.start_without[k, np.arange(n) % folds != k].mean() for k in range(folds)]
        elif self._has_folds:
            fits = question.cross_fitted(FOLDS).fits
            without = [float(fitted.model.d0 @ fitted.v[0]) for fitted in fits]
        else:
            return 0.0
        direct = self._estimates["DM"][0]
        bias = float((len(without) - 1) * (np.mean(without) - direct))
        return bias if abs(bias) > ROUNDING * abs(direct) else 0.0


class WalkedSurprise(Surprise):
    """The errors of the model's state values by the kernel, on a walk that is made for the windows anyway."""

    def __init__(self, model: Hashable, steps: ModelSteps) -> None:
        super().__init__(model, steps.v, steps.gamma)
        self.steps = steps

    def summarise(self, block: Block) -> SquaresByState:
        """Of the steps of a block whose successor is known."""
        walk = self.steps.walks.on(block)
        return super().summarise(block) if walk is None else SquaresByState(walk.surprise, walk.visits)


@dataclass(frozen=True, eq=False)
class WindowSizes:
    """Effective sample sizes of the weights of a window, step by step."""

    steps: ModelSteps
    window: int

    @property
    def key(self) -> Hashable:
        """One for each model and window."""
        return ("window-sizes", self.steps, self.window)

    def summarise(self, block: Block) -> Kish:
        """Of the steps of a block whose successor is known."""
        walk = self.steps.walks.on(block)
        if walk is not None:
            return walk.sizes(self.window)
        weights = self.steps.weights(self.steps.weighting.on(block), self.window)
        return Kish.of(Running(weights), self.steps.errors(block).known)


@dataclass(frozen=True, eq=False)
class Joint:
    """Joint moments of influences, up to the third, and where wanted the influences themselves; merges.

    Attributes:
      moments: up to the second, in some unit.
      thirds: (k, k, k) sums of the products of three deviations, likewise.
      rows: numbered by episode, as they are; None where nobody wants them.
    """

    moments: CoMoments
    thirds: FloatArray
    rows: Pieces | None = None

    @classmethod
    def of(cls, values: FloatArray, rows: Pieces | None = None) -> Joint:
        """Of (k, m) values of m episodes."""
        moments, k = CoMoments.of(values), len(values)
        deviations = values - moments.mean[:, None]
        pairs = (deviations[:, None] * deviations[None]).reshape(k * k, -1)
        return cls(moments, (pairs @ deviations.T).reshape(k, k, k), rows)

    @property
    def standardised(self) -> FloatArray:
        """(k, k, k) means of the products of three deviations, each in its own standard deviation."""
        n = self.moments.n
        deviation = np.sqrt(np.maximum(np.diag(self.moments.covariance_of_means), 0.0) * (n - 1))
        cube = np.multiply.outer(np.multiply.outer(deviation, deviation), deviation)
        return divide(self.thirds / n, cube)

    def merge(self, other: Joint) -> Joint:
        """Of the episodes of both."""
        a, b, n = self.moments, other.moments, self.moments.n + other.moments.n
        step = b.mean - a.mean
        crossed = np.multiply.outer(step, (a.n * b.products - b.n * a.products) / n)
        crossed = crossed + crossed.transpose(1, 0, 2) + crossed.transpose(1, 2, 0)
        cube = np.multiply.outer(np.multiply.outer(step, step), step)
        between = a.n * b.n * (a.n - b.n) / float(n) ** 2 * cube
        rows = None if self.rows is None or other.rows is None else self.rows.merge(other.rows)
        return Joint(a.merge(b), self.thirds + other.thirds + crossed + between, rows)


def joint_moments(unit: float, keeps: bool, values: FloatArray, block: Block) -> Joint:
    """Joint moments of the influences of a block, with the influences where a question keeps them."""
    return Joint.of(values / unit, numbered(block, values.copy()) if keeps else None)
