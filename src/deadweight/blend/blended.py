"""BLEND as an estimate: the evidence of a question, mixed, with its own interval and its flags."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.confounding import confounding_of
from deadweight.answers.misfit import Misfit
from deadweight.answers.plans import Plan, plan_of
from deadweight.blend.candidates import Evidence, is_bearable
from deadweight.blend.mixing import blend
from deadweight.errors import EstimationError
from deadweight.estimators.full_influence import Influence
from deadweight.estimators.names import MODEL
from deadweight.inference.intervals import clipped
from deadweight.inference.per_episode import centred_influences
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.results import Estimate, Interval
from deadweight.results.blend import Blend
from deadweight.results.shared import ABSENT
from deadweight.sums.blocks import Block
from deadweight.typing import FloatArray


def check_blend(question: Question, name: str) -> None:
    """Refuse a blend that cannot be made, before any work is done."""
    question.pi_e(name)
    if not question.can_solve_model:
        raise EstimationError(
            f"{name} needs the action values of all {question.horizon:,} steps, and there are too many "
            "states for that.",
            fix="Use WPDIS or WIS, which need no model.",
        )


def blend_estimate(
    answers: Answers,
    plan: Plan,
    gathered: Evidence,
    interval: str | None,
    level: float,
    influence: bool = False,
) -> Estimate:
    """The blend of a question.

    Args:
      answers: sums that are there already are not made again.
      plan: with the drop of WDRSIS, one of the estimates in it.
      gathered: the estimates to mix.
      interval: None for none; a blend has one kind only.
      level: confidence level.
      influence: whether that of each episode is wanted.
    """
    question, misfit = plan.question, _model_check(answers)
    off = misfit.size if misfit is not None and misfit.found else 0.0
    bad = off > 0.0 and not is_bearable(gathered, off)
    confounding = confounding_of(answers)
    confounded = confounding is not None and confounding.found
    lost = bad or confounded or question.has_mixed_worlds  # one world is what a model is of
    evidence = replace(gathered, model=not lost, misfit=off)
    mixed = blend(evidence, level)
    marks = {
        "model-misfit": bad,
        "confounded-model": confounded,
        "model-useless": evidence.useless,
        "contradicted": mixed.against is not None,
    }
    return Estimate(
        about=plan.estimator.about,
        value=mixed.value,
        n_episodes=question.n,
        level=level,
        bounds=None if interval is None else clipped(_bounds(mixed), question.options.return_range),
        ess=None,
        drop_origin=plan.drop.origin,  # of WDRSIS, which is in it
        flags=tuple(flag for flag, found in marks.items() if found),
        model_check=misfit,
        blend=mixed,
        std_error=mixed.std_error,
        bias=0.0,
        ess_steps=None,
        influence=centred_influences(question, _influence(evidence, mixed)) if influence else ABSENT,
    )


def _influence(evidence: Evidence, mixed: Blend) -> Influence:
    """Of an episode on the mix, with its shares as they are."""
    shares = [mixed.shares.get(name, 0.0) for name in evidence.names]
    some = [pair for pair in zip(shares, evidence.influences, strict=True) if pair[0]]
    return partial(_mixed_influence, some)


def _mixed_influence(parts: list[tuple[float, Influence]], block: Block) -> FloatArray:
    return sum((share * influence(block) for share, influence in parts), start=np.zeros(block.n))


def _model_check(answers: Answers) -> Misfit | None:
    """The check of the model, made before or now."""
    model_alone = plan_of(answers.question, MODEL.variant(), NOTHING_DROPPED)
    known = answers.misfit(model_alone)
    if known is not None:
        return known
    checks = Answers(answers.question, [model_alone])
    checks.prepare_std_errors()
    return checks.misfit(model_alone)


def _bounds(mixed: Blend) -> Interval:
    """The interval of a blend."""
    return Interval(
        mixed.value - mixed.half_width,
        mixed.value + mixed.half_width,
        mixed.half_width - mixed.contradiction,
        mixed.contradiction,
        kind="blend",
        covers="V(pi_e)",
        centre=mixed.value,
        std_error=mixed.std_error,
        disagreement=mixed.contradiction,
    )
