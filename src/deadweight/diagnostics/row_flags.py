"""The flags of a row of a table: what a reader of that estimate must know.

Their sentences are in `deadweight.results.flags`. Flags that take sums of their own, or a standard error, are
there only if an interval was asked for.
"""

from __future__ import annotations

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.confounding import is_confounded
from deadweight.answers.plans import FEW_EPISODES, NEARLY_ALL, Plan
from deadweight.blend.mixing import ROUNDING, WITHOUT_MODEL
from deadweight.diagnostics.copied_episodes import copies_of
from deadweight.diagnostics.log_order import order_flags
from deadweight.diagnostics.mean_weight import is_contradicted
from deadweight.diagnostics.weight_flags import flags_of_full_weights, weight_flags
from deadweight.negligible.proof import is_proven
from deadweight.question.core import Question
from deadweight.question.ratio_check import FLAG as MISCALIBRATED
from deadweight.results import Estimate, Interval
from deadweight.typing import FloatArray

UNSEEN_SHARE = 0.05
"""Of the choices of pi_e: below, they are too few to matter."""
HALF = 0.5
"""Of the shares of a mix: what rests on the model with so much of it is as good as the model."""
OFTEN = 30
"""Visits of a state after which an action that was never taken there is no accident of a short log."""


def row_flags(answers: Answers, plan: Plan, bounds: Interval | None) -> list[str]:
    """Of an estimate with its interval, in the order of what they are about: log, weights, drop, model."""
    found = _log_flags(answers, plan, bounds, answers.model_misfits)
    ess, share = answers.ess(plan), answers.dropped_share(plan)
    if ess is not None and ess < FEW_EPISODES:
        found.append("low-ess")
    if plan.estimator.is_state_based and share >= NEARLY_ALL:
        found.append("all-dropped")
    if plan.estimator.is_state_based and share == 0.0:
        found.append("none-dropped")
    if bounds is not None:
        found += [*weight_flags(answers, plan), *_interval_flags(plan, bounds)]
        if plan.uses_model and not is_proven(plan.question):
            found.append("model-unproven")
    return [*found, *_model_flags(answers, plan)]


def mix_flags(answers: Answers, plan: Plan, mix: Estimate) -> list[str]:
    """Of a mix, beside those that it has by itself."""
    found, shares = _log_flags(answers, plan, mix.bounds, "model-misfit" in mix.flags), mix.shares or {}
    if mix.bounds is None:
        return found
    unproven = [] if is_proven(plan.question) else ["model-unproven"]
    by_model = sum(share for name, share in shares.items() if name not in WITHOUT_MODEL)
    fitted = _flags_of_fit(plan.question) if by_model >= HALF else []
    return [*found, *flags_of_full_weights(answers, shares), *unproven, *fitted, *order_flags(answers)]


def _log_flags(answers: Answers, plan: Plan, bounds: Interval | None, misfits: bool) -> list[str]:
    """What must be known of the log, and of where the behaviour policy comes from."""
    question = plan.question
    found = [] if plan.estimator.is_naive else list(question.behaviour_flags)
    if bounds is not None and bounds.is_undetermined:
        found.append("undetermined")
    if bounds is not None and not plan.estimator.is_naive:
        if question.has_mixed_worlds:
            found.append("mixed-worlds")
        if _has_copies(answers, misfits):
            found.append("copies")
        if question.parts.has_states and is_contradicted(question):
            found.append(MISCALIBRATED)
    if question.cut_early > 0:
        found.append("truncated" if question.cut_weights is None else "cut-weighted")
    if not plan.estimator.is_naive and _lacks_support(question):
        found.append("no-support")
    return found


def _has_copies(answers: Answers, misfits: bool) -> bool:
    """Whether episodes are copies; how many are equal by chance a model tells only if it fits the log."""
    copies = copies_of(answers)
    return copies is not None and copies.found and (copies.real or not misfits)


def _interval_flags(plan: Plan, bounds: Interval) -> list[str]:
    """What the checks of an interval have found."""
    if bounds.kind != "auto" or not plan.estimator.is_product or not plan.question.options.cross_check:
        return []
    if not plan.counterparts:
        return ["unchecked"]
    rounding = ROUNDING * abs(bounds.centre)
    return ["contradicted"] if (bounds.disagreement or 0.0) > bounds.sampling_error + rounding else []


def _model_flags(answers: Answers, plan: Plan) -> list[str]:
    """What must be known of the model behind an estimate."""
    misfit = answers.misfit(plan)
    found = ["model-misfit"] if misfit is not None and misfit.found else []
    found += ["confounded-model"] if plan.uses_model and is_confounded(answers) else []
    return [*found, *_flags_of_fit(plan.question)] if plan.has_used_model else found


def _flags_of_fit(question: Question) -> list[str]:
    """What must be known of whatever rests on the fitted model."""
    found = ["model-unsettled"] if question.unsettled else []
    return found if question.row_values is None else [*found, *question.row_values.flags]


def _lacks_support(question: Question) -> bool:
    """Whether pi_e acts in a visited state where pi_b never does.

    Where pi_b is known for logged actions only, the log tells: an action that it does not have at all, which
    may be misspelt; or, where pairs have been counted, many choices that were never made in states visited
    so often that this is no accident.
    """
    pi_e, pi_b = question.pair.pi_e, question.pair.pi_b
    if pi_e is None:
        return False
    if pi_b is None:
        return question.parts.has_states and (_takes_strangers(question, pi_e) or _takes_unseen(question))
    states = ((pi_e > 0) & (pi_b == 0)).any(axis=1)
    return bool(states.any() and (question.visits[states] > 0).any())


def _takes_strangers(question: Question, pi_e: FloatArray) -> bool:
    strange = pi_e[:, len(question.parts.action_labels) :].any(axis=1)
    return bool(strange.any() and (question.visits[strange] > 0).any())


def _takes_unseen(question: Question) -> bool:
    if not question.facts.has_counts(question.shape):
        return False
    if _takes_unseen not in question.paths:
        unseen = (question.counts.visits() == 0) & (question.visits >= OFTEN)[:, None]
        mass = np.where(unseen, question.pi_e("The support"), 0.0).sum(axis=1)
        share = question.visits @ mass / question.visits.sum()
        question.paths[_takes_unseen] = bool(share > UNSEEN_SHARE)
    found: bool = question.paths[_takes_unseen]
    return found
