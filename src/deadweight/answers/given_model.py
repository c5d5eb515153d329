r"""A model that was given instead of fitted: a table, held against what the log earned step by step.

What is said in `deadweight.answers.known_values` of values row by row holds here as well: with the values of
a right model :math:`\delta = r + \gamma V_{t+1}(s') - Q_t(s, a)` has mean 0, whatever it is multiplied by
that was known before. A model of another log is not exact either, and nobody says how far off it is: windowed
weights correct it by this log, and the model alone has no share in a blend, but may contradict it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from deadweight.answers.known_values import MOST_STANDARD_ERRORS, ROUNDING
from deadweight.estimators.windowed import ModelSteps
from deadweight.question.core import Question
from deadweight.sums.blocks import Block, powers
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import RowMoments
from deadweight.typing import FloatArray


def has_given_model(question: Question) -> bool:
    """Whether the model is a table that somebody else has made."""
    given = question.row_values is None and question.options.model is not None
    return given and question.can_solve_model


def given_model_fits(question: Question) -> bool:
    """Whether the log does not contradict the given model; by a pass of its own, once."""
    return question.made_once(("given model",), lambda: _held_against_the_log(question))


def _held_against_the_log(question: Question) -> bool:
    steps = ModelSteps(question)
    (moments,) = reduce_log(question.parts, partial(_moments, steps), question.workers)
    return _fits(moments, ROUNDING * (1.0 + float(np.abs(steps.q).max())))


def _fits(moments: RowMoments, rounding: float) -> bool:
    if moments.n < 2:
        return True
    errors = np.sqrt(moments.squares / (moments.n - 1) / moments.n)
    return bool((np.abs(moments.mean) <= np.maximum(MOST_STANDARD_ERRORS * errors, rounding)).all())


def _moments(steps: ModelSteps, block: Block) -> list[RowMoments]:
    """Of each episode's discounted errors, as they are and by three multipliers."""
    weighted = steps.weighting.on(block)
    times = powers(steps.gamma, block.horizon) if block.before is None else block.before
    delta: FloatArray = steps.errors(block).delta * times
    taken = steps.q[block.times, block.states, block.actions]
    better = taken - steps.v[block.times, block.states]
    usual = float(steps.d_e[0] @ steps.v[0, :-1])
    tried = (1.0, weighted.full, taken - usual, better)
    return [RowMoments.of(np.stack([(delta * one).sum(axis=1) for one in tried]))]
