"""Answers: the sums behind a table of estimates, made in as few passes over the log as possible.

The first pass sums every family that the table needs, the second the influence functions of all estimates.
What nobody asks for, such as the standard error of an estimate without interval, is not computed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from deadweight.answers.model_tests import Misfit, ModelCheck, can_check
from deadweight.answers.plans import UNDROPPED, Compute, Plan, plan_of
from deadweight.answers.rounds import Job, OfInfluences, Summing, Sums, Task, carry_out, ess_key
from deadweight.estimators.influence import StartFamily, WithModel, full_influences, no_influence
from deadweight.estimators.product import Family, Fit, Summed
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import Question
from deadweight.sums.blocks import Block, Field
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Kish, RowMoments
from deadweight.sums.weighting import Weighting
from deadweight.tools.thresholds import FEW_EPISODES, NEARLY_ALL
from deadweight.typing import FloatArray


class Answers(Summing):
    """Sums, fits and standard errors of some plans of one question.

    With `model_known` standard errors take the model as known, which saves the sums of its influence.
    """

    def __init__(self, question: Question, plans: Sequence[Plan], model_known: bool = False) -> None:
        super().__init__(question)
        self.plans = plans
        self.model_known = model_known
        self._paired: dict[Plan, float] = {}
        self._dropped_shares: dict[Field, float] = {}
        self._misfit: Misfit | None = None

    def wanted(
        self, with_bias: bool = False, counterparts: Iterable[Plan] = (), with_errors: bool = False
    ) -> Sums:
        """What is to be summed for the plans, and for those that check them.

        `with_errors`: with what the model's part of their standard errors needs.
        """
        families: list[Summed] = [plan.summed for plan in (*self.plans, *counterparts)]
        if with_errors and not self.model_known:
            families += [plan.starts for plan in self.plans if plan.starts is not None]
            families += [plan.surprise for plan in self.plans if plan.surprise is not None]
        if with_bias:
            families += [plan.summed_missing for plan in self.plans if plan.summed_missing is not None]
        weightings = [plan.weighting for plan in self.plans if plan.estimator.is_product]
        levels = [*families, *map(ess_key, weightings)] if self.model_known else []
        return Sums(families, weightings, frozenset(getattr(each, "key", each) for each in levels))

    def std_errors(self, plans: Iterable[Plan] | None = None, paired: Iterable[Plan] = ()) -> Task[None]:
        """Make standard errors.

        Args:
          plans: of these; None for all, with the check of the model.
          paired: plans whose distance to the mean return is to have a standard error as well.
        """
        yield OfInfluences([self.errors(plans, paired)])

    def errors(self, plans: Iterable[Plan] | None = None, paired: Iterable[Plan] = ()) -> Job | None:
        """What a pass over influences has to do for standard errors; None where they are all there."""
        wanted = [plan for plan in (self.plans if plans is None else plans) if not self._has_error(plan)]
        if not self.model_known:  # by a pass of its own where the first one has not taken it along
            self.sum([plan.surprise for plan in wanted if plan.surprise is not None])
        apart = [plan for plan in paired if plan not in self._paired]
        check = self._check_to_make() if plans is None else None
        if not wanted and not apart and check is None:
            return None
        computed = list(dict.fromkeys([*apart, *wanted]))  # each of them once
        place = {plan: number for number, plan in enumerate(computed)}
        rows = _ErrorRows(
            tuple(place[plan] for plan in wanted),
            tuple(place[plan] for plan in apart),
            self.question.gamma,
            check is not None,
        )
        influences = [*self.influences(computed), *([] if check is None else [check.influence])]
        return Job(influences, rows, partial(self._keep_errors, wanted, apart, check), self.model_known)

    def _has_error(self, plan: Plan) -> bool:
        """Whether the standard error of a plan is there, or is known from its sums."""
        key, fit = self._error_key(plan), self.fit(plan)
        summed = fit.influence is None or fit.std_error is not None
        if key not in self._sums and summed and self._starts(plan) is None:
            self._sums[key] = math.nan if fit.std_error is None else fit.std_error
        return key in self._sums

    def _keep_errors(
        self, wanted: list[Plan], apart: list[Plan], check: ModelCheck | None, rows_summed: RowMoments
    ) -> None:
        moments = [rows_summed.row(number) for number in range(len(rows_summed.mean))]
        if check is not None:
            of_returns, difference = moments.pop(), moments.pop()
            self._misfit = check.finish(difference, of_returns)
        errors = iter([moment.std_error for moment in moments])
        self._sums.update((self._error_key(plan), self._with_unseen(plan, next(errors))) for plan in wanted)
        self._paired.update((plan, next(errors)) for plan in apart)

    def _with_unseen(self, plan: Plan, error: float) -> float:
        """The standard error of an influence with what it knows nothing of; see `values.hardly_seen`."""
        if self.model_known or plan.surprise is None:
            return error
        unseen = self.question.unseen_errors(self.found(plan.surprise))
        return math.hypot(error, float(np.linalg.norm(unseen)))

    def _error_key(self, plan: Plan) -> Hashable:
        return ("std_error", plan.estimator, plan.weighting, self.model_known)

    def influence(self, plan: Plan) -> Compute:
        """The influence of a block's episodes on the estimate, up to a constant."""
        return self.influences([plan])[0]

    def influences(self, plans: Sequence[Plan]) -> list[Compute]:
        """The same on several estimates; their models are gone through together."""
        starts = [self._starts(plan) for plan in plans]
        self.sum([family for family in starts if family is not None])
        influences: list[Compute] = []
        with_model: list[tuple[int, WithModel]] = []
        for number, (plan, start) in enumerate(zip(plans, starts, strict=True)):
            # A model that was given, not fitted: no episode moves the estimate.
            influences.append(plan.plain_terms or self.fit(plan).influence or no_influence)
            if start is not None:
                sums, with_sums = self.sums(plan), (start, self.found(start))
                parts = WithModel(influences[-1], sums, plan.estimator.is_weighted, with_sums, plan.fits)
                with_model.append((number, parts))
        full = full_influences([parts for _, parts in with_model])
        for (number, _), influence in zip(with_model, full, strict=True):
            influences[number] = influence
        return influences

    def _starts(self, plan: Plan) -> StartFamily | None:
        # The influence on an estimate that overflowed is not defined.
        return None if self.model_known or not math.isfinite(self.fit(plan).value) else plan.starts

    def paired_std_error(self, plan: Plan) -> float | None:
        """The standard error of the distance to the mean return, where `std_errors` made it."""
        return self._paired.get(plan)

    def _check_to_make(self) -> ModelCheck | None:
        """The check of the model, if a plan rests on it and it has not been checked."""
        if self._misfit is not None or not any(plan.uses_model for plan in self.plans):
            return None
        return ModelCheck(self.question) if can_check(self.question) else None

    @property
    def model_misfits(self) -> bool:
        """Whether the model has been checked, and does not fit the log."""
        return self._misfit is not None and self._misfit.found

    def misfit(self, plan: Plan) -> Misfit | None:
        """What the check of the model behind a plan has found; None where none was made."""
        return self._misfit if plan.uses_model else None

    def sums(self, plan: Plan) -> Any:
        """The sums behind a plan's estimate."""
        return self._sums_of(plan.family, plan.summed)

    def _sums_of(self, family: Family, summed: Summed) -> Any:
        sums = self._sums.get(family.key)
        if sums is None and (sums := self._sums.get(summed.key)) is None:
            self.sum([summed])
            sums = self.found(summed)
        return sums

    def fit(self, plan: Plan) -> Fit:
        """The estimate of a plan."""
        return self._fit_of(plan.family, plan.summed, plan.estimator.is_weighted)

    def _fit_of(self, family: Family, summed: Summed, weighted: bool) -> Fit:
        key = ("fit", family.key, weighted)
        fit: Fit | None = self._sums.get(key)
        if fit is None:
            self._sums[key] = fit = family.finish(self._sums_of(family, summed), weighted)
        return fit

    def std_error(self, plan: Plan) -> float:
        """The standard error of a plan's estimate."""
        key = self._error_key(plan)
        if key not in self._sums:
            carry_out(self.question, self.std_errors([plan]))
        error: float = self._sums[key]
        return error

    def bias(self, plan: Plan) -> float | None:
        """Estimated bias of the uncorrected estimate; None where it cannot be estimated."""
        if plan.weighting.drop is None:
            return 0.0
        if plan.missing is None or plan.summed_missing is None:
            return None
        return -self._fit_of(plan.missing, plan.summed_missing, plan.weighs_bias).value

    def disagreement(self, plan: Plan) -> float | None:
        """How far the corrected estimate lies from what it is checked by; None where there is nothing.

        That is the estimate which leans the other way, and with a drop the one that drops nothing. Where
        nearly everything is dropped that one is all that weights have to say, and it counts with its own
        standard error. Where only a few episodes carry the weights, all are carried by the same few, and the
        model alone is asked as well.
        """
        value, ess = self.fit(plan.corrected).value, self.ess(plan)
        distances = [abs(value - self.fit(check).value) for check in plan.counterparts]
        if distances and self.dropped_share(plan) >= NEARLY_ALL:
            distances[1] += self.std_error(self._undropped)
        few = ess is not None and ess < FEW_EPISODES
        return max(distances if few else distances[:-1], default=None)

    @cached_property
    def _undropped(self) -> Plan:
        """The plan that drops nothing, which the table may have already."""
        there = (undropped for undropped in self.plans if undropped.estimator == UNDROPPED)
        return next(there, None) or plan_of(self.question, UNDROPPED, NOTHING_DROPPED)

    def ess(self, plan: Plan) -> float | None:
        """Kish effective sample size of the final weights."""
        return self.size_of(plan.weighting) if plan.estimator.is_product else None

    def size_of(self, weighting: Weighting) -> float:
        """The same of some kept ratios."""
        return float(self.weights_of(weighting).ess[0])

    def weights_of(self, weighting: Weighting) -> Kish:
        """The sums of the final weights of some kept ratios."""
        key = ess_key(weighting)
        if key not in self._sums:
            self.sum([], [weighting])
        sums: Kish = self._sums[key]
        return sums

    def effective(self, plan: Plan) -> float:
        """How many episodes carry the estimate: all of them where there are no weights."""
        ess = self.ess(plan)
        return self.question.n if ess is None else ess

    def ess_steps(self, plan: Plan) -> FloatArray | None:
        """(T,) the same for each step."""
        if not plan.estimator.is_product:
            return None
        summarise = partial(_step_sizes, plan.weighting, self.question.options.finished)
        steps: Kish = reduce_log(self.question.parts, summarise, self.question.workers)[0]
        return steps.ess

    def dropped_share(self, plan: Plan) -> float:
        """Share of the logged steps whose ratio is dropped."""
        drop = plan.drop.field
        if drop is None or not drop.any():
            return 0.0
        if drop not in self._dropped_shares:
            self._dropped_shares[drop] = self.question.share_of(drop)
        return self._dropped_shares[drop]


# What is summed of a block: functions with names, which can travel to other processes.


@dataclass(frozen=True, eq=False)
class _ErrorRows:
    """Moments of some influences, of the distance to the return of some, and of what a check compares."""

    wanted: tuple[int, ...]
    apart: tuple[int, ...]
    gamma: float
    checks: bool

    def __call__(self, values: FloatArray, block: Block) -> RowMoments:
        """Of a block's episodes, one row each, the returns themselves last."""
        returns = block.returns(self.gamma)
        moments = [RowMoments.of(values, self.wanted), RowMoments.of(values, self.apart, returns)]
        if self.checks:
            moments += [RowMoments.of(values, [-1], returns), RowMoments.of(returns[None])]
        return RowMoments.beside(moments)


def _step_sizes(weighting: Weighting, finished: str, block: Block) -> list[Kish]:
    return [weighting.on(block).step_sizes(finished)]
