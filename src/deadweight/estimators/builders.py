"""How the sums of each built-in estimator are made from a question and its kept ratios."""

from __future__ import annotations

from deadweight.errors import EstimationError
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
from deadweight.question.core import Question, Values
from deadweight.sums.fields import Field
from deadweight.sums.weighting import Weighting


def trajectory(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """IS: whole-episode weights, for which per-step conventions are no matter."""
    makers: list[TermMaker] = [WholeEpisode()]
    if corrected:
        makers.append(MissingAdvantage(question.delta, question.gain))
    return ProductFamily(makers, weighting, question.gamma)


def per_decision(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """PDIS."""
    makers: list[TermMaker] = [PerDecision()]
    if corrected:
        makers.append(MissingAdvantage(question.delta, question.gain))
    return ProductFamily(makers, weighting, question.gamma, question.options.finished)


def missing_advantage(question: Question, weighting: Weighting, whole_episode: bool) -> Family:
    """m alone, minus the bias of the drop, by the conventions of the estimator that it belongs to."""
    finished = "absorb" if whole_episode else question.options.finished
    makers = [MissingAdvantage(question.delta, question.gain)]
    return ProductFamily(makers, weighting, question.gamma, finished)


def doubly_robust(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """DR."""
    return doubly_robust_by(question, weighting, question.cross_fitted_values)


def doubly_robust_by(question: Question, weighting: Weighting, values: Values[Field]) -> ProductFamily:
    """DR with these values."""
    maker = DoublyRobust(values.q, values.v, question.pi_e("DR"))
    return ProductFamily([maker], weighting, question.gamma, question.options.finished)


def incremental(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """INCRIS."""
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


def direct(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """DM."""
    pi_e = question.pi_e("DM")
    counts = question.counts if question.options.model is None else None
    unseen, settled = question.options.unseen, question.settled
    return Direct(
        question.model, pi_e, question.model_horizon, question.gamma, counts, unseen, settled=settled
    )


def density_ratio(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """SDRE, in the form that fits how the episodes end."""
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


def marginalised(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """MIS."""
    return Marginalised(weighting, question.gamma)


def tabular_marginalised(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """TMIS."""
    pi_e = question.pi_e("TMIS")
    return Marginalised(weighting, question.gamma, pi_e, question.options.unseen_actions)


def conditional(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """CIS."""
    return Conditional(weighting, question.gamma, question.options.given)


def of_others(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """BLEND."""
    raise EstimationError("BLEND is made of other estimates and has no sums of its own.")


def behaviour(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """BEHAVIOUR."""
    return Behaviour(question.gamma)
