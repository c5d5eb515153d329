"""BLEND as an estimate: the evidence of a question, mixed, with its own interval and its flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deadweight.answers.misfit import Misfit
from deadweight.answers.plans import Answers, Plan
from deadweight.blend.evidence import gather
from deadweight.blend.mixing import blend
from deadweight.errors import EstimationError, OptionError
from deadweight.estimators.names import MODEL
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.results import Estimate, Interval
from deadweight.results.blend import Blend


def check_blend(question: Question, name: str, also: Sequence[str]) -> None:
    """Refuse a blend that cannot be made, before any work is done."""
    question.pi_e(name)
    if "influence" in also:
        raise OptionError(
            f"{name} is made of other estimates and keeps no influence of its own.",
            fix='Leave out also=["influence"], or ask for that of another estimator, such as WDRSIS.',
        )
    if not question.can_solve_model:
        raise EstimationError(
            f"{name} needs the action values of all {question.horizon:,} steps, and there are too many "
            "states for that.",
            fix="Use WPDIS or WIS, which need no model.",
        )


def blend_estimate(answers: Answers, plan: Plan, interval: str | None, level: float) -> Estimate:
    """The blend of a question.

    Args:
      answers: sums that are there already are not made again.
      plan: with the drop of WDRSIS, one of the estimates in it.
      interval: None for none; a blend has one kind only.
      level: confidence level.
    """
    question, misfit = plan.question, _model_check(answers)
    bad = misfit is not None and misfit.found
    mixed = blend(replace(gather(question, plan.drop, answers), model=not bad), level)
    flags = [*(["model-misfit"] if bad else []), *(["contradicted"] if mixed.against is not None else [])]
    return Estimate(
        about=plan.estimator.about,
        value=mixed.value,
        n_episodes=question.n,
        level=level,
        bounds=None if interval is None else _bounds(mixed),
        ess=None,
        drop_origin=plan.drop.origin,  # of WDRSIS, which is in it
        flags=tuple(flags),
        model_check=misfit,
        blend=mixed,
        std_error=mixed.std_error,
        bias=0.0,
        ess_steps=None,
    )


def _model_check(answers: Answers) -> Misfit | None:
    """The check of the model, made before or now."""
    model_alone = Plan(answers.question, MODEL.variant(), NOTHING_DROPPED)
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
