"""Plans: one estimator with its drop, the families that it is a function of, and what it is checked by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.estimators.direct import Direct
from deadweight.estimators.estimator import DOUBLY_ROBUST, MODEL, Estimator, W, missing_advantage
from deadweight.estimators.influence import Influence, StartFamily, starts_of
from deadweight.estimators.product import Behaviour, Family, ProductFamily, SelfNormalised, Summed
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.question.question import Question, Values
from deadweight.sums.blocks import Block, Field, discounted_sum
from deadweight.sums.summaries import times
from deadweight.sums.weighting import Weighting
from deadweight.tools.arithmetic import once
from deadweight.typing import FloatArray
from deadweight.values.model_influence import Surprise

# The estimate that drops nothing, by which others are checked.
UNDROPPED = DOUBLY_ROBUST.variant(W)

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

    @once
    def weighting(self) -> Weighting:
        """The kept ratios."""
        keeps_first = self.estimator.contains_correction and not self.question.options.drop_first
        return self.question.made_once((Weighting, self.drop, keeps_first), partial(self._kept, keeps_first))

    def _kept(self, keeps_first: bool) -> Weighting:
        kept = self.drop.weighting(self.question.pair)
        kept = kept.keeping_first() if keeps_first else kept
        same: Weighting = self.question.sums.setdefault(kept, kept)  # of drops that are equal
        return same

    @once
    def family(self) -> Family:
        """The sums of the estimate."""
        estimator, question = self.estimator, self.question
        key = (estimator.scheme, estimator.is_corrected, self.weighting)  # W changes no sum
        return question.made_once(key, partial(estimator.build, question, self.weighting))

    @once
    def summed(self) -> Summed:
        """What is to be summed of it: of a self-normalised estimate without the moments of its terms."""
        return _without_moments(self.family, self.estimator.is_weighted)

    @once
    def summed_missing(self) -> Summed | None:
        """The same of its bias."""
        return None if self.missing is None else _without_moments(self.missing, self.weighs_bias)

    @property
    def weighs_bias(self) -> bool:
        """Whether its bias is self-normalised: so it is for estimators without weights of their own."""
        return self.estimator.is_weighted or not self.estimator.is_product

    @once
    def missing(self) -> Family | None:
        """The sums of its bias; None where there is none, or none that could be estimated."""
        if self.weighting.drop is None or not self.question.has_values:
            return None
        whole = self.estimator.whole_episode
        make = partial(missing_advantage, self.question, self.weighting, whole)
        return self.question.made_once((missing_advantage, whole, self.weighting), make)

    @once
    def plain_terms(self) -> Compute | None:
        """The per-episode terms of which the estimate is the mean; None where it is no plain mean."""
        family = self.family
        if isinstance(family, Behaviour):
            return partial(returns, family.gamma)
        if not isinstance(family, ProductFamily) or self.estimator.is_weighted:
            return None
        return partial(_plain_sums, family)

    @once
    def starts(self) -> StartFamily | None:
        """The sums behind the influence of the model that it uses; None where it uses no fitted one."""
        pair = self.question.pair
        return starts_of(self.family, self._values, (pair.n_states, pair.n_actions)) if self._uses_q else None

    @once
    def surprise(self) -> Surprise | None:
        """The sums behind what hardly seen pairs could do to it; None where it is no fitted table alone."""
        family = self.family
        return family.surprise(self.question.horizon) if isinstance(family, Direct) else None

    @property
    def fits(self) -> tuple[Any, ...]:
        """The fitted models that it uses."""
        return self._values.fits if self._uses_q else ()

    @property
    def _uses_q(self) -> bool:
        estimator = self.estimator
        return estimator.contains_correction or (estimator.is_corrected and self.weighting.drop is not None)

    @property
    def _values(self) -> Values[Field]:
        question, given = self.question, self.estimator.scheme.values
        if given is not None:
            return given(question)
        return question.cross_fitted_values if self.estimator.contains_correction else question.values

    @property
    def corrects_itself(self) -> bool:
        """Whether the estimate holds the correction of its bias already."""
        return self.estimator.is_corrected or self.estimator.contains_correction

    @once
    def corrected(self) -> Plan:
        """The corrected estimate with the same terms and the same drop; itself where there is no other."""
        estimator = self.estimator.corrected
        if estimator is None or self.corrects_itself or self.missing is None:
            return self
        return plan_of(self.question, estimator, self.drop)

    @once
    def counterparts(self) -> tuple[Plan, ...]:
        """Estimates of the same value that lean the other way, on all ratios, and on the model alone.

        A model stands behind every doubly robust estimate, and nothing but weights behind the corrected
        per-decision one: each is checked by the other with the same drop. Where both drop the same states
        their agreement proves nothing about the drop: the doubly robust estimate that drops nothing is asked
        as well. There are none where that is not wanted, not possible, or where the values of the model would
        not fit in memory.
        """
        question, counterpart = self.question, self.estimator.counterpart
        if counterpart is None or not (question.options.cross_check and question.can_solve_model):
            return ()
        alone = plan_of(question, MODEL.variant(), NOTHING_DROPPED)
        if self.weighting.drop is None:
            return plan_of(question, counterpart, self.drop), alone
        return plan_of(question, counterpart, self.drop), plan_of(question, UNDROPPED, NOTHING_DROPPED), alone

    @property
    def uses_model(self) -> bool:
        """Whether a model stands behind the estimate, or behind what its drop costs."""
        return self.estimator.uses_model or (self.weighting.drop is not None and self.question.has_values)

    @property
    def has_used_model(self) -> bool:
        """The same of what has been made so far: what a drop costs may be something that nobody has asked."""
        return self.uses_model and (self.estimator.uses_model or self.question.has_solved)

    @property
    def estimand(self) -> str:
        """What the estimate is an estimate of."""
        if self.estimator.is_naive:
            return "V(pi_b)"
        return "V(pi_e)" if self.weighting.drop is None or self.corrects_itself else "V(mu_D)"


def plan_of(question: Question, estimator: Estimator, drop: Drop) -> Plan:
    """The plan of an estimator with a drop; made once, so that what it has found out is there for all."""
    return question.made_once((Plan, estimator, drop), partial(Plan, question, estimator, drop))


def _without_moments(family: Family, weighted: bool) -> Summed:
    return SelfNormalised(family) if weighted and isinstance(family, ProductFamily) else family


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
