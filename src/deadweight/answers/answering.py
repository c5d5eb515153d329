"""Answers: the sums behind a table of estimates, made in as few passes over the log as possible.

The first pass sums every family that the table needs, the second the influence functions of all estimates.
What nobody asks for, such as the standard error of an estimate without interval, is not computed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from deadweight.answers.influences import Job, one_pass
from deadweight.answers.lanes import FEW_LANES, LanePlan, LaneWork, PlainWork, walked
from deadweight.answers.model_tests import Misfit, ModelCheck, can_check
from deadweight.answers.plans import UNDROPPED, Compute, Plan, plan_of
from deadweight.estimators.influence import StartFamily, WithModel, full_influences, no_influence
from deadweight.estimators.product import Family, Fit, ProductFamily, SelfNormalised, Summed
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import Question
from deadweight.sums import kernel
from deadweight.sums.blocks import BLOCK_CELLS, SMALL_CELLS, WALKED_CELLS, Block, Field
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Kish, RowMoments
from deadweight.sums.weighting import Weighting
from deadweight.tools.progress import unforeseen_passes
from deadweight.tools.thresholds import FEW_EPISODES, NEARLY_ALL
from deadweight.typing import FloatArray

# --------------------------------------------------------------------------------------------------------
# All that was summed of a question, by key, and the one fold that sums what is not there yet.


class Summing:
    """The sums of one question; all that was summed of it is there for all."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._sums = question.sums

    def found(self, one: Summed) -> Any:
        """The sums of something that has been summed."""
        inner = one.family.key if isinstance(one, SelfNormalised) else one.key
        return self._sums[inner] if inner in self._sums else self._sums[one.key]

    def sum(self, families: Iterable[Summed], weightings: Iterable[Weighting] = ()) -> None:
        """One fold for all sums that are not there yet."""
        wanted = {family.key: family for family in families if family.key not in self._sums}
        for key, family in list(wanted.items()):
            inner = family.family.key if isinstance(family, SelfNormalised) else None
            if inner is not None and (inner in wanted or inner in self._sums):
                del wanted[key]  # the sums with moments will do
        sizes = {ess_key(w): w for w in weightings if ess_key(w) not in self._sums}
        if not wanted and not sizes:
            return
        found = None
        few = len(wanted) + len(sizes) <= FEW_LANES and all(map(_is_walked, wanted.values()))
        plan = None if few else LanePlan(wanted.values(), sizes.items(), self._horizon)
        if plan is not None and plan.works:
            found = self._fold(plan.rest, dict(plan.rest_weightings), plan)
        if found is None:
            with unforeseen_passes(plan is not None and bool(plan.works)):  # a block was declined
                found = self._fold(list(wanted.values()), sizes, None)
            assert found is not None
        self._sums.update(found)

    def _horizon(self) -> int:
        """The longest episode; of a stored log that nobody knows yet it is found with the counts."""
        if self.question.parts.known is None:
            _ = self.question.counts
        return self.question.horizon

    def _cells(self, families: Sequence[Summed]) -> int:
        """The size of a block; it depends on what is summed and on the log, never on who sums."""
        parts = self.question.parts
        if kernel.KERNEL is None or not parts.has_rows or parts[0].discounting is not None:
            return BLOCK_CELLS
        return WALKED_CELLS if all(map(_is_walked, families)) else BLOCK_CELLS

    def _fold(
        self, families: Sequence[Summed], sizes: Mapping[Hashable, Weighting], plan: LanePlan | None
    ) -> dict[Hashable, Any] | None:
        """Sums by key, by way of lanes as far as the plan goes; None where a block was declined there."""
        works: tuple[LaneWork | PlainWork, ...] = () if plan is None else (*plan.works, *plan.plain)
        summarise = BlockSums(tuple(families), tuple(sizes.values()), works)
        cells = self._cells(families) if plan is None else SMALL_CELLS  # much is summed beside lanes
        found = reduce_log(self.question.parts, summarise, self.question.workers, cells)
        alone = len(families) + len(sizes)
        keys = [*(family.key for family in families), *sizes]
        of_lanes = {} if plan is None else plan.results(found[alone:])
        return None if of_lanes is None else {**dict(zip(keys, found[:alone], strict=True)), **of_lanes}


@dataclass(frozen=True, eq=False)
class BlockSums:
    """The sums of a block: of families and whole weights one by one, and of walks along many lanes."""

    families: tuple[Summed, ...]
    weightings: tuple[Weighting, ...]
    walks: tuple[LaneWork | PlainWork, ...]

    def __call__(self, block: Block) -> list[Any]:
        """All of them."""
        sums: list[Any] = [family.summarise(block) for family in self.families]
        sums += [Kish.of(weighting.on(block).final) for weighting in self.weightings]
        return sums + walked(self.walks, block)


def _is_walked(one: Summed) -> bool:
    """Whether it is summed on walks by itself, where there is a kernel."""
    family = one.family if isinstance(one, SelfNormalised) else one
    return isinstance(family, ProductFamily) and family.is_walked


def ess_key(weighting: Weighting) -> Hashable:
    """The key of the whole weights of some kept ratios."""
    return ("ess", weighting)


# --------------------------------------------------------------------------------------------------------


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

    def prepare(
        self,
        with_bias: bool,
        counterparts: Iterable[Plan] = (),
        with_errors: bool = False,
        besides: Iterable[Summed] = (),
    ) -> None:
        """The first pass for all plans at once, for those that check them, and for what others need."""
        families = [*self.first_pass(counterparts, with_errors), *besides]
        if with_bias:
            families += [one for plan in self.plans if (one := plan.summed_missing) is not None]
        self.sum(families, [plan.weighting for plan in self.plans if plan.estimator.is_product])

    def first_pass(self, counterparts: Iterable[Plan] = (), with_errors: bool = True) -> list[Summed]:
        """What is to be summed for the plans, and for those that check them."""
        families: list[Summed] = [plan.summed for plan in (*self.plans, *counterparts)]
        if with_errors and not self.model_known:
            families += [plan.starts for plan in self.plans if plan.starts is not None]
            families += [plan.surprise for plan in self.plans if plan.surprise is not None]
        return families

    def prepare_std_errors(
        self,
        plans: Iterable[Plan] | None = None,
        paired: Iterable[Plan] = (),
        besides: Iterable[Job | None] = (),
    ) -> None:
        """The second pass, for all plans at once.

        Args:
          plans: whose standard error is wanted; None for all.
          paired: those whose distance to the mean return is to have a standard error as well.
          besides: what others need of the influences of blocks.
        """
        one_pass(self.question, [self.errors(plans, paired), *besides])

    def errors(self, plans: Iterable[Plan] | None = None, paired: Iterable[Plan] = ()) -> Job | None:
        """What the second pass has to do for standard errors; None where they are all there."""
        wanted: list[Plan] = []
        for plan in self.plans if plans is None else plans:
            if self._error_key(plan) in self._sums:
                continue
            fit = self.fit(plan)
            known_already = fit.influence is None or fit.std_error is not None
            if known_already and self._starts(plan) is None:  # the first pass has it
                known = float("nan") if fit.std_error is None else fit.std_error
                self._sums[self._error_key(plan)] = known
            else:
                wanted.append(plan)
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
        return Job(influences, rows, partial(self._keep_errors, wanted, apart, check))

    def _keep_errors(
        self, wanted: list[Plan], apart: list[Plan], check: ModelCheck | None, found: RowMoments
    ) -> None:
        moments = [found.row(number) for number in range(len(found.mean))]
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
        self.sum([one for one in starts if one is not None])
        found: list[Compute] = []
        with_model: list[tuple[int, WithModel]] = []
        for number, (plan, start) in enumerate(zip(plans, starts, strict=True)):
            # A model that was given, not fitted: no episode moves the estimate.
            found.append(plan.plain_terms or self.fit(plan).influence or no_influence)
            if start is not None:
                sums, with_sums = self.sums(plan), (start, self.found(start))
                parts = WithModel(found[-1], sums, plan.estimator.is_weighted, with_sums, plan.fits)
                with_model.append((number, parts))
        full = full_influences([parts for _, parts in with_model])
        for (number, _), influence in zip(with_model, full, strict=True):
            found[number] = influence
        return found

    def _starts(self, plan: Plan) -> StartFamily | None:
        # The influence on an estimate that overflowed is not defined.
        return None if self.model_known or not math.isfinite(self.fit(plan).value) else plan.starts

    def paired_std_error(self, plan: Plan) -> float | None:
        """The standard error of the distance to the mean return, where `prepare_std_errors` made it."""
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
        found = self._sums.get(family.key)
        if found is None and (found := self._sums.get(summed.key)) is None:
            self.sum([summed])
            found = self.found(summed)
        return found

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
            self.prepare_std_errors([plan])
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
        distances = [abs(value - self.fit(other).value) for other in plan.counterparts]
        if distances and self.dropped_share(plan) >= NEARLY_ALL:
            with unforeseen_passes():
                distances[1] += self.std_error(self._witness)
        few = ess is not None and ess < FEW_EPISODES
        return max(distances if few else distances[:-1], default=None)

    @cached_property
    def _witness(self) -> Plan:
        """The plan that drops nothing, which the table may have already."""
        there = (one for one in self.plans if one.estimator == UNDROPPED)
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
        found: Kish = self._sums[key]
        return found

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
        found = [RowMoments.of(values, self.wanted), RowMoments.of(values, self.apart, returns)]
        if self.checks:
            found += [RowMoments.of(values, [-1], returns), RowMoments.of(returns[None])]
        return RowMoments.beside(found)


def _step_sizes(weighting: Weighting, finished: str, block: Block) -> list[Kish]:
    return [weighting.on(block).step_sizes(finished)]
