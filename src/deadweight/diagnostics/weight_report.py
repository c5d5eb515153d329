r"""The weights of a log: how many episodes carry them, and whether they behave as weights must.

Weights have mean 1 whatever the policies are, if the propensities are right. So has A, the product of the
ratios that a drop leaves out. A mean far from 1 therefore speaks against the propensities, or says that the
episodes that matter are not in the log. How far it is,

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
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.rounds import Summing
from deadweight.diagnostics.tails import LargestWeights, pareto_k, second_moment
from deadweight.log.interface import LogLike
from deadweight.question.drops import drop_of
from deadweight.question.question import Question, ask
from deadweight.question.ratio_check import InverseProbabilities, Stated
from deadweight.sums.blocks import Block, Table
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Kish, Moments, Running, scale, z_from_one
from deadweight.sums.weighting import Weighting, running_product
from deadweight.tools.arithmetic import freeze_fields
from deadweight.tools.thresholds import FAR_FROM_ONE, LIGHT_TAIL
from deadweight.typing import FloatArray


def mean_weight_z(answers: Answers, weighting: Weighting) -> float | None:
    """z of the mean of whole weights; None where nothing can be said."""
    question, weights = answers.question, answers.weights_of(weighting)
    if question.parts.has_states and stated_policy(question).varies:
        return None  # neither a model nor a few effective episodes tell what the old policy looked at
    if has_model(question, weighting):
        with np.errstate(over="ignore"):
            mean = float(scale(weights.weight, weights.shift)[0]) / question.n
        return z_by_model(question, weighting, mean)
    largest = LargestWeights(weighting, question.n)
    answers.sum([largest])
    n, unit = question.n, np.maximum(weights.shift, 0)  # in which no weight and no square is too large
    mean, square = (
        float(scale(sums, power * (weights.shift - unit))[0]) / n
        for power, sums in ((1, weights.weight), (2, weights.squares))
    )
    error = math.sqrt(max(square - mean * mean, 0.0) / (n - 1)) if n > 1 else math.nan
    return z_by_sample(mean, error, answers.found(largest).shape, float(scale(np.ones(1), -unit)[0]))


def has_model(question: Question, weighting: Weighting) -> bool:
    """Whether a fitted model tells the variance of these weights: states have labels, and whole states go."""
    by_state = weighting.drop is None or isinstance(weighting.drop, Table)
    return by_state and question.parts.has_states and question.can_solve_model


def z_by_model(question: Question, weighting: Weighting, mean: float) -> float | None:
    """z of weights whose mean is known, by the fitted model; None where nothing can be said."""
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


def z_by_sample(mean: float, error: float, shape: float, unit: float) -> float | None:
    """z with the standard error of the sample, where `shape`, the Pareto k of the weights, lets it stand.

    `unit` is 1 in the unit of mean and error.
    """
    light = shape < LIGHT_TAIL and error < unit / FAR_FROM_ONE
    return z_from_one(mean, error, unit) if light else None


# --- The report


@dataclass(frozen=True, eq=False)
class WeightReport:
    """Diagnostics of the kept weights B of a log, and of the dropped part A.

    Attributes:
      n_episodes: size of the log.
      ess: Kish effective sample size of B.
      ess_steps: (T,) the same at each step, ended episodes with their last weight.
      largest_share: share of the largest B in the sum.
      mean, mean_z: mean of B, and its distance from 1 in the standard errors that it must have by the fitted
        model; NaN where these are so large that nothing can be said.
      dropped_mean, dropped_mean_z: the same of A, the product of the dropped ratios; None without a drop.
      pareto_k: shape of the tail of B; above 0.7 the estimate should not be trusted. NaN without a tail.
      zero_ratio_share: share of the steps at which pi_e never takes the logged action.
      zero_weight_share: share of the episodes with B = 0.
      kept_visits, dropped_visits: mean number of steps an episode with kept and with dropped ratio.

    Example:
      >>> from deadweight.log.trajectories import Trajectories
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)]])
      >>> report = weights(log, [[0.25, 0.75]], [[0.5, 0.5]])
      >>> report.mean, report.kept_visits, sorted(report.to_dict())[:2]
      (1.0, 1.0, ['dropped_mean', 'dropped_mean_z'])
    """

    n_episodes: int
    ess: float
    ess_steps: FloatArray
    largest_share: float
    mean: float
    mean_z: float
    dropped_mean: float | None
    dropped_mean_z: float | None
    pareto_k: float
    zero_ratio_share: float
    zero_weight_share: float
    kept_visits: float
    dropped_visits: float

    def __post_init__(self) -> None:
        freeze_fields(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "ess_steps": self.ess_steps.tolist()}


@dataclass(frozen=True, eq=False)
class WeightSums:
    """Logarithms of B and A by episode, counts of steps, and the effective sample size of each step."""

    log_b: FloatArray
    log_a: FloatArray
    zeros: int  # steps that pi_e never takes
    dropped: int
    steps: int
    kish: Kish

    def merge(self, other: WeightSums) -> WeightSums:
        """The sums of the episodes of both."""
        return WeightSums(
            np.concatenate([self.log_b, other.log_b]),
            np.concatenate([self.log_a, other.log_a]),
            self.zeros + other.zeros,
            self.dropped + other.dropped,
            self.steps + other.steps,
            self.kish.merge(other.kish),
        )


def weights(log: LogLike, pi_e: Any = None, pi_b: Any = None, drop: Any = None) -> WeightReport:
    """Diagnostics of the weights.

    Args:
      log: episodes of the behaviour policy.
      pi_e, pi_b: evaluation and behaviour policy, as in `estimate`.
      drop: dropped states: a `StateSet`, labels, or a boolean array; None for plain weights.

    Example:
      >>> from deadweight.log.trajectories import Trajectories
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)]])
      >>> report = weights(log, [[0.25, 0.75]], [[0.5, 0.5]])
      >>> round(report.ess, 9), round(report.largest_share, 9), report.mean
      (1.6, 0.75, 1.0)
    """
    question = ask(log, pi_e, pi_b)
    weighting = drop_of(question, drop).weighting(question.pair)
    sums: WeightSums = reduce_log(question.parts, partial(weight_sums, weighting), question.workers)[0]
    return weight_report(question, weighting, sums)


def weight_report(question: Question, weighting: Weighting, sums: WeightSums) -> WeightReport:
    """The diagnostics of the kept ratios of a question from the sums of its log."""
    drops = weighting.drop is not None
    b_mean, b_z = _against_one(question, weighting, sums.log_b)
    a_mean, a_z = _against_one(question, _opposite(weighting), sums.log_a) if drops else (None, None)
    shares = _shares(sums.log_b)
    squares = float((shares**2).sum())
    n = len(sums.log_b)
    return WeightReport(
        n_episodes=n,
        ess=1.0 / squares if squares > 0 else 0.0,
        ess_steps=sums.kish.ess,
        largest_share=float(shares.max()),
        mean=b_mean,
        mean_z=b_z,
        dropped_mean=a_mean,
        dropped_mean_z=a_z,
        pareto_k=pareto_k(sums.log_b),
        zero_ratio_share=sums.zeros / sums.steps,
        zero_weight_share=float((sums.log_b == -math.inf).mean()),
        kept_visits=(sums.steps - sums.dropped) / n,
        dropped_visits=sums.dropped / n,
    )


def weight_sums(weighting: Weighting, block: Block) -> list[WeightSums]:
    """The sums of a block."""
    weighted = weighting.on(block)
    sums = WeightSums(
        weighted.final.logs()[:, 0],
        _dropped_part(weighting, block).logs()[:, 0],
        _zero_ratios(weighting, block),
        0 if weighted.dropped is None else int(weighted.dropped.sum()),
        int(block.lengths.sum()),
        weighted.step_sizes("absorb"),
    )
    return [sums]


def _dropped_part(weighting: Weighting, block: Block) -> Running:
    """(m, 1) A, the product of the dropped ratios."""
    marks, opposite = weighting.on(block).dropped, _opposite(weighting)
    if marks is None:
        return Running(np.ones((block.n, 1)))
    if opposite is not None:
        return opposite.on(block).final
    return running_product(np.where(marks, weighting.on(block).full, 1.0)).last


def _opposite(weighting: Weighting) -> Weighting | None:
    """The weighting that keeps what this one drops; None where it drops single steps, or none."""
    drop = weighting.drop
    return Weighting(weighting.pair, Table(~drop.values)) if isinstance(drop, Table) else None


def _zero_ratios(weighting: Weighting, block: Block) -> int:
    """Steps with an action that pi_e never takes; tables without a zero need not be looked up."""
    table = weighting.undropped.table
    if table is not None and not (table.values == 0).any():
        return 0
    return int((weighting.on(block).full == 0).sum())


def _shares(logs: FloatArray) -> FloatArray:
    """(n,) weights divided by their sum; all zero when it is."""
    top = logs.max()
    if top == -math.inf:
        return np.zeros_like(logs)
    relative = np.exp(logs - top)
    shares: FloatArray = relative / relative.sum()
    return shares


def _against_one(question: Question, weighting: Weighting | None, logs: FloatArray) -> tuple[float, float]:
    """The mean of weights, and its distance from 1 in standard errors; NaN where nothing can be said."""
    with np.errstate(over="ignore"):
        mean = float(np.exp(logs).mean())
    if weighting is not None and has_model(question, weighting):
        z = z_by_model(question, weighting, mean)
    else:
        unit = max(float(logs.max()), 0.0)  # in which no weight is too large
        values = np.exp(logs - unit)
        moments = Moments.of(values)
        z = z_by_sample(moments.mean, moments.std_error, pareto_k(logs), math.exp(-unit))
    return mean, math.nan if z is None else z
