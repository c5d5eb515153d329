"""BLEND as an estimate: the evidence of a question, mixed, with its own interval and its flags."""

from __future__ import annotations

from functools import partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.confounding import confounding_of
from deadweight.answers.misfit import Misfit
from deadweight.answers.plans import Plan, plan_of
from deadweight.blend.candidates import Evidence
from deadweight.blend.evidence import checked
from deadweight.blend.mixing import SKEWED, Mixture
from deadweight.errors import EstimationError
from deadweight.estimators.full_influence import Influence
from deadweight.estimators.names import MODEL
from deadweight.inference.per_episode import centred_influences
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.results import Estimate, Interval
from deadweight.results.blend import Blend
from deadweight.results.shared import ABSENT
from deadweight.sums.blocks import Block
from deadweight.typing import FloatArray

# An allowance for episodes that are not in the log is worth a flag from this share of the half-width.
MUCH = 0.5


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
      plan: of the blend.
      gathered: the estimates to mix.
      interval: None for none; a blend has one kind only.
      level: confidence level.
      influence: whether that of each episode is wanted.
    """
    question, misfit = plan.question, _model_check(answers)
    confounding = confounding_of(answers)
    misfits, confounded = misfit is not None and misfit.found, confounding is not None and confounding.found
    lost = misfits or confounded or question.has_mixed_worlds  # one world is what a model is of
    evidence = checked(question, answers, gathered, lost)
    mixture = Mixture(evidence)
    mixed = mixture.at(level)
    marks = {
        "model-misfit": misfits,
        "confounded-model": confounded,
        "missing-weight": mixed.missing > MUCH * mixed.half_width,
        "heavy-reward": abs(mixed.skewness) > SKEWED,
        "contradicted": mixed.against is not None,
    }
    return Estimate(
        about=plan.estimator.about,
        value=mixed.value,
        n_episodes=question.n,
        level=level,
        bounds=None if interval is None else _bounds(mixed),
        ess=None,
        flags=tuple(flag for flag, found in marks.items() if found),
        model_check=misfit,
        blend=mixed,
        std_error=mixed.std_error,
        bias=0.0,
        ess_steps=None,
        influence=centred_influences(question, _influence(evidence, mixture.mix)) if influence else ABSENT,
    )


def _influence(evidence: Evidence, shares: FloatArray) -> Influence:
    """Of an episode on the mix, with its shares as they are."""
    some = [pair for pair in zip(shares.tolist(), evidence.influences, strict=True) if pair[0]]
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
    below, above = mixed.half_widths
    return Interval(
        mixed.value - below,
        mixed.value + above,
        mixed.half_width - mixed.contradiction,
        mixed.contradiction,
        kind="blend",
        covers="V(pi_e)",
        centre=mixed.value,
        std_error=mixed.std_error,
        disagreement=mixed.contradiction,
    )
