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

from deadweight.answers.misfit import Misfit, ModelCheck, can_check
from deadweight.estimators.base import Family, Fit, Summed
from deadweight.estimators.builders import missing_advantage
from deadweight.estimators.estimator import Estimator
from deadweight.estimators.full_influence import Influence, full_influence, starts_of
from deadweight.estimators.names import MODEL
from deadweight.estimators.product import ProductFamily
from deadweight.estimators.starts import StartFamily
from deadweight.estimators.trajectory import Behaviour
from deadweight.question.core import Question, Values
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.sums.blocks import Block, discounted_sum
from deadweight.sums.fields import Field
from deadweight.sums.reduction import reduce_log
from deadweight.sums.running import scale, times
from deadweight.sums.summaries import Kish, Moments, z_from_one
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray
from deadweight.values.model_influence import FittedModel

# Fewer effective episodes than this carry no conclusion.
FEW_EPISODES = 10.0

Compute = Influence


@dataclass(frozen=True, eq=False)
class Plan:
    """One estimator with its drop."""

    question: Question
    estimator: Estimator
    drop: Drop

    @property
    def name(self) -> str:
        """The name of the estimator."""
        return self.estimator.name

    @cached_property
    def weighting(self) -> Weighting:
        """The kept ratios."""
        kept = self.drop.weighting(self.question.pair)
        keeps_first = self.estimator.contains_correction and not self.question.options.drop_first
        return kept.keeping_first() if keeps_first else kept

    @cached_property
    def family(self) -> Family:
        """The sums of the estimate."""
        return self.estimator.build(self.question, self.weighting)

    @cached_property
    def missing(self) -> Family | None:
        """The sums of its bias; None where there is none, or none that could be estimated."""
        if self.weighting.drop is None or self.question.pair.pi_e is None:
            return None
        return missing_advantage(self.question, self.weighting, self.estimator.whole_episode)

    @cached_property
    def plain_terms(self) -> Compute | None:
        """The per-episode terms of which the estimate is the mean; None where it is no plain mean."""
        family = self.family
        if isinstance(family, Behaviour):
            return partial(returns, family.gamma)
        if not isinstance(family, ProductFamily) or self.estimator.is_weighted:
            return None
        return partial(_plain_sums, family)

    @cached_property
    def starts(self) -> StartFamily | None:
        """The sums behind the influence of the model that it uses; None where it uses no fitted one."""
        pair = self.question.pair
        return starts_of(self.family, self._values, (pair.n_states, pair.n_actions)) if self._uses_q else None

    @property
    def fits(self) -> tuple[FittedModel, ...]:
        """The fitted models that it uses."""
        return self._values.fits if self._uses_q else ()

    @property
    def _uses_q(self) -> bool:
        made = self.estimator
        return made.contains_correction or (made.is_corrected and self.weighting.drop is not None)

    @property
    def _values(self) -> Values[Field]:
        question = self.question
        return question.cross_fitted_values if self.estimator.contains_correction else question.values

    @property
    def corrects_itself(self) -> bool:
        """Whether the estimate holds the correction of its bias already."""
        return self.estimator.is_corrected or self.estimator.contains_correction

    @cached_property
    def corrected(self) -> Plan:
        """The corrected estimate with the same terms and the same drop; itself where there is no other."""
        made = self.estimator.corrected
        if made is None or self.corrects_itself or self.missing is None:
            return self
        return Plan(self.question, made, self.drop)

    @cached_property
    def counterparts(self) -> tuple[Plan, ...]:
        """Estimates of the same value that lean the other way, with the same drop, and on the model alone.

        A model stands behind every doubly robust estimate, and nothing but weights behind the corrected
        per-decision one: each is checked by the other. There are none where that is not wanted, not possible,
        or where the values of the model would not fit in memory.
        """
        question, other = self.question, self.estimator.counterpart
        if other is None or not (question.options.cross_check and question.can_solve_model):
            return ()
        return Plan(question, other, self.drop), Plan(question, MODEL.variant(), NOTHING_DROPPED)

    @property
    def uses_model(self) -> bool:
        """Whether a model stands behind the estimate, or behind what its drop costs."""
        return self.estimator.uses_model or self.missing is not None

    @property
    def estimand(self) -> str:
        """What the estimate is an estimate of."""
        if self.estimator.is_naive:
            return "V(pi_b)"
        return "V(pi_e)" if self.weighting.drop is None or self.corrects_itself else "V(mu_D)"


class Answers:
    """Sums, fits and standard errors of some plans of one question.

    With `model_known` standard errors take the model as known, which saves the sums of its influence.
    """

    def __init__(self, question: Question, plans: Sequence[Plan], model_known: bool = False) -> None:
        self.question = question
        self.plans = plans
        self.model_known = model_known
        self._sums: dict[Hashable, Any] = {}
        self._fits: dict[Plan, Fit] = {}
        self._std_errors: dict[Plan, float] = {}
        self._paired: dict[Plan, float] = {}
        self._dropped_shares: dict[Field, float] = {}
        self._misfit: Misfit | None = None

    def prepare(self, with_bias: bool, counterparts: Iterable[Plan] = (), with_errors: bool = False) -> None:
        """The first pass for all plans at once, and for those that check them."""
        families: list[Summed] = [plan.family for plan in (*self.plans, *counterparts)]
        if with_errors:
            families += [plan.starts for plan in self.plans if plan.starts is not None]
        if with_bias:
            families += [plan.missing for plan in self.plans if plan.missing is not None]
        self.sum(families, [plan.weighting for plan in self.plans if plan.estimator.is_product])

    def prepare_std_errors(self, plans: Iterable[Plan] | None = None, paired: Iterable[Plan] = ()) -> None:
        """The second pass, for all plans at once.

        Args:
          plans: whose standard error is wanted; None for all.
          paired: those whose distance to the mean return is to have a standard error as well.
        """
        wanted: dict[Plan, Compute] = {}
        for plan in self.plans if plans is None else plans:
            if plan in self._std_errors:
                continue
            fit = self.fit(plan)
            if fit.influence is None and self._starts(plan) is None:  # the first pass has it
                self._std_errors[plan] = float("nan") if fit.std_error is None else fit.std_error
            else:
                wanted[plan] = self.influence(plan)
        apart = {plan: self.influence(plan) for plan in paired if plan not in self._paired}
        check = self._check_to_make() if plans is None else None
        if not wanted and not apart and check is None:
            return
        computed = {**apart, **wanted}  # each of them once
        place = {plan: number for number, plan in enumerate(computed)}
        summarise = partial(
            _influence_moments,
            list(computed.values()),
            [place[plan] for plan in wanted],
            [place[plan] for plan in apart],
            self.question.gamma,
            check,
        )
        moments: list[Moments] = reduce_log(self.question.parts, summarise, self.question.workers)
        if check is not None:
            of_returns, difference = moments.pop(), moments.pop()
            self._misfit = check.finish(difference, of_returns)
        errors = iter([moment.std_error for moment in moments])
        self._std_errors.update((plan, next(errors)) for plan in wanted)
        self._paired.update((plan, next(errors)) for plan in apart)

    def influence(self, plan: Plan) -> Compute:
        """The influence of a block's episodes on the estimate, up to a constant."""
        # A model that was given, not fitted: no episode moves the estimate.
        own, starts = plan.plain_terms or self.fit(plan).influence or _no_influence, self._starts(plan)
        if starts is None:
            return own
        self.sum([starts])
        with_sums = (starts, self.found(starts))
        return full_influence(own, self.sums(plan), plan.estimator.is_weighted, with_sums, plan.fits)

    def _starts(self, plan: Plan) -> StartFamily | None:
        # An estimate that overflows has no influence to speak of.
        return None if self.model_known or not math.isfinite(self.fit(plan).value) else plan.starts

    def paired_std_error(self, plan: Plan) -> float | None:
        """The standard error of the distance to the mean return, where `prepare_std_errors` made it."""
        return self._paired.get(plan)

    def _check_to_make(self) -> ModelCheck | None:
        """The check of the model, if a plan rests on it and it has not been checked."""
        if self._misfit is not None or not any(plan.uses_model for plan in self.plans):
            return None
        return ModelCheck(self.question) if can_check(self.question) else None

    def misfit(self, plan: Plan) -> Misfit | None:
        """What the check of the model behind a plan has found; None where none was made."""
        return self._misfit if plan.uses_model else None

    def sums(self, plan: Plan) -> Any:
        """The sums behind a plan's estimate."""
        self.sum([plan.family])
        return self._sums[plan.family.key]

    def fit(self, plan: Plan) -> Fit:
        """The estimate of a plan."""
        if plan not in self._fits:
            self._fits[plan] = plan.family.finish(self.sums(plan), plan.estimator.is_weighted)
        return self._fits[plan]

    def std_error(self, plan: Plan) -> float:
        """The standard error of a plan's estimate."""
        self.prepare_std_errors([plan])
        return self._std_errors[plan]

    def bias(self, plan: Plan) -> float | None:
        """Estimated bias of the uncorrected estimate; None where it cannot be estimated."""
        if plan.weighting.drop is None:
            return 0.0
        if plan.missing is None:
            return None
        self.sum([plan.missing])
        # Estimators without products have no weights of their own: theirs is the self-normalised bias.
        weighted = plan.estimator.is_weighted or not plan.estimator.is_product
        return -plan.missing.finish(self._sums[plan.missing.key], weighted).value

    def disagreement(self, plan: Plan) -> float | None:
        """How far the corrected estimate lies from what it is checked by; None where there is nothing.

        That is the estimate which leans the other way. Where only a few episodes carry the weights, both
        are carried by the same few, and the model alone is asked as well.
        """
        others = [self.fit(other).value for other in plan.counterparts]
        return apart(self.fit(plan.corrected).value, self.ess(plan), others)

    def ess(self, plan: Plan) -> float | None:
        """Kish effective sample size of the final weights."""
        if not plan.estimator.is_product:
            return None
        self.sum([], [plan.weighting])
        return float(self._sums[_ess_key(plan.weighting)].ess[0])

    def effective(self, plan: Plan) -> float:
        """How many episodes carry the estimate: all of them where there are no weights."""
        ess = self.ess(plan)
        return self.question.n if ess is None else ess

    def mean_weight_z(self, plan: Plan) -> float | None:
        """How far the mean of the final weights is from 1, in standard errors; 0 where it is exactly 1."""
        if not plan.estimator.is_product:
            return None
        self.sum([], [plan.weighting])
        return mean_z(self._sums[_ess_key(plan.weighting)], self.question.n)

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

    def found(self, one: Summed) -> Any:
        """The sums of something that has been summed."""
        return self._sums[one.key]

    def sum(self, families: Iterable[Summed], weightings: Iterable[Weighting] = ()) -> None:
        """One fold for all sums that are not there yet."""
        wanted = {family.key: family for family in families if family.key not in self._sums}
        sizes = {_ess_key(w): w for w in weightings if _ess_key(w) not in self._sums}
        if not wanted and not sizes:
            return
        summarise = partial(_block_sums, list(wanted.values()), list(sizes.values()))
        sums = reduce_log(self.question.parts, summarise, self.question.workers)
        self._sums.update(zip([*wanted, *sizes], sums, strict=True))


# What is summed of a block: functions with names, which can travel to other processes.


def _block_sums(families: list[Summed], weightings: list[Weighting], block: Block) -> list[Any]:
    sums: list[Any] = [family.summarise(block) for family in families]
    return sums + [Kish.of(weighting.on(block).final) for weighting in weightings]


def _influence_moments(
    influences: list[Compute],
    wanted: list[int],
    apart: list[int],
    gamma: float,
    check: ModelCheck | None,
    block: Block,
) -> list[Moments]:
    """Of the influences in some places, of the distance to the return of those in others, of a check."""
    values = [influence(block) for influence in influences]
    moments = [Moments.of(values[place]) for place in wanted]
    moments += [Moments.of(values[place] - block.returns(gamma)) for place in apart]
    if check is not None:
        moments += [Moments.of(check.difference(block)), Moments.of(check.returns(block))]
    return moments


def returns(gamma: float, block: Block) -> FloatArray:
    """(m,) discounted returns, as a `Compute` once gamma is given."""
    return block.returns(gamma)


def _plain_sums(family: ProductFamily, block: Block) -> FloatArray:
    total = np.zeros(block.n)
    for terms in family.terms(block):
        product = times(terms.weights, terms.values)
        with np.errstate(over="ignore", invalid="ignore"):  # weights that left the range: flagged "overflow"
            total += discounted_sum(product, family.gamma) if terms.per_step else product[:, 0]
    return total


def _no_influence(block: Block) -> FloatArray:
    return np.zeros(block.n)


def _step_sizes(weighting: Weighting, finished: str, block: Block) -> list[Kish]:
    return [Kish.of(weighting.on(block).running, block.members(finished))]


def apart(value: float, ess: float | None, others: Sequence[float]) -> float | None:
    """Distance of an estimate to its first check; with few effective episodes the largest to any of them."""
    some = others if ess is not None and ess < FEW_EPISODES else others[:1]
    return max((abs(value - other) for other in some), default=None)


def mean_z(weights: Kish, n: int) -> float:
    """(mean - 1) / standard error of a single column of n weights."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = float(scale(weights.weight, weights.shift)[0]) / n
        square = float(scale(weights.squares, 2 * weights.shift)[0]) / n
        return z_from_one(mean, float(np.sqrt((square - np.square(mean)) / (n - 1))))


def _ess_key(weighting: Weighting) -> Hashable:
    return ("ess", weighting)
