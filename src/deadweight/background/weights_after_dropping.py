"""The weights of a report: before and after dropping, over episodes and over steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadweight.background.one_pass import LogSums
from deadweight.diagnostics.weights import WeightReport, weight_report
from deadweight.question.core import Question
from deadweight.results.saved import saved
from deadweight.typing import FloatArray, IntArray

BINS = 32
MOST_STEPS = 120


@saved
@dataclass(frozen=True)
class WeightSummary:
    """One set of weights, plain or with the drop.

    Attributes:
      ess, largest_share, pareto_k, mean, mean_z, zero_share: of the final weights of the episodes.
      ess_steps: at the steps of `WeightsContent.steps`.
      counts: episodes in each bin of `WeightsContent.edges`.
    """

    ess: float
    largest_share: float
    pareto_k: float
    mean: float
    mean_z: float
    zero_share: float
    ess_steps: list[float]
    counts: list[int]


@saved
@dataclass(frozen=True)
class WeightsContent:
    """Weights before and after dropping; `after` is None when nothing is dropped.

    Attributes:
      steps: step numbers, from 1, at which the effective sample size is shown.
      edges: bin edges, in powers of ten of the weight.
      n_episodes: size of the log.
    """

    steps: list[int]
    edges: list[float]
    before: WeightSummary
    after: WeightSummary | None
    n_episodes: int


def weights_content(question: Question, sums: LogSums) -> WeightsContent:
    """Plain weights, and those of the drop where it drops anything."""
    powers = [each.log_b / math.log(10) for each, _ in sums.weights]
    edges = _edges(np.concatenate(powers))
    steps = np.unique(
        np.linspace(1, question.horizon, min(question.horizon, MOST_STEPS)).round().astype(np.int64)
    )
    before, *after = (
        _summary(weight_report(question, weighting, *each), own, steps, edges)
        for weighting, each, own in zip(sums.weightings, sums.weights, powers, strict=True)
    )
    return WeightsContent(steps.tolist(), edges.tolist(), before, after[0] if after else None, question.n)


def _edges(powers: FloatArray) -> FloatArray:
    """Bin edges that hold every positive weight, at least a tenth of a power wide in all."""
    finite = powers[np.isfinite(powers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if high - low < 0.1:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _summary(report: WeightReport, powers: FloatArray, steps: IntArray, edges: FloatArray) -> WeightSummary:
    return WeightSummary(
        ess=report.ess,
        largest_share=report.largest_share,
        pareto_k=report.pareto_k,
        mean=report.mean,
        mean_z=report.mean_z,
        zero_share=report.zero_weight_share,
        ess_steps=report.ess_steps[steps - 1].tolist(),
        counts=np.histogram(powers[np.isfinite(powers)], edges)[0].tolist(),
    )
