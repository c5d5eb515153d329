"""The columns of a path, and how any estimator fills them: level by level, many levels in one fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.answers.plans import Answers, Plan
from deadweight.estimators.estimator import Estimator
from deadweight.negligible.levels import Levels
from deadweight.question.core import Question
from deadweight.question.drops import Drop
from deadweight.typing import FloatArray

# Levels of one fold: what a block keeps for each of them stays small.
LEVELS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Columns:
    """(K + 1,) numbers of each level.

    `estimate` is uncorrected, except for doubly robust names, which hold the correction inside; `std_error`
    is that of the corrected value for names that correct.
    """

    estimate: FloatArray
    std_error: FloatArray
    bias: FloatArray
    ess: FloatArray


def level_by_level(question: Question, made: Estimator, levels: Levels) -> Columns:
    """The columns of any state-based estimator, each level through the ordinary estimator."""
    rows: list[tuple[float, ...]] = []
    for lo in range(0, len(levels), LEVELS_AT_ONCE):
        rows += _few_levels(question, made, levels, range(lo, min(lo + LEVELS_AT_ONCE, len(levels))))
    return Columns(*np.array(rows).T)


def _few_levels(question: Question, made: Estimator, levels: Levels, some: range) -> list[tuple[float, ...]]:
    """Estimate, standard error, bias and effective sample size of some levels."""
    drops = [Drop(states=levels.states(level)) for level in some]
    plans = [Plan(question, made, drop) for drop in drops]
    bases = plans
    if made.is_corrected:
        bases = [Plan(question, made.uncorrected, drop) for drop in drops]
    answers = Answers(question, plans if bases is plans else [*plans, *bases], model_known=True)
    answers.prepare(with_bias=True)
    answers.prepare_std_errors(plans)

    def row(plan: Plan, base: Plan) -> tuple[float, ...]:
        bias, ess = answers.bias(plan), answers.ess(plan)
        assert bias is not None  # there are no gaps without pi_e, and so no levels
        value, error = answers.fit(base).value, answers.std_error(plan)
        return value, error, bias, float(question.n) if ess is None else ess

    return [row(plan, base) for plan, base in zip(plans, bases, strict=True)]
