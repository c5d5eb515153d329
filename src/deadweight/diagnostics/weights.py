"""The weights of a log: how many episodes carry them, and whether they behave as weights must.

Weights have mean 1 whatever the policies are, if the propensities are right. So has A, the product of the
ratios that a drop leaves out. A mean far from 1 therefore speaks against the propensities, or says that the
episodes that matter are not in the log; `deadweight.diagnostics.mean_weight` says how far is far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import freeze_fields
from deadweight.diagnostics.mean_weight import has_model, z_by_model, z_by_sample
from deadweight.diagnostics.pareto import pareto_k
from deadweight.log.interface import LogLike
from deadweight.question.asking import ask
from deadweight.question.core import Question
from deadweight.question.drops import drop_of
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Table
from deadweight.sums.reduction import reduce_log
from deadweight.sums.running import Running, running_product
from deadweight.sums.summaries import Kish, Moments
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray


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
      >>> found = weights(log, [[0.25, 0.75]], [[0.5, 0.5]])
      >>> found.mean, found.kept_visits, sorted(found.to_dict())[:2]
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
    """Per-episode logarithms of B and A, and step counts."""

    log_b: FloatArray
    log_a: FloatArray
    zeros: int
    dropped: int
    steps: int

    def merge(self, other: WeightSums) -> WeightSums:
        """Of the episodes of both."""
        return WeightSums(
            np.concatenate([self.log_b, other.log_b]),
            np.concatenate([self.log_a, other.log_a]),
            self.zeros + other.zeros,
            self.dropped + other.dropped,
            self.steps + other.steps,
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
      >>> found = weights(log, [[0.25, 0.75]], [[0.5, 0.5]])
      >>> round(found.ess, 9), round(found.largest_share, 9), found.mean
      (1.6, 0.75, 1.0)
    """
    question = ask(log, pi_e, pi_b)
    weighting = drop_of(question, drop).weighting(question.pair)
    sums, kish = reduce_log(question.parts, partial(weight_sums, weighting), question.workers)
    return weight_report(question, weighting, sums, kish)


def weight_report(question: Question, weighting: Weighting, sums: WeightSums, kish: Kish) -> WeightReport:
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
        ess_steps=kish.ess,
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


def weight_sums(weighting: Weighting, block: Block) -> list[Any]:
    """`WeightSums` and `Kish` of a block."""
    weighted = weighting.on(block)
    sums = WeightSums(
        weighted.final.logs()[:, 0],
        _dropped_part(weighting, block).logs()[:, 0],
        _zero_ratios(weighting, block),
        0 if weighted.dropped is None else int(weighted.dropped.sum()),
        int(block.lengths.sum()),
    )
    return [sums, weighted.step_sizes("absorb")]


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
    """Mean of some weights, and its distance from 1 in standard errors; NaN where nothing can be said."""
    with np.errstate(over="ignore"):
        mean = float(np.exp(logs).mean())
    if weighting is not None and has_model(question, weighting):
        z = z_by_model(question, weighting, mean)
    else:
        unit = max(float(logs.max()), 0.0)  # in which no weight is too large
        values = np.exp(logs - unit)
        moments, one = Moments.of(values), math.exp(-unit)
        z = z_by_sample(moments.mean, moments.std_error, pareto_k(logs), one)
    return mean, math.nan if z is None else z
