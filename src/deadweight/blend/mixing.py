r"""BLEND: several estimates of one value as one, with an interval that allows for their contradictions.

The estimates go from the one that assumes least to the one that varies least: doubly robust with full
weights, with dropped states, with windows of three and of two ratios, and the model alone. Each next one is
mixed in by the share that minimises the error of the mix, where a difference beyond noise counts as its bias:

.. math:: X \leftarrow a X + (1 - a) \theta_j, \qquad
   a = \frac{S_{jj} - S_{Xj} + b^2}{S_{XX} + S_{jj} - 2 S_{Xj} + b^2}

The half-width is 2.5 standard errors, what the model hardly saw included, plus the contradiction: the most
by which any of the estimates differs from the mix beyond noise, or the bias that all of them share in a
sparse log, as leaving out folds of it shows. This file is arithmetic on what `blend.evidence` collects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadweight.results.blend import Blend
from deadweight.typing import FloatArray

# From the fewest assumptions to the least variance.
ORDER = ("WDR", "WDRSIS", "WIN3", "WIN2", "DM")
# Those that a model which contradicts the log leaves.
WITHOUT_MODEL = ("WPDIS", "WIS")
CROSS_FITTED = ("WDR cross-fitted", "WDRSIS cross-fitted")
BASELINE = "BEHAVIOUR"
# Fewer effective episodes than this carry no conclusion.
FEW_EPISODES = 10.0
# A share of effective episodes from which on nothing is left of the weights.
ALL_DROPPED = 0.95
# A difference of so many standard errors is bias; beyond so many it contradicts.
BIASED, CONTRADICTING = 2.5, 1.64
# Standard errors of a half-width at 95 %, and of what a normal distribution would have there.
WIDTH, NORMAL = 2.5, 1.959963984540054


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a blend is made of.

    Attributes:
      names: (k,) of the estimates.
      values: (k,) the estimates.
      covariance: (k, k) of the estimates, from full influences.
      n: episodes.
      ess: undropped effective sample size.
      ess_dropped: that of WDRSIS.
      ess_windowed: that of WIN3, its mean over the steps that pi_e reaches.
      unseen_variance: of what the model hardly saw.
      shared_bias: of the model, by leaving out folds.
      model: whether the model may be used at all.
      weights_only: the estimate with full weights goes without the model, which is of no use to it.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    n: int
    ess: float
    ess_dropped: float
    ess_windowed: float
    unseen_variance: float = 0.0
    shared_bias: float = 0.0
    model: bool = True
    weights_only: bool = False


def blend(evidence: Evidence, level: float = 0.95) -> Blend:
    """The mix of the estimates, at a confidence level."""
    return _Mixer(evidence).blend(level)


class _Mixer:
    """Estimates as unit vectors over all names, so that any mix of them has a value and a variance."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.unit = dict(zip(evidence.names, np.eye(len(evidence.names)), strict=True))
        self.enough = evidence.ess >= FEW_EPISODES
        self.order = self._order()
        own = {"WDRSIS": evidence.ess_dropped, "WIN3": evidence.ess_windowed}
        self.degrees = max(own.get(self.order[0], evidence.ess) - 1.0, 1.0)

    def _order(self) -> list[str]:
        evidence = self.evidence
        if not evidence.model:
            return list(WITHOUT_MODEL)
        order = list(ORDER)
        if evidence.weights_only:
            order[0] = "WPDIS"
        if evidence.ess_dropped > ALL_DROPPED * evidence.n:
            order.remove("WDRSIS")  # without any ratio left it is the model once more, and no check of it
        return order if self.enough else order[1:]

    def blend(self, level: float) -> Blend:
        evidence = self.evidence
        mix = self.unit[self.order[0]]
        for name in self.order[1:]:
            mix = self._mixed(mix, name)
        scale = _normal_quantile(level) / NORMAL * WIDTH
        apart, against = self._contradiction(mix)
        shared = abs(evidence.shared_bias) if evidence.model else 0.0
        contradiction = max(apart, shared)
        floor = self._variance(self.unit["DM"]) if evidence.model else 0.0
        unseen = 2.0 * evidence.unseen_variance if evidence.model else 0.0
        variance = self._variance(mix)
        paired = self._variance(mix - self.unit[BASELINE])
        half = scale * math.sqrt(max(variance, floor) + unseen) + contradiction
        other = scale * math.sqrt(paired + unseen) + contradiction
        if not math.isfinite(half):
            half = other = math.inf
        shares = {name: float(mix[evidence.names.index(name)]) for name in self.order}
        return Blend(
            float(mix @ evidence.values),
            math.sqrt(variance),
            half,
            shares,
            contradiction,
            shared,
            against,
            max(half, other),
        )

    def _mixed(self, mix: FloatArray, name: str) -> FloatArray:
        """The mix with one more estimate in it."""
        other = self.unit[name]
        squared = self._bias(other - mix) ** 2
        if self.order[0] == "WDR":
            squared = max(squared, self._bias(other - self.unit["WDR"]) ** 2)
        own, theirs, both = self._variance(mix), self._variance(other), self._covariance(mix, other)
        spread = own + theirs - 2.0 * both + squared
        share = min(max((theirs - both + squared) / spread, 0.0), 1.0) if spread > 0 else 1.0
        return share * mix + (1.0 - share) * other

    def _bias(self, difference: FloatArray) -> float:
        """A difference as far as it is beyond noise: all of it, or nothing."""
        found = float(difference @ self.evidence.values)
        return found if abs(found) > self._noise(difference, BIASED) else 0.0

    def _contradiction(self, mix: FloatArray) -> tuple[float, str | None]:
        evidence = self.evidence
        most, against = 0.0, None
        for name in self._witnesses():
            difference = mix - self.unit[name]
            beyond = abs(float(difference @ evidence.values)) - self._noise(difference, CONTRADICTING)
            if beyond > most:
                most, against = beyond, name
        return most, against

    def _witnesses(self) -> Sequence[str]:
        if not self.evidence.model:
            return self.order
        known = [name for name in (*ORDER, *CROSS_FITTED) if name in self.unit]
        return known if self.enough else [name for name in known if name not in ("WDR", CROSS_FITTED[0])]

    def _noise(self, difference: FloatArray, errors: float) -> float:
        from scipy.special import ndtr, stdtrit

        return float(stdtrit(self.degrees, float(ndtr(errors)))) * math.sqrt(self._variance(difference))

    def _variance(self, mix: FloatArray) -> float:
        return max(self._covariance(mix, mix), 0.0)

    def _covariance(self, a: FloatArray, b: FloatArray) -> float:
        return float(a @ self.evidence.covariance @ b)


def _normal_quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))
