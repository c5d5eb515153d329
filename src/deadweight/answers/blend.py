r"""BLEND: several estimates of one value as one, with an interval that allows for their contradictions.

The estimates go from the one that assumes least to the one that varies least (`ORDER`). Each next one is
mixed in by the share that minimises the error of the mix, where b is its bias:

.. math:: X \leftarrow a X + (1 - a) \theta_j, \qquad
   a = \frac{S_{jj} - S_{Xj} + b^2}{S_{XX} + S_{jj} - 2 S_{Xj} + b^2}

Standard errors from few effective episodes are too small, and the more so where the weights are skewed: the
variance of what weights add to the model is multiplied by 1 + 12 / ESS. An estimate that differs from the
mix, or from any that assumes less, by more than three standard errors is biased by all of the difference.
Once the model itself is found wrong in this way, those that lean on it in part have lost their credit: for
them one and a half standard errors do, and what is beyond counts.

The half-width allows for noise on both sides, or for the contradiction E and noise on one side (a bias goes
one way only), whichever is more:

.. math:: h = \max(2.5 \, s, \; 2.1 \, s + E), \qquad s^2 = \mathrm{Var}(X) + v_u

with v_u for what the model hardly saw. E is the most by which any of the estimates differs from the mix
beyond noise (half of it for what leans on a model that is shown to be wrong), or the bias that those share
which saw their own episodes, as leaving out folds shows. All of the distance counts, noise or not, to
cross-fitted WDR in a sparse log, since it does not share that bias; and to LIN unless it says by itself, by
one standard error, on which side of the mean return the new policy lies: no verdict goes against LIN. A model
that does not fit the log leaves weights alone, and then E is what episodes may hold that the log does not
have: where weights of mean 1 add up to less, that share of the range of returns.

Where a few episodes count for far more than the rest, the mean of a log is too small, and so is its standard
error, whenever one of them is missing. s is then larger on the side where they are missing, by the factor of
the transformation that takes the skewness away (Hall, 1992, On the removal of skewness by transformation):
with skewness g and u = g / sqrt(n)

.. math:: T(z) = \frac3u \left[ \left( 1 + u z - \frac{u^2}{6} \right)^{1/3} - 1 \right]

takes the place of z. This file is arithmetic on what `blend.evidence` collects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.answers.student_t import t_error
from deadweight.estimators.influence import Influence
from deadweight.results.estimate import Blend, Part
from deadweight.typing import FloatArray

CROSS_FITTED = "WDR cross-fitted"
# From the fewest assumptions to the least variance; the first two never stand beside each other.
ORDER = (CROSS_FITTED, "WDR", "LIN", "WIN3", "WIN2", "WIN1", "DM")
# Products of ratios, which need enough effective episodes; the standard error of LIN is right with few.
FULL_WEIGHTS = (CROSS_FITTED, "WDR")
PRODUCTS = (*FULL_WEIGHTS, "WIN3", "WIN2")
# What is left without a model, and where all reward comes last.
BY_STEP, BY_EPISODE = WITHOUT_MODEL = ("WPDIS", "WIS")
# All that weights of whole episodes carry.
WHOLE_WEIGHTS = (*FULL_WEIGHTS, *WITHOUT_MODEL)
BASELINE = "BEHAVIOUR"
# The default's value of the start, where another model has learned from the same features.
SECOND_OPINION = "DM by default"
# Fewer effective episodes than this carry no conclusion.
FEW_EPISODES = 10.0
# Where the mean of whole weights, which should be 1, lacks more than this, decisive episodes are missing.
MOST_LACKING = 0.5
# So many effective episodes have a variance that is twice what it seems.
TWICE = 12.0
# A difference of so many standard errors is bias, and where the model is known to be wrong.
BIASED, SUSPECTED = 3.0, 1.5
# The bias of the model that leaving out folds shows, times this, is the least that in-sample estimates have
# beside cross-fitted WDR: leaving out a fifth shows only part of it.
SHARED = 3.0
# Beyond so many standard errors a difference contradicts.
CONTRADICTING = 1.64
# How much of its contradiction an estimate has left that is shown to be wrong.
SHOWN_WRONG = 0.5
# LIN backs a mix if it lies on the same side of the mean return by so many standard errors.
BACKED = 1.0
# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9
# Two estimates whose difference has no more than this share of their variances are the same.
SAME = 1e-12
# Standard errors of a half-width at 95 %, and of what a normal distribution would have there.
WIDTH, NORMAL = 2.5, 1.959963984540054
# A log is sparse if leaving out a fold, or what the model hardly saw, moves the value by more than these
# shares of a standard error: then everything fitted in-sample may share a bias.
SPARSE_BIAS, SPARSE_UNSEEN = 0.3, 0.7
# Influences that are more skewed than this have intervals of two different sides.
SKEWED = 3.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a blend is made of.

    Attributes:
      names: (k,) of the estimates.
      values: (k,) the estimates.
      covariance: (k, k) of the estimates, from full influences.
      sizes: (k,) effective episodes behind each.
      n: episodes.
      ess: effective sample size of the weights of whole episodes.
      thirds: (k, k, k) means of the products of three influences, each in its standard deviation; None for a
        single episode.
      unseen_variance: of what the model hardly saw.
      shared_bias: of the model, by leaving out folds.
      model: whether the model may be used at all.
      late: all reward comes with the last step of episodes of different lengths.
      lacking: by how much the mean weight of whole episodes is less than 1, beyond one standard error.
      extent: the range of returns.
      row_distance: what the row of weights alone allows for its distance from other estimates.
      left_out: estimates that may not be mixed: nothing says how sure they are.
      influences: (k,) of an episode on each estimate, where the mix is to have one.
      unseen: (S, A) what each pair contributes to the root of that variance.
      rows: (k, n) the influences of all episodes, where a question keeps them.
    """

    names: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    sizes: FloatArray
    n: int
    ess: float
    thirds: FloatArray | None = None
    unseen_variance: float = 0.0
    shared_bias: float = 0.0
    model: bool = True
    late: bool = False
    lacking: float = 0.0
    extent: float = 0.0
    row_distance: float = 0.0
    left_out: tuple[str, ...] = ()
    influences: tuple[Influence, ...] = ()
    unseen: FloatArray | None = None
    rows: FloatArray | None = None

    @property
    def missing(self) -> float:
        """What episodes may hold that the log does not have."""
        return self.lacking * self.extent

    @property
    def order(self) -> list[str]:
        """The estimates that may be mixed, from the one that assumes least."""
        sizes = dict(zip(self.names, self.sizes.tolist(), strict=True))
        few = [name for name in PRODUCTS if name in sizes and sizes[name] < FEW_EPISODES]
        few += FULL_WEIGHTS if self.lacking > MOST_LACKING else ()
        order = [name for name in ORDER if name in sizes and name not in (*self.left_out, *few)]
        if self.model and order:
            return order
        return [BY_EPISODE if self.late else BY_STEP]


class Mixture:
    """The mix of some estimates, at any confidence level; only the widths depend on it.

    Estimates are unit vectors over all names, so that any mix of them has a value and a variance.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.order = evidence, evidence.order
        self.unit = dict(zip(evidence.names, np.eye(len(evidence.names)), strict=True))
        self.covariance = evidence.covariance if self.by_weights else self._widened()

    @property
    def by_weights(self) -> bool:
        """Whether nothing in the mix depends on the model."""
        return self.order[0] in WITHOUT_MODEL

    @property
    def witnesses(self) -> list[str]:
        """Which estimates may contradict the mix."""
        asked = not self.by_weights and SECOND_OPINION in self.unit
        return [*self.order, SECOND_OPINION] if asked else self.order

    def _widened(self) -> FloatArray:
        """The covariance with more noise in what each estimate adds to the model."""
        names = self.evidence.names
        change = np.eye(len(names))
        for place, name in enumerate(names):
            if name not in ("LIN", "DM", SECOND_OPINION, BASELINE):
                change[place, place] = math.sqrt(1.0 + TWICE / max(self.evidence.sizes[place], 1.0))
                change[place, names.index("DM")] = 1.0 - change[place, place]
        widened: FloatArray = change @ self.evidence.covariance @ change.T
        return widened

    def variance(self, mix: FloatArray) -> float:
        """Of a mix, or of a difference."""
        return max(float(mix @ self.covariance @ mix), 0.0)

    def apart(self, difference: FloatArray) -> float:
        """How far two mixes lie from each other; less than rounding is nothing."""
        distance = abs(float(difference @ self.evidence.values))
        rounding = ROUNDING * float(np.abs(difference) @ np.abs(self.evidence.values))
        return distance if distance > rounding else 0.0

    def shows_wrong(self, name: str, other: str) -> bool:
        """Whether two estimates differ so much that one of them must be biased."""
        difference = self.unit[name] - self.unit[other]
        return self.apart(difference) > BIASED * math.sqrt(self.variance(difference))

    @cached_property
    def model_is_wrong(self) -> bool:
        """Whether any estimate shows a bias of the model alone."""
        return self.order[-1] == "DM" and any(self.shows_wrong(name, "DM") for name in self.order[:-1])

    @cached_property
    def mix(self) -> FloatArray:
        """(k,) the shares of all estimates."""
        mix = self.unit[self.order[0]]
        for name in self.order[1:]:
            mix = self._mixed(mix, name)
        return mix

    def _mixed(self, mix: FloatArray, name: str) -> FloatArray:
        """The mix with one more estimate in it."""
        other, squared = self.unit[name], self._squared_bias(mix, name)
        own, theirs = self.variance(mix), self.variance(other)
        both = float(mix @ self.covariance @ other)
        spread = own + theirs - 2.0 * both + squared
        if not spread > SAME * (own + theirs):  # one estimate by two names: rounding would share it out
            return mix
        share = min(max((theirs - both + squared) / spread, 0.0), 1.0)
        return share * mix + (1.0 - share) * other

    def _squared_bias(self, mix: FloatArray, name: str) -> float:
        """Of an estimate, as the mix so far and every estimate before it show."""
        before = [mix, *(self.unit[other] for other in self.order[: self.order.index(name)])]
        squares = [(SHARED * self.evidence.shared_bias) ** 2 if self.order[0] == CROSS_FITTED else 0.0]
        for difference in (self.unit[name] - other for other in before):
            squared, variance = self.apart(difference) ** 2, self.variance(difference)
            if self.model_is_wrong and name != "DM":
                squares.append(squared - SUSPECTED**2 * variance)
            elif squared > BIASED**2 * variance:
                squares.append(squared)
        return max(squares)

    @property
    def std_error(self) -> float:
        """Of the mix, by influences alone."""
        return math.sqrt(max(float(self.mix @ self.evidence.covariance @ self.mix), 0.0))

    @cached_property
    def skewness(self) -> float:
        """Of the influences on the mix; nan where there is no telling."""
        thirds = self.evidence.thirds
        if thirds is None or not self.std_error > 0.0:
            return math.nan
        mix = self.mix * np.sqrt(np.maximum(np.diag(self.evidence.covariance), 0.0)) / self.std_error
        return float(((thirds @ mix) @ mix) @ mix)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether all that was fitted in-sample may share a bias."""
        if self.by_weights:
            return False
        bias, unseen = abs(self.evidence.shared_bias), math.sqrt(self.evidence.unseen_variance)
        return bias > SPARSE_BIAS * self.std_error or unseen > SPARSE_UNSEEN * self.std_error

    @property
    def undetectable(self) -> float:
        """The largest error of the model that the estimate which assumes least would not show."""
        if self.order[0] == "DM":
            return math.inf
        return BIASED * math.sqrt(self.variance(self.unit[self.order[0]] - self.unit["DM"]))

    def beyond_noise(self, name: str) -> float:
        """By how much an estimate differs from the mix beyond noise."""
        difference = self.mix - self.unit[name]
        return max(self.apart(difference) - CONTRADICTING * math.sqrt(self.variance(difference)), 0.0)

    @property
    def is_backed(self) -> bool:
        """Whether LIN says by itself on which side of the mean return the mix lies."""
        linear, mixed = (one - self.unit[BASELINE] for one in (self.unit["LIN"], self.mix))
        distance, side = (float(one @ self.evidence.values) for one in (linear, mixed))
        return bool(np.sign(side) * distance > BACKED * math.sqrt(self.variance(linear)))

    @cached_property
    def compared(self) -> tuple[Part, ...]:
        """The estimates with their shares, and what the interval allows for their distance from the mix."""
        parts = []
        for name in self.witnesses:
            own, beyond = self.unit[name], self.beyond_noise(name)
            # Two models of one log share its noise, and what saw its own episodes shares a bias.
            shares = name == SECOND_OPINION or (name == CROSS_FITTED and self.is_sparse)
            if shares or (name == "LIN" and not self.is_backed):
                beyond = self.apart(self.mix - own)
            of_model = ("DM", SECOND_OPINION)
            leans = name in ((*of_model, "WIN3", "WIN2") if self.order[0] == CROSS_FITTED else of_model)
            if leans and self.shows_wrong(self.order[0], name):
                beyond *= SHOWN_WRONG
            error = math.sqrt(max(float(own @ self.evidence.covariance @ own), 0.0))
            parts.append(Part(name, float(own @ self.evidence.values), error, float(own @ self.mix), beyond))
        return tuple(parts)

    def at(self, level: float) -> Blend:
        """The mix with the widths of this level."""
        evidence, mix, mean = self.evidence, self.mix, self.unit[BASELINE]
        noisy = {name: self.beyond_noise(name) for name in self.witnesses}
        against = max(noisy, key=noisy.__getitem__)
        shared, missing = (0.0, evidence.missing) if self.by_weights else (abs(evidence.shared_bias), 0.0)
        contradiction = max(*(part.beyond for part in self.compared), shared, missing)
        # Influences take the propensities as known. Where they were counted in the same log, an estimate
        # follows the mean return less closely than its influence says: a gain is never surer than that mean.
        of_gain = max(self.variance(mix - mean), self.variance(mean))
        own = self._widths(self.variance(mix), contradiction, level)
        gain = tuple(map(max, own, self._widths(of_gain, contradiction, level)))
        shares = {name: float(self.unit[name] @ mix) for name in self.order}
        return Blend(
            value=float(mix @ evidence.values),
            std_error=self.std_error,
            half_width=min(own),
            shares=shares,
            contradiction=contradiction,
            shared_bias=shared,
            against=against if noisy[against] > 0.0 else None,
            baseline_error=min(gain),
            parts=self.compared,
            missing=missing,
            undetectable=self.undetectable if shares.get("DM", 0.0) > 0.0 else math.nan,
            skewness=self.skewness,
            skewed=_beyond_least(own),
            baseline_skewed=_beyond_least(gain),
        )

    def _widths(self, variance: float, contradiction: float, level: float) -> tuple[float, float]:
        """Half-widths below and above."""
        unseen = 0.0 if self.by_weights else self.evidence.unseen_variance
        error, row = math.sqrt(variance + unseen), 0.0
        if self.by_weights:  # one number has one interval: never surer than its own row
            size = float(self.evidence.sizes[self.evidence.names.index(self.order[0])])
            row = t_error(error, size, level) + max(contradiction, self.evidence.row_distance)
        sides = (1.0, 1.0)
        if abs(self.skewness) > SKEWED:
            sides = skew_factors(self.skewness, self.evidence.n, level)
        below, above = (max(half_width(error * side, contradiction, level), row) for side in sides)
        return below if math.isfinite(below) else math.inf, above if math.isfinite(above) else math.inf


def _beyond_least(widths: tuple[float, ...]) -> tuple[float, float]:
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
    ([1.0, 1.46], 1.0)
    """
    from scipy.special import ndtri

    z, u = float(ndtri(0.5 + level / 2)), skewness / math.sqrt(n)
    above, below = (3.0 / u * (math.cbrt(1.0 + side * u * z - u * u / 6.0) - 1.0) for side in (-1.0, 1.0))
    return max(below / z, 1.0), max(-above / z, 1.0)
