r"""The shape k of the upper tail of the weights, from a generalised Pareto fit.

.. math:: P(W > u + y \mid W > u) \approx (1 + k y / \sigma)^{-1/k}

For k above 1/2 the variance of the weights is infinite or might as well be, for k above 1 their mean is: no
number of episodes within reach helps then. Above 0.7 an estimate should not be trusted. The fit is the
empirical Bayes one of Zhang & Stephens (2009), on the largest min(n/5, 3 sqrt(n)) weights, with the weak
prior k = 1/2 worth ten observations of Vehtari et al. (2024).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from deadweight.sums.blocks import Block
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray

# Fewer observations than this say nothing about a tail.
SMALLEST_TAIL = 5
# Weights that differ by less than this share of the largest are equal: a tail of rounding errors is none.
ROUNDING = 1e-9
PRIOR_K, PRIOR_WEIGHT = 0.5, 10.0
# Shape of a tail above which a mean of such weights should not be trusted.
HEAVY_TAIL = 0.7
# How many times the mean the largest weight must be before the shape of the tail matters: a few clusters of
# nearly equal weights have no tail, whatever shape is fitted to them.
FAR_ABOVE_MEAN = 10.0


def tail_size(n: int) -> int:
    """How many of n weights make the tail."""
    return math.ceil(min(n / 5, 3 * math.sqrt(n)))


def pareto_k(log_weights: FloatArray) -> float:
    """The shape of the upper tail of weights given by their logarithms; NaN where there is no tail to fit.

    Args:
      log_weights: (n,), -inf for zero weights.

    >>> pareto_k(np.zeros(1000))
    nan
    """
    size = tail_size(len(log_weights))
    return math.nan if size >= len(log_weights) else tail_shape(np.sort(log_weights)[-size - 1 :])


def tail_shape(ordered: FloatArray) -> float:
    """The same from the sorted logarithms of the tail and of the largest weight below it."""
    if len(ordered) <= SMALLEST_TAIL or ordered[-1] == -math.inf:
        return math.nan
    tail, cut = ordered[1:], ordered[0]
    # The shape does not depend on the unit: the largest weight is 1.
    excess = np.exp(tail - tail[-1]) - math.exp(cut - tail[-1])
    excess = excess[excess > ROUNDING]
    if len(excess) < SMALLEST_TAIL or not excess[-1] > excess[0]:
        return math.nan
    return shape(excess, PRIOR_WEIGHT)


def shape(excess: FloatArray, prior_weight: float = 0.0) -> float:
    """The shape k of a generalised Pareto distribution from sorted positive observations.

    The likelihood profile in theta = -k / sigma is averaged over a grid of quantiles of a data-driven prior.
    """
    n = len(excess)
    points = 30 + math.isqrt(n)
    quartile = excess[int(n / 4 + 0.5) - 1]
    grid = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    theta = 1 / excess[-1] + grid / (3 * quartile)
    k = np.log1p(-theta[:, None] * excess).mean(axis=1)  # (points,) best shape for each theta
    likelihood = n * (np.log(-theta / k) - k - 1)
    weights = np.exp(likelihood - likelihood.max())
    best = float(weights @ theta / weights.sum())
    fitted = float(np.log1p(-best * excess).mean())
    return (n * fitted + prior_weight * PRIOR_K) / (n + prior_weight)


@dataclass(frozen=True, eq=False)
class Largest:
    """Logarithms of the largest weights, as many as a tail needs, and of the sum of all n; merges."""

    logs: FloatArray
    size: int
    log_sum: float
    n: int

    def merge(self, other: Largest) -> Largest:
        """Of the episodes of both."""
        both = Largest.of(np.concatenate([self.logs, other.logs]), self.size)
        return replace(both, log_sum=float(np.logaddexp(self.log_sum, other.log_sum)), n=self.n + other.n)

    @classmethod
    def of(cls, logs: FloatArray, size: int) -> Largest:
        """The largest `size` of some logarithms."""
        kept = logs if len(logs) <= size else np.partition(logs, -size)[-size:]
        return cls(kept, size, float(np.logaddexp.reduce(logs)), len(logs))

    @property
    def shape(self) -> float:
        """Pareto k of the tail; NaN where there is none."""
        return tail_shape(np.sort(self.logs))

    @property
    def is_heavy(self) -> bool:
        """Whether the tail is heavy, and reaches far enough to matter."""
        reach = float(self.logs.max()) - self.log_sum + math.log(self.n)
        return reach > math.log(FAR_ABOVE_MEAN) and self.shape > HEAVY_TAIL


class LargestWeights:
    """The largest final weights of a log."""

    def __init__(self, weighting: Weighting, n: int) -> None:
        self.weighting, self.size = weighting, tail_size(n) + 1

    @property
    def key(self) -> Hashable:
        """One for each set of kept ratios."""
        return ("largest", self.weighting)

    def summarise(self, block: Block) -> Largest:
        """Of a block."""
        return Largest.of(self.weighting.on(block).final.logs()[:, 0], self.size)
