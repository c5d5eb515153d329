r"""BLEND: several estimates of one value as one, with an interval that allows for their contradictions.

The estimates go from the one that assumes least to the one that varies least: doubly robust with full weights
and models of other episodes, with weights to first order (LIN), with windows of three and of two ratios, and
the model alone. Each next one is mixed in by the share that minimises the error of the mix, where b is its
bias as `blend.candidates` sees it:

.. math:: X \leftarrow a X + (1 - a) \theta_j, \qquad
   a = \frac{S_{jj} - S_{Xj} + b^2}{S_{XX} + S_{jj} - 2 S_{Xj} + b^2}

The half-width allows for noise on both sides, or for the contradiction E and noise on one side (a bias goes
one way only), whichever is more:

.. math:: h = \max(2.5 \, s, \; 2.1 \, s + E), \qquad s^2 = \mathrm{Var}(X) + v_u

with v_u for what the model hardly saw. E is the most by which any of the estimates differs from the mix
beyond noise (half of it for a model that is shown to be wrong), or the bias that all of them share in a
sparse log, as leaving out folds of it shows. A model that does not fit the log leaves weights alone, and then
E is what episodes may hold that the log does not have: where weights of mean 1 add up to less, that share of
the range of returns.

Where a few episodes count for far more than the rest, the mean of a log is too small, and so is its standard
error, whenever one of them is missing. s is then larger on the side where they are missing, by the factor of
the transformation that takes the skewness away (Hall, 1992, On the removal of skewness by transformation):
with skewness g and u = g / sqrt(n)

.. math:: T(z) = \frac3u \left[ \left( 1 + u z - \frac{u^2}{6} \right)^{1/3} - 1 \right]

takes the place of z. This file is arithmetic on what `blend.evidence` collects.
"""

from __future__ import annotations

import math
from functools import cached_property

from deadweight.blend.candidates import BASELINE, SECOND_OPINION, Candidates, Evidence
from deadweight.inference.student_t import t_error
from deadweight.results.blend import Blend, Part
from deadweight.typing import FloatArray

# Beyond so many standard errors a difference contradicts.
CONTRADICTING = 1.64
# How much of its contradiction a model has left that is shown to be wrong.
SHOWN_WRONG = 0.5
# Two estimates whose difference has no more than this share of their variances are the same.
SAME = 1e-12
# Standard errors of a half-width at 95 %, and of what a normal distribution would have there.
WIDTH, NORMAL = 2.5, 1.959963984540054
# Influences that are more skewed than this have intervals of two different sides.
SKEWED = 3.0


class Mixture:
    """The mix of some estimates, at any confidence level; only the widths depend on it."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.candidates = evidence, Candidates(evidence)

    def at(self, level: float) -> Blend:
        """The mix with the widths of this level."""
        evidence, candidates, mix = self.evidence, self.candidates, self.mix
        farthest = max(self._parts, key=lambda part: part.beyond)
        apart = candidates.beyond_noise(mix - candidates.unit[farthest.name], CONTRADICTING)
        shared = 0.0 if candidates.by_weights else abs(evidence.shared_bias)
        missing = evidence.missing if candidates.by_weights else 0.0
        contradiction = max(farthest.beyond, shared, missing)
        own, gain = (self._widths(variance, contradiction, level) for variance in self._variances)
        of_gain = max(own[0], gain[0]), max(own[1], gain[1])
        shares = {name: float(mix[evidence.names.index(name)]) for name in candidates.order}
        return Blend(
            float(mix @ evidence.values),
            math.sqrt(max(float(mix @ evidence.covariance @ mix), 0.0)),
            min(own),
            shares,
            contradiction,
            shared,
            farthest.name if apart > 0.0 else None,
            min(of_gain),
            self._parts,
            missing,
            candidates.undetectable if shares.get("DM", 0.0) > 0.0 else math.nan,
            self.skewness,
            _beyond(own),
            _beyond(of_gain),
        )

    @cached_property
    def mix(self) -> FloatArray:
        """(k,) the shares of all estimates."""
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

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """Of the mix, and of its difference from the mean return.

        That is never surer than the mean itself: influences take the propensities as known. Where they were
        counted in the same log, an estimate follows the mean return less closely than its influence says.
        """
        candidates, mean = self.candidates, self.candidates.unit[BASELINE]
        unseen = 0.0 if candidates.by_weights else self.evidence.unseen_variance
        gain = max(candidates.variance(self.mix - mean), candidates.variance(mean))
        return candidates.variance(self.mix) + unseen, gain + unseen

    def _widths(self, variance: float, contradiction: float, level: float) -> tuple[float, float]:
        """Half-widths below and above."""
        error = math.sqrt(variance)
        found = [half_width(error * side, contradiction, level) for side in self._sides(level)]
        if self.candidates.by_weights:  # one number has one interval: never surer than its own row
            size = self.evidence.size(self.candidates.order[0])
            row = t_error(error, size, level) + max(contradiction, self.evidence.row_distance)
            found = [max(width, row) for width in found]
        below, above = (width if math.isfinite(width) else math.inf for width in found)
        return below, above

    def _sides(self, level: float) -> tuple[float, float]:
        """By how much skewed influences make s larger, below and above."""
        if not abs(self.skewness) > SKEWED:
            return 1.0, 1.0
        return skew_factors(self.skewness, self.evidence.n, level)

    @cached_property
    def skewness(self) -> float:
        """Of the influences on the mix; nan where there is no telling."""
        thirds, mix = self.evidence.thirds, self.mix
        if thirds is None:
            return math.nan
        variance = float(mix @ self.evidence.covariance @ mix) * (self.evidence.n - 1)
        third = float(((thirds @ mix) @ mix) @ mix)
        return third / variance**1.5 if variance > 0.0 else math.nan

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        """The estimates with their shares, and what the interval allows for their distance from the mix."""
        candidates, values, found = self.candidates, self.evidence.values, []
        for name in candidates.witnesses:
            own = candidates.unit[name]
            beyond = candidates.beyond_noise(self.mix - own, CONTRADICTING)
            if name == SECOND_OPINION:  # two models of one log share its noise
                beyond = candidates.apart(self.mix - own)
            if name in ("DM", SECOND_OPINION) and candidates.shows_wrong(candidates.order[0], name):
                beyond *= SHOWN_WRONG
            error = math.sqrt(max(float(own @ self.evidence.covariance @ own), 0.0))
            found.append(Part(name, float(own @ values), error, float(own @ self.mix), beyond))
        return tuple(found)


def _beyond(widths: tuple[float, float]) -> tuple[float, float]:
    """By how much each is more than the smaller one."""
    least = min(widths)
    return (0.0, 0.0) if math.isinf(least) else (widths[0] - least, widths[1] - least)


def half_width(std_error: float, bias: float, level: float = 0.95) -> float:
    """Of the interval of a mix: noise on both sides, or a bias and noise on one side, whichever is more.

    >>> round(half_width(1.0, 0.0), 3), round(half_width(1.0, 1.0), 3), half_width(0.0, 1.0)
    (2.5, 3.098, 1.0)
    """
    from scipy.special import ndtri

    both, one = float(ndtri(0.5 + level / 2)), max(float(ndtri(level)), 0.0)
    noise = WIDTH / NORMAL * std_error
    return max(both * noise, one * noise + bias)


def skew_factors(skewness: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """By how much an interval is wider below and above its centre, at least 1 (Hall, 1992).

    >>> [round(side, 2) for side in skew_factors(6.0, 300)], skew_factors(-6.0, 300)[1]
    ([1.0, 1.27], 1.0)
    """
    from scipy.special import ndtri

    z, u = float(ndtri(0.5 + level / 2)), skewness / math.sqrt(n)
    above, below = (3.0 / u * (math.cbrt(1.0 + side * u * z - u * u / 6.0) - 1.0) for side in (-1.0, 1.0))
    return max(below / z, 1.0), max(-above / z, 1.0)
