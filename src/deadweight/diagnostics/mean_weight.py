r"""Do the weights average 1, as they must if the old policy's probabilities are right?

.. math:: z = \frac{\text{mean}(w) - 1}{\sqrt{(E[w^2] - 1) / n}}

where w is the whole weight of an episode, at its end. Weights are skewed: a log without the few episodes that
have large ones has a mean far below 1 *and* a small spread, so that its own standard error cries wolf. Where
states have labels, E[w^2] is that of the fitted model with the old policy as it was stated; nothing is said
where logged probabilities vary within state and action. Elsewhere the sample's own error has to do, and only
where the tail of the weights is light. Where a mean of 0 would be no surprise nothing can be said.

A wrong probability shows up earlier state by state (`deadweight.question.ratio_check`). The mean of whole
weights also sees actions that depend on each other within an episode, and episodes that are missing.
"""

from __future__ import annotations

import math

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.summing import Summing
from deadweight.diagnostics.infinite_variance import second_moment
from deadweight.diagnostics.pareto import LargestWeights
from deadweight.question.core import Question
from deadweight.question.ratio_check import InverseProbabilities, Stated
from deadweight.sums.fields import Table
from deadweight.sums.running import scale
from deadweight.sums.summaries import Kish, z_from_one
from deadweight.sums.weighting import Weighting

FAR_FROM_ONE = 5.0
"""Standard errors that the mean of the weights may be away from 1; so many because weights are skewed."""
LIGHT_TAIL = 0.5
"""Pareto k below which weights have a variance that a sample shows."""


def mean_weight_z(answers: Answers, weighting: Weighting) -> float | None:
    """How many standard errors the mean of whole weights is away from 1; None where nothing can be said."""
    question, weights = answers.question, answers.weights_of(weighting)
    if question.parts.has_states and stated_policy(question).varies:
        return None  # neither a model nor a few effective episodes tell what the old policy looked at
    if has_model(question, weighting):
        with np.errstate(over="ignore"):
            mean = float(scale(weights.weight, weights.shift)[0]) / question.n
        return z_by_model(question, weighting, mean)
    largest = LargestWeights(weighting, question.n)
    answers.sum([largest])
    mean, error, one = _by_sample(weights, question.n)
    return z_by_sample(mean, error, answers.found(largest).shape, one)


def has_model(question: Question, weighting: Weighting) -> bool:
    """Whether a fitted model tells the variance of these weights: states have labels, and whole states go."""
    by_state = weighting.drop is None or isinstance(weighting.drop, Table)
    return by_state and question.parts.has_states and question.can_solve_model


def z_by_model(question: Question, weighting: Weighting, mean: float) -> float | None:
    """z of weights whose mean is known, see above; None where nothing can be said."""
    error = question.made_once((z_by_model, weighting), lambda: _model_error(question, weighting))
    return z_from_one(mean, error) if error < 1.0 / FAR_FROM_ONE else None


def _model_error(question: Question, weighting: Weighting) -> float:
    """The standard error of the mean by the model; infinite where pi_e does what pi_b never does."""
    stated, pi_e = stated_policy(question), question.pi_e("The variance of the weights")
    visits = stated.taken.sum(axis=1)
    dropped = (
        weighting.drop.values if isinstance(weighting.drop, Table) else np.zeros(len(visits), dtype=bool)
    )
    kept = ~dropped
    if ((pi_e > 0) & (stated.probs == 0))[kept & (visits > 0)].any():
        return math.inf
    target = np.where(kept[:, None], pi_e, stated.probs)
    most = 1.0 + question.n / FAR_FROM_ONE**2
    variance = second_moment(question, stated.second_moments(target), most) - 1.0
    return math.sqrt(max(variance, 0.0) / question.n)


def stated_policy(question: Question) -> Stated:
    """The old policy as it was stated, beside what was done in each state."""

    def make() -> Stated:
        pi_b, sums = question.pair.pi_b, Summing(question)
        if pi_b is not None:
            return Stated(question.counts.visits(), pi_b)
        logged = InverseProbabilities(question.pair.n_actions)
        sums.sum([logged])
        return Stated.of_logged(sums.found(logged), question.shape)

    return question.made_once(Stated, make)


def is_contradicted(question: Question) -> bool:
    """Whether what was done contradicts the old policy as it was stated."""
    return question.made_once(
        is_contradicted, lambda: stated_policy(question).is_contradicted(question.pair.pi_e)
    )


def z_by_sample(mean: float, error: float, shape: float, one: float = 1.0) -> float | None:
    """z with the standard error of the sample, where `shape`, the Pareto k of the weights, lets it stand.

    `one` is 1 in the unit of mean and error.
    """
    light = shape < LIGHT_TAIL and error < one / FAR_FROM_ONE
    return z_from_one(mean, error, one) if light else None


def _by_sample(weights: Kish, n: int) -> tuple[float, float, float]:
    """Mean of a single column of n weights, its standard error, and 1 in their unit."""
    unit = np.maximum(weights.shift, 0)  # in which neither a weight nor its square is too large
    mean, square = (
        float(scale(sums, power * (weights.shift - unit))[0]) / n
        for power, sums in ((1, weights.weight), (2, weights.squares))
    )
    error = math.sqrt(max(square - mean * mean, 0.0) / (n - 1)) if n > 1 else math.nan
    return mean, error, float(scale(np.ones(1), -unit)[0])
