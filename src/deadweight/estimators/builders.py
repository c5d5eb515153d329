"""How the sums of each built-in estimator are made from a question and its kept ratios.

Families outside the default table are imported when they are built.
"""

from __future__ import annotations

from deadweight.errors import EstimationError
from deadweight.estimators.direct import Direct, DirectByRow
from deadweight.estimators.product import Family, ProductFamily, TermMaker
from deadweight.estimators.terms import (
    Behaviour,
    DoublyRobust,
    Linear,
    MissingAdvantage,
    PerDecision,
    WholeEpisode,
)
from deadweight.log.columns import require_labels
from deadweight.question.question import Question, Values
from deadweight.sums.blocks import Field
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray
from deadweight.values.crossfit import FOLDS


def trajectory(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """IS: whole-episode weights, for which per-step conventions are no matter."""
    makers: list[TermMaker] = [WholeEpisode()]
    if corrected:
        makers.append(MissingAdvantage(question.discounted(question.delta), question.gain))
    return ProductFamily(makers, weighting, question.gamma)


def per_decision(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """PDIS."""
    makers: list[TermMaker] = [PerDecision()]
    if corrected:
        makers.append(MissingAdvantage(question.discounted(question.delta), question.gain))
    return ProductFamily(makers, weighting, question.gamma, question.options.finished)


def missing_advantage(question: Question, weighting: Weighting, whole_episode: bool) -> Family:
    """m alone, minus the bias of the drop, by the conventions of the estimator that it belongs to."""
    finished = "absorb" if whole_episode else question.options.finished
    makers = [MissingAdvantage(question.discounted(question.delta), question.gain)]
    return ProductFamily(makers, weighting, question.gamma, finished)


def of_the_log(question: Question) -> Values[Field]:
    """Action values of the model of all episodes."""
    return question.values


def of_other_episodes(question: Question) -> Values[Field]:
    """Action values of models that have not seen the episodes that they serve."""
    return question.cross_fitted(FOLDS)


def doubly_robust(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """DR."""
    return _doubly_robust(question, weighting, question.cross_fitted_values)


def doubly_robust_of_others(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """DR with models of other episodes."""
    return _doubly_robust(question, weighting, of_other_episodes(question))


def _doubly_robust(question: Question, weighting: Weighting, values: Values[Field]) -> Family:
    maker = DoublyRobust(question.discounted(values.q), question.discounted(values.v), question.pi_e("DR"))
    return ProductFamily([maker], weighting, question.gamma, question.options.finished)


def window(length: int, question: Question, weighting: Weighting, corrected: bool) -> Family:
    """Win_k without DM, as a build once the length is given."""
    from deadweight.estimators.windowed import model_steps, windowed

    return windowed(question, model_steps(question), length)


def linear(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """LIN."""
    values = question.cross_fitted_values
    maker = Linear(question.discounted(values.q), question.discounted(values.v), question.pi_e("LIN"))
    return ProductFamily([maker], weighting, question.gamma)


def incremental(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """INCRIS."""
    from deadweight.estimators.incremental import Incremental

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
    fitted = question.row_values
    if fitted is not None:
        return DirectByRow(fitted)
    return question.made_once((Direct,), lambda: _direct(question, pi_e))


def _direct(question: Question, pi_e: FloatArray) -> Direct:
    counts = question.counts if question.options.model is None else None
    unseen, settled = question.options.unseen, question.settled
    return Direct(
        question.model, pi_e, question.model_horizon, question.gamma, counts, unseen, settled=settled
    )


def density_ratio(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """SDRE, in the form that fits how the episodes end."""
    from deadweight.estimators.density_ratio import DensityRatio

    require_labels(question.parts, "SDRE")
    _refuse_cut_weights(question, "SDRE")
    if question.discount < 1:
        raise EstimationError(
            "SDRE estimates an undiscounted average and needs gamma = 1; found gamma = "
            f"{question.discount:g}.",
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
    from deadweight.estimators.marginalised import Marginalised

    _refuse_durations(question, "MIS")
    require_labels(question.parts, "MIS")
    return Marginalised(weighting, question.gamma)


def tabular_marginalised(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """TMIS."""
    from deadweight.estimators.marginalised import Marginalised

    _refuse_durations(question, "TMIS")
    require_labels(question.parts, "TMIS")
    pi_e = question.pi_e("TMIS")
    return Marginalised(weighting, question.gamma, pi_e, question.options.unseen_actions)


def conditional(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """CIS."""
    from deadweight.estimators.marginalised import Conditional

    if question.options.given != "return":
        _refuse_durations(question, f"CIS given the {question.options.given}")
    if question.options.given == "state":
        require_labels(question.parts, "CIS given the state")
    return Conditional(weighting, question.gamma, question.options.given)


def _refuse_durations(question: Question, name: str) -> None:
    """Refuse what takes all episodes of a state and a step together, whatever each of their rows counts."""
    _refuse_cut_weights(question, name)
    if question.by_duration:
        raise EstimationError(
            f"{name} puts together episodes that are in the same state at the same step, and with durations "
            "they are not at the same time.",
            fix="Use gamma=1.0, or another estimator such as WPDIS, WDR or DM.",
        )


def _refuse_cut_weights(question: Question, name: str) -> None:
    """Refuse what takes steps together that do not count alike."""
    if question.cut_weights is not None:
        raise EstimationError(
            f"{name} puts together steps of many episodes, and with cut_weights they do not count alike.",
            fix="Leave cut_weights out, or use another estimator such as WPDIS, WDR or BLEND.",
        )


def of_others(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """BLEND."""
    raise EstimationError(
        "BLEND is made of other estimates and has no sums of its own.",
        fix='Ask for it by its name: estimate("BLEND", log, pi_e, pi_b).',
    )


def behaviour(question: Question, weighting: Weighting, corrected: bool) -> Family:
    """BEHAVIOUR."""
    return Behaviour(question.gamma)
