r"""BLEND: several estimates of one value as one, with an interval that allows for their contradictions.

The estimates go from the one that assumes least to the one that varies least: doubly robust with full
weights, with dropped states, with windows of three and of two ratios, and the model alone. Each next one is
mixed in by the share that minimises the error of the mix, where b is its bias as `blend.candidates` sees it:

.. math:: X \leftarrow a X + (1 - a) \theta_j, \qquad
   a = \frac{S_{jj} - S_{Xj} + b^2}{S_{XX} + S_{jj} - 2 S_{Xj} + b^2}

The half-width allows for noise on both sides, or for the contradiction E and noise on one side (a bias goes
one way only), whichever is more:

.. math:: h = \max(2.5 \, s, \; 2.1 \, s + E), \qquad s^2 = \mathrm{Var}(X) + 1.5 \, v_u

with v_u for what the model hardly saw. E is the most by which any of the estimates differs from the mix
beyond noise (half of it for a model that is shown to be wrong), or the bias that all of them share in a
sparse log, as leaving out folds of it shows, or what a model that is in the mix all the same is off by for
the behaviour policy (`blend.candidates.is_bearable`). Where another model than the default was learned from
features, all of the distance to the default's value counts: two models of one log share its noise, and a
difference says that one of them is wrong. This file is arithmetic on what `blend.evidence` collects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from deadweight.blend.candidates import (
    BASELINE,
    CROSS_FITTED,
    OF_MODEL,
    SECOND_OPINION,
    Candidates,
    Evidence,
    quantile,
)
from deadweight.inference.student_t import ONE_EPISODE
from deadweight.results.blend import Blend, Part
from deadweight.typing import FloatArray

# Beyond so many standard errors a difference contradicts.
CONTRADICTING = 1.64
# How much of its contradiction a model has left that is shown to be wrong.
SHOWN_WRONG = 0.5
# Two estimates whose difference has no more than this share of their variances are the same.
SAME = 1e-12
# How much of the variance of what the model hardly saw counts.
UNSEEN = 1.5
# Standard errors of a half-width at 95 %, and of what a normal distribution would have there.
WIDTH, NORMAL = 2.5, 1.959963984540054


def blend(evidence: Evidence, level: float = 0.95) -> Blend:
    """The mix of the estimates, at a confidence level."""
    return Mixture(evidence).at(level)


class Mixture:
    """The mix of some estimates, at any confidence level; only the widths depend on it.

    With a model that is of no use the interval also holds all that weights alone leave open.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._mixer = _Mixer(evidence)
        self._by_weights = None
        if evidence.useless:
            by_weights = replace(evidence, weights_only=True, left_out=OF_MODEL)
            # Where all weights are zero their value is one by convention only, and leaves everything open.
            self._by_weights = _Mixer(by_weights, least_degrees=1.0 if evidence.ess > 0 else 0.0)

    def at(self, level: float) -> Blend:
        """The mix with the widths of this level."""
        mixed = self._mixer.blend(level)
        if self._by_weights is None:
            return mixed
        other = self._by_weights.blend(level)
        apart = abs(other.value - mixed.value)
        return replace(
            mixed,
            half_width=max(mixed.half_width, apart + other.half_width),
            baseline_error=max(mixed.baseline_error, apart + other.baseline_error),
        )


def degrees_of(evidence: Evidence) -> float:
    """Degrees of freedom of the noise between estimates."""
    return Candidates(evidence).degrees


def witnesses_of(evidence: Evidence) -> Sequence[str]:
    """Which estimates may contradict the mix."""
    return Candidates(evidence).witnesses()


class _Mixer:
    """The candidates of some evidence, and what becomes of them.

    Args:
      evidence: all estimates.
      least_degrees: of freedom, of a mix of weights alone that is not the answer itself.
    """

    def __init__(self, evidence: Evidence, least_degrees: float = 0.0) -> None:
        self.evidence, self.candidates = evidence, Candidates(evidence)
        self.least_degrees = least_degrees

    def blend(self, level: float) -> Blend:
        evidence, candidates = self.evidence, self.candidates
        mix, parts = self._mix, self._parts
        farthest = max(parts, key=lambda part: part.beyond)
        shared = 0.0 if candidates.by_weights else abs(evidence.shared_bias)
        misfit = 0.0 if candidates.by_weights else evidence.misfit
        contradiction = max(farthest.beyond, shared, misfit)
        half = self._half_width(candidates.variance(mix), contradiction, level)
        other = self._half_width(self._variance_of_gain(mix), contradiction, level)
        if not math.isfinite(half):
            half = other = math.inf
        return Blend(
            float(mix @ evidence.values),
            math.sqrt(max(float(mix @ evidence.covariance @ mix), 0.0)),
            half,
            {name: float(mix[evidence.names.index(name)]) for name in candidates.order},
            contradiction,
            shared,
            farthest.name if self._beyond_noise(mix, farthest.name) > 0.0 else None,
            max(half, other),
            parts,
            misfit,
            evidence.drops,
        )

    @cached_property
    def _mix(self) -> FloatArray:
        candidates = self.candidates
        mix = candidates.unit[candidates.order[0]]
        for name in candidates.order[1:]:
            mix = self._mixed(mix, name)
        return mix

    def _mixed(self, mix: FloatArray, name: str) -> FloatArray:
        """The mix with one more estimate in it."""
        candidates, other = self.candidates, self.candidates.unit[name]
        squared = candidates.squared_bias(mix, name)
        own, theirs = candidates.variance(mix), candidates.variance(other)
        both = float(mix @ candidates.covariance @ other)
        spread = own + theirs - 2.0 * both + squared
        if not spread > SAME * (own + theirs):  # one estimate by two names: rounding would share it out
            return mix
        share = min(max((theirs - both + squared) / spread, 0.0), 1.0)
        return share * mix + (1.0 - share) * other

    def _half_width(self, variance: float, contradiction: float, level: float) -> float:
        unseen = 0.0 if self.candidates.by_weights else UNSEEN * self.evidence.unseen_variance
        return half_width(self._wider() * math.sqrt(variance + unseen), contradiction, level)

    def _variance_of_gain(self, mix: FloatArray) -> float:
        """Of the difference from the mean return, which is never surer than that mean itself.

        Influences take the propensities as known. Where they were counted in the same log, an estimate
        follows the mean return less closely than its influence says.
        """
        mean = self.candidates.unit[BASELINE]
        return max(self.candidates.variance(mix - mean), self.candidates.variance(mean))

    def _wider(self) -> float:
        """By how much Student's t is wider: weights alone are as sure as their effective episodes.

        One episode that carries them all has no noise, and says nothing about the next one.
        """
        if not self.candidates.by_weights:
            return 1.0
        degrees = max(self.candidates.sizes[self.candidates.order[0]] - 1.0, self.least_degrees)
        return quantile(degrees, WIDTH) / WIDTH if degrees > ONE_EPISODE else math.inf

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        """The estimates with their shares, and what the interval allows for their distance from the mix."""
        candidates, values, mix, found = self.candidates, self.evidence.values, self._mix, []
        for name in dict.fromkeys([*candidates.order, *candidates.witnesses()]):
            own = candidates.unit[name]
            beyond = self._beyond_noise(mix, name)
            if name == SECOND_OPINION:
                beyond = abs(float((mix - own) @ values))
            if self._shown_wrong(name):
                beyond *= SHOWN_WRONG
            error = math.sqrt(max(float(own @ self.evidence.covariance @ own), 0.0))
            found.append(Part(name, float(own @ values), error, float(own @ mix), beyond))
        return tuple(found)

    def _beyond_noise(self, mix: FloatArray, name: str) -> float:
        return self.candidates.beyond_noise(mix - self.candidates.unit[name], CONTRADICTING)

    def _shown_wrong(self, name: str) -> bool:
        """Whether this is the model alone, or nearly, and what assumes least shows that it is wrong."""
        candidates = self.candidates
        if candidates.by_weights:
            return False
        nearly = name in ("WDRSIS", CROSS_FITTED[1]) and candidates.nearly_model
        first = candidates.order[0]
        return (name in ("DM", SECOND_OPINION) or nearly) and candidates.is_apart(
            first, name, candidates.degrees
        )


def half_width(std_error: float, bias: float, level: float = 0.95) -> float:
    """Of the interval of a mix: noise on both sides, or a bias and noise on one side, whichever is more.

    >>> round(half_width(1.0, 0.0), 3), round(half_width(1.0, 1.0), 3), half_width(0.0, 1.0)
    (2.5, 3.098, 1.0)
    """
    from scipy.special import ndtri

    both, one = float(ndtri(0.5 + level / 2)), max(float(ndtri(level)), 0.0)
    noise = WIDTH / NORMAL * std_error
    return max(both * noise, one * noise + bias)
