r"""Differences of contenders that hold all at once.

The noise of several differences is simulated together: with Gaussian multipliers xi the multiplier bootstrap

.. math:: T^*_k = \frac{\left| \frac1n \sum_i \xi_i (\psi_{ki} - \psi_{bi}) \right|}{\mathrm{se}_k}

of the influences psi is, given the log, a normal vector with the influences' correlations; that is what is
drawn, without touching the episodes again. Its largest entry is below c in 95 of 100 draws. One difference
alone would need c = 1.96, and any number of them not more than if they were independent (Sidak, 1967), so c
is held between the two.

**Against the mean return, or a number**, c standard errors are what a single statement needs at the level
2 Phi(c) - 1. So each policy has the interval that its own evaluation would give it at that level:
contradictions, sparse logs and weak weights count as they do there, what is claimed of many
policies would be claimed of each alone, and of one policy the same is said as by `evaluate`. Only where the
log is sparse for a policy is a comparison more careful, and the interval at least as wide as the next one.

**Between two policies**, of which one may be the baseline,

.. math:: h_k = f c \sqrt{\mathrm{Var}(\psi_k - \psi_j) + 2 v_{kj}} + E_{kj}

where f is 2.5 / 1.96 for a baseline, as for the interval of a blend, and 1.15 else; v is what the model
hardly saw and the two policies do not share; E is by how much the difference of another pair of estimates of
the same two values differs from theirs beyond noise, or how far the biases of a sparse log are apart.

Who may be the best is a smaller question: only the best must not be pushed out, by chance or by a bias. So
policy k is pushed out by whoever is ahead of it by more than the root of the squares of the two,

.. math:: \sqrt{(1.15\, c_k\, s)^2 + E^2}

with c_k for the largest of how much better than k the others are, one-sided (Hsu, 1996, Multiple Comparisons:
the best of several needs K - 1 comparisons and not all pairs).

References: Sidak (1967), Rectangular confidence regions for the means of multivariate normal distributions.
Chernozhukov, Chetverikov & Kato (2013), Gaussian approximations and multiplier bootstrap for
maxima of sums of high-dimensional random vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.blend.mixing import CONTRADICTING, NORMAL, WIDTH
from deadweight.comparing.contenders import OUT_OF_SAMPLE, Contender
from deadweight.results.differences import ROUNDING
from deadweight.typing import FloatArray

# The factor of a blend's interval is for what the normal approximation leaves out. Between two policies that
# the same model and the same weights speak of, less of it is left.
BETWEEN = 1.15
# Standard errors below this share of the largest are rounding.
NO_NOISE = 1e-12
# Rows of normal draws that are made at a time.
DRAWN_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Draws:
    """How the largest of several differences is simulated."""

    level: float
    resamples: int
    seed: int

    def quantile(self, covariance: FloatArray, two_sided: bool) -> float:
        """What the largest of some standardised normal numbers stays below, with the confidence level.

        Never less than one number alone needs, nor more than as many independent ones (Sidak's inequality; of
        numbers as they are, Bonferroni's).

        Args:
          covariance: (k, k) of the numbers; those without noise are left out.
          two_sided: the largest in size, or the largest as it is.
        """
        from scipy.special import ndtri

        scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        noisy = scale > NO_NOISE * scale.max(initial=0.0)
        count = max(int(noisy.sum()), 1)
        each = self.level ** (1 / count) if two_sided else 1 - (1 - self.level) / count
        alone, apart = (float(ndtri(0.5 + one / 2 if two_sided else one)) for one in (self.level, each))
        if count == 1:
            return alone
        correlation = covariance[np.ix_(noisy, noisy)] / np.outer(scale[noisy], scale[noisy])
        values, vectors = np.linalg.eigh(correlation)
        # The symmetric root: that of the eigenvectors alone has their signs, which differ between machines.
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        rng, largest = np.random.default_rng(self.seed), []
        step = max(1, DRAWN_AT_ONCE // len(root))
        for first in range(0, self.resamples, step):
            drawn = rng.standard_normal((min(step, self.resamples - first), len(root))) @ root
            largest.append((np.abs(drawn) if two_sided else drawn).max(axis=1))
        return min(max(float(np.quantile(np.concatenate(largest), self.level)), alone), apart)


@dataclass(frozen=True)
class Spread:
    """What is not known of the difference of two contenders.

    Attributes:
      error: its standard error, what was hardly seen included.
      bias: E, as far as it is beyond noise.
      at_most: E with all that a sparse log may hide.
      allowance: for what is known to be missing, without end where nothing can be said.
    """

    error: float
    bias: float
    at_most: float
    allowance: float


class Contest:
    """All contenders of a comparison, the baseline last, with what their differences need.

    Args:
      contenders: the policies.
      baseline: what they are compared with.
      draws: how noise is simulated.
    """

    def __init__(self, contenders: Sequence[Contender], baseline: Contender, draws: Draws) -> None:
        self.everyone, self.draws = [*contenders, baseline], draws
        self.count, self.n = len(contenders), len(baseline.influence)
        # Draws go to policies by their values: in which order and under which names they came says nothing.
        self._upwards = sorted(range(self.count), key=lambda k: (contenders[k].value, self.covariance[k, k]))
        self._spreads: dict[tuple[int, int], Spread] = {}

    @cached_property
    def covariance(self) -> FloatArray:
        """(K + 1, K + 1) of the values."""
        rows = np.stack([one.influence for one in self.everyone])
        found: FloatArray = rows @ rows.T / (self.n * max(self.n - 1, 1))
        return found

    def _of_differences(self, pairs: Sequence[tuple[int, int]]) -> FloatArray:
        signs = np.zeros((len(pairs), len(self.everyone)))
        for place, (one, other) in enumerate(pairs):
            signs[place, one] += 1.0
            signs[place, other] -= 1.0
        found: FloatArray = signs @ self.covariance @ signs.T
        return found

    @cached_property
    def against_baseline(self) -> float:
        """c of all differences from the baseline; of what is the baseline itself nothing is claimed."""
        last = self.everyone[-1]
        same = [one is last or (last.acts_as_logged and one.acts_as_logged) for one in self.everyone]
        pairs = [(k, self.count) for k in self._upwards if not same[k]]
        return self.draws.quantile(self._of_differences(pairs), two_sided=True)

    @cached_property
    def between_all(self) -> float:
        """c of the differences between any two policies."""
        pairs = [(k, j) for place, k in enumerate(self._upwards) for j in self._upwards[:place]]
        return self.draws.quantile(self._of_differences(pairs), two_sided=True)

    def from_all_others(self, k: int) -> float:
        """c of how much better than policy k the others are."""
        pairs = [(j, k) for j in self._upwards if j != k]
        return self.draws.quantile(self._of_differences(pairs), two_sided=False)

    def difference(self, k: int, j: int) -> float:
        """The value of k less that of j."""
        return self.everyone[k].value - self.everyone[j].value

    def from_baseline(self, k: int) -> tuple[float, float]:
        """Half-widths, below and above, of the difference from the baseline, together with all others."""
        own, baseline, c = self.everyone[k], self.everyone[-1], self.against_baseline
        if baseline.alone is not None or own.alone is None:
            return (self._paired(k, self.count, c, WIDTH / NORMAL),) * 2
        below, above = map(_finite, own.alone(_level(c), not baseline.acts_as_logged))
        least = self._paired(k, self.count, c, WIDTH / NORMAL) if own.sparse else 0.0
        return max(below, least), max(above, least)

    def half_width(self, k: int, j: int, c: float) -> float:
        """Of the difference of two policies: c standard errors, and what is allowed for bias."""
        return self._paired(k, j, c, BETWEEN)

    def _paired(self, k: int, j: int, c: float, factor: float) -> float:
        spread = self._spread(k, j)
        return _finite(factor * c * spread.error + spread.at_most + spread.allowance)

    def pushes_out(self, j: int, k: int, c: float) -> float:
        """By how much j must be ahead of k for k not to be the best: noise and bias, as if independent."""
        spread = self._spread(k, j)
        rounding = ROUNDING * max(abs(self.everyone[k].value), abs(self.everyone[j].value))
        return _finite(math.hypot(BETWEEN * c * spread.error, spread.bias) + spread.allowance) + rounding

    def _spread(self, k: int, j: int) -> Spread:
        pair = (min(k, j), max(k, j))
        if pair not in self._spreads:
            one, other, covariance = self.everyone[k], self.everyone[j], self.covariance
            noise = float(covariance[k, k] + covariance[j, j] - 2.0 * covariance[k, j])
            error = math.sqrt(max(noise, 0.0) + 2.0 * _unseen(one, other))
            self._spreads[pair] = Spread(error, *self._biases(one, other), one.allowance + other.allowance)
        return self._spreads[pair]

    def _biases(self, one: Contender, other: Contender) -> tuple[float, float]:
        """E: by how much other estimates of the same difference deny it, or biases are apart.

        Once by what is beyond noise, and once, where the log is sparse for one of the two, with all of the
        distance to what is out of sample.
        """
        found = most = abs(one.shared_bias - other.shared_bias)
        sparse = one.sparse or other.sparse
        for name in _common(one, other):
            apart, noise = self._distance(one, other, name)
            found = max(found, abs(apart) - CONTRADICTING * noise)
            most = max(most, found, abs(apart) if sparse and name in OUT_OF_SAMPLE else 0.0)
        return found, most

    def _distance(self, one: Contender, other: Contender, name: str) -> tuple[float, float]:
        """How far another pair of estimates has the two values apart from ours, and its standard error."""
        value, rows = 0.0, np.zeros(self.n)
        for sign, each in ((1.0, one), (-1.0, other)):
            if name in each.distances:
                value += sign * each.distances[name].value
                rows = rows + sign * each.distances[name].influence
        return value, math.sqrt(float(rows @ rows) / (self.n * max(self.n - 1, 1)))


def _level(c: float) -> float:
    """The level of a statement on both sides that c standard errors make."""
    from scipy.special import ndtr

    return 2.0 * float(ndtr(c)) - 1.0


def _finite(width: float) -> float:
    return width if math.isfinite(width) else math.inf


def _unseen(one: Contender, other: Contender) -> float:
    """The variance of what the model hardly saw and the two policies do not share."""
    if one.unseen is None or other.unseen is None:
        return sum(float(np.square(each.unseen).sum()) for each in (one, other) if each.unseen is not None)
    if one.unseen.shape != other.unseen.shape:
        return float(np.square(one.unseen).sum() + np.square(other.unseen).sum())
    return float(np.square(one.unseen - other.unseen).sum())


def _common(one: Contender, other: Contender) -> list[str]:
    """Estimates that both have; of one alone where the other has none at all."""
    if not one.distances or not other.distances:
        return [*one.distances, *other.distances]
    return [name for name in one.distances if name in other.distances]
