"""The table of estimators: every name as a composition of letters.

W normalises by the weights, S drops ratios, C- adds the correction. None of them is a class: a recipe says
which family of sums a name needs and how to finish it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from deadweight.errors import EstimationError, UnknownEstimator, did_you_mean
from deadweight.estimators.base import Family
from deadweight.estimators.conditional import Conditional
from deadweight.estimators.corrected import MissingAdvantage
from deadweight.estimators.density_ratio import DensityRatio
from deadweight.estimators.direct import Direct
from deadweight.estimators.doubly_robust import DoublyRobust
from deadweight.estimators.incremental import Incremental
from deadweight.estimators.marginalised import Marginalised
from deadweight.estimators.per_decision import PerDecision
from deadweight.estimators.product import ProductFamily, TermMaker
from deadweight.estimators.trajectory import Behaviour, WholeEpisode
from deadweight.question import Question
from deadweight.weighting import Weighting

Build = Callable[[Question, Weighting], Family]


@dataclass(frozen=True)
class Recipe:
    """How a name is made.

    Attributes:
      build: the family, given a question and its kept ratios.
      product: weighs by products of ratios, so that an effective sample size exists.
      weighted: self-normalised (the letter W).
      state_based: takes a drop (the letter S).
      corrected: adds the missing advantage (C-).
      contains_correction: holds it inside already, as doubly robust estimators do.
      whole_episode: weighs whole episodes, so that per-step conventions do not concern it.
      all_levels: its terms can be summed at all levels of a path at once (`negligible.all_levels`).
    """

    build: Build
    product: bool = False
    weighted: bool = False
    state_based: bool = False
    corrected: bool = False
    contains_correction: bool = False
    whole_episode: bool = False
    all_levels: bool = False


def _trajectory(question: Question, weighting: Weighting) -> Family:
    return ProductFamily([WholeEpisode()], weighting, question.gamma)


def _per_decision(question: Question, weighting: Weighting) -> Family:
    return ProductFamily([PerDecision()], weighting, question.gamma, question.options.finished)


def _corrected_trajectory(question: Question, weighting: Weighting) -> Family:
    makers: list[TermMaker] = [WholeEpisode(), MissingAdvantage(question.delta)]
    return ProductFamily(makers, weighting, question.gamma)


def _corrected_per_decision(question: Question, weighting: Weighting) -> Family:
    makers: list[TermMaker] = [PerDecision(), MissingAdvantage(question.delta)]
    return ProductFamily(makers, weighting, question.gamma, question.options.finished)


def missing_advantage(question: Question, weighting: Weighting, whole_episode: bool) -> Family:
    """m alone, minus the bias of the drop, by the conventions of the estimator that it belongs to."""
    finished = "absorb" if whole_episode else question.options.finished
    return ProductFamily([MissingAdvantage(question.delta)], weighting, question.gamma, finished)


def _doubly_robust(question: Question, weighting: Weighting) -> Family:
    values = question.cross_fitted_values
    maker = DoublyRobust(values.q, values.v)
    return ProductFamily([maker], weighting, question.gamma, question.options.finished)


def _incremental(question: Question, weighting: Weighting) -> Family:
    options = question.options
    return Incremental(
        weighting,
        question.gamma,
        question.horizon,
        options.window,
        options.variance,
        options.ended_ratios,
        options.finished,
    )


def _direct(question: Question, weighting: Weighting) -> Family:
    pi_e = question.pi_e("DM")
    counts = question.counts if question.options.model is None else None
    unseen, settled = question.options.unseen, question.settled
    return Direct(
        question.model, pi_e, question.model_horizon, question.gamma, counts, unseen, settled=settled
    )


def _density_ratio(question: Question, weighting: Weighting) -> Family:
    if question.gamma < 1:
        raise EstimationError(
            f"SDRE estimates an undiscounted average and needs gamma = 1; found gamma = {question.gamma:g}.",
            fix="Use gamma=1.0, or another estimator such as MIS or WPDIS.",
        )
    mode = question.options.mode
    ended, n = question.terminated, question.n
    if mode is None and 0 < ended < n:
        raise EstimationError(
            f"SDRE has one form for terminated and one for truncated episodes; this log has {ended} of the "
            f"first and {n - ended} of the second kind.",
            fix='Say which to use: mode="policy" counts steps; "published" and "corrected" do so too.',
        )
    if mode == "episodic" and ended < n:
        raise EstimationError(
            f'SDRE with mode="episodic" needs episodes that terminate; {n - ended} of {n} are truncated.',
            fix='Use mode="policy", or leave mode out.',
        )
    renewal = mode in (None, "policy") and ended == n
    return DensityRatio(weighting, question.horizon, mode or "policy", renewal)


def _marginalised(question: Question, weighting: Weighting) -> Family:
    return Marginalised(weighting, question.gamma)


def _tabular_marginalised(question: Question, weighting: Weighting) -> Family:
    pi_e = question.pi_e("TMIS")
    return Marginalised(weighting, question.gamma, pi_e, question.options.unseen_actions)


def _conditional(question: Question, weighting: Weighting) -> Family:
    return Conditional(weighting, question.gamma, question.options.given)


def _behaviour(question: Question, weighting: Weighting) -> Family:
    return Behaviour(question.gamma)


def _table() -> dict[str, Recipe]:
    products = (
        ("IS", "SIS", Recipe(_trajectory, product=True, whole_episode=True, all_levels=True)),
        ("PDIS", "SPDIS", Recipe(_per_decision, product=True, all_levels=True)),
        ("INCRIS", "SINCRIS", Recipe(_incremental, product=True)),
        ("DR", "DRSIS", Recipe(_doubly_robust, product=True, contains_correction=True, all_levels=True)),
    )
    others = (
        ("SDRE", "SSDRE", Recipe(_density_ratio)),
        ("MIS", "SMIS", Recipe(_marginalised)),
        ("TMIS", "STMIS", Recipe(_tabular_marginalised)),
    )
    corrections = (
        ("SIS", replace(products[0][2], build=_corrected_trajectory, corrected=True)),
        ("SPDIS", replace(products[1][2], build=_corrected_per_decision, corrected=True)),
    )
    table: dict[str, Recipe] = {}
    for plain, state_based, made in products:
        table[plain], table["W" + plain] = made, replace(made, weighted=True)
        table[state_based] = replace(made, state_based=True)
        table["W" + state_based] = replace(made, state_based=True, weighted=True)
    for plain, state_based, made in others:
        table[plain], table[state_based] = made, replace(made, state_based=True)
    for name, made in corrections:
        table["C-" + name] = replace(made, state_based=True)
        table["C-W" + name] = replace(made, state_based=True, weighted=True)
    table["DM"] = Recipe(_direct)
    table["CIS"] = Recipe(_conditional)
    table["BEHAVIOUR"] = Recipe(_behaviour)
    return table


RECIPES: Mapping[str, Recipe] = MappingProxyType(_table())
ESTIMATORS: tuple[str, ...] = tuple(RECIPES)


def recipe(name: str) -> Recipe:
    """The recipe of a name, or an error that says which name may have been meant."""
    found = RECIPES.get(name)
    if found is None:
        raise UnknownEstimator(
            f"There is no estimator {name!r}.{did_you_mean(str(name), ESTIMATORS)}",
            fix=f"Estimators are: {', '.join(ESTIMATORS)}.",
        )
    return found
