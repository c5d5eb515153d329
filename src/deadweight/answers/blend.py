r"""BLEND: several estimates of one value as one, with an interval that allows for their contradictions.

`Mixture` is arithmetic on what `deadweight.answers.candidates` collects, and `blend_estimate` makes a row of
a table of it; docs/headline.md says why. Estimates go from the one that assumes least to the one that varies
least. Each next one is mixed in by the share that minimises the error of the mix, where b is its bias:

.. math:: X \leftarrow a X + (1 - a) \theta_j, \qquad
   a = \frac{S_{jj} - S_{Xj} + b^2}{S_{XX} + S_{jj} - 2 S_{Xj} + b^2}

The variance of what weights add to the model is multiplied by 1 + 12 / ESS, since few effective episodes do
not show what they could. An estimate that differs from the mix, or from any that assumes less, by more than
three standard errors is biased by all of the difference; once the model itself is found wrong in this way,
one and a half do for those that lean on it in part, and what is beyond counts. The half-width allows for
noise on both sides, or for the contradiction E and noise on one side (a bias goes one way only):

.. math:: h = \max(2.5 \, s, \; 2.1 \, s + E), \qquad s^2 = \mathrm{Var}(X) + v_u

with v_u for what the model hardly saw, and E the most of what `Mixture.estimates` allow, of the bias that
leaving out folds shows, and, where weights alone are left, of what episodes may hold that the log lacks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.candidates import (
    BASELINE,
    CANDIDATES,
    CROSS_FITTED,
    SECOND_OPINION,
    WITHOUT_MODEL,
    Candidates,
    checked,
)
from deadweight.answers.intervals import centred_influences, t_error
from deadweight.answers.model_tests import Misfit
from deadweight.answers.plans import Plan, plan_of
from deadweight.answers.rounds import carry_out
from deadweight.answers.trust import confounding_of
from deadweight.errors import EstimationError
from deadweight.estimators.estimator import MODEL
from deadweight.estimators.influence import Influence
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import Question
from deadweight.results.estimate import Blend, Estimate, Interval, Part
from deadweight.results.saved import ABSENT
from deadweight.sums.blocks import Block
from deadweight.tools import thresholds
from deadweight.typing import FloatArray

# Two estimates whose difference has no more than this share of their variances are the same.
SAME = 1e-12
# Standard errors that a normal distribution has at 95 %.
NORMAL = 1.959963984540054


class Mixture:
    """The mix of some candidates, at any confidence level; only the widths depend on it.

    Estimates are unit vectors over all names, so that any mix of them has a value and a variance.
    """

    def __init__(self, candidates: Candidates) -> None:
        self.candidates, self.order = candidates, candidates.order
        self.unit = dict(zip(candidates.names, np.eye(len(candidates.names)), strict=True))
        self.covariance = candidates.covariance if self.by_weights else self._widened()

    @property
    def by_weights(self) -> bool:
        """Whether nothing in the mix depends on the model."""
        return self.order[0] in WITHOUT_MODEL

    @property
    def compared(self) -> list[str]:
        """The estimates that may contradict the mix: its parts, and the default's model beside another."""
        beside = not self.by_weights and SECOND_OPINION in self.unit
        return [*self.order, SECOND_OPINION] if beside else self.order

    def _widened(self) -> FloatArray:
        """The covariance with more noise in what products of ratios add to the model."""
        names, sizes = self.candidates.names, self.candidates.sizes
        change = np.eye(len(names))
        for place, name in enumerate(names):
            if CANDIDATES[name].products:
                change[place, place] = math.sqrt(1.0 + thresholds.TWICE / max(sizes[place], 1.0))
                change[place, names.index("DM")] = 1.0 - change[place, place]
        widened: FloatArray = change @ self.candidates.covariance @ change.T
        return widened

    def variance(self, mix: FloatArray) -> float:
        """Of a mix, or of a difference."""
        return max(float(mix @ self.covariance @ mix), 0.0)

    def apart(self, difference: FloatArray) -> float:
        """How far two mixes lie from each other; less than rounding is nothing."""
        distance = abs(float(difference @ self.candidates.values))
        rounding = thresholds.ROUNDING * float(np.abs(difference) @ np.abs(self.candidates.values))
        return distance if distance > rounding else 0.0

    def shows_wrong(self, name: str, other: str) -> bool:
        """Whether two estimates differ so much that one of them must be biased."""
        difference = self.unit[name] - self.unit[other]
        return self.apart(difference) > thresholds.BIASED * math.sqrt(self.variance(difference))

    @cached_property
    def model_is_wrong(self) -> bool:
        """Whether any estimate shows a bias of the model alone."""
        return self.order[-1] == "DM" and any(self.shows_wrong(name, "DM") for name in self.order[:-1])

    @cached_property
    def mix(self) -> FloatArray:
        """(k,) the shares of all estimates."""
        mix = self.unit[self.order[0]]
        for name in self.order[1:]:
            mix = self._with(mix, name)
        return mix

    def _with(self, mix: FloatArray, name: str) -> FloatArray:
        """The mix with one more estimate in it."""
        added, squared = self.unit[name], self._squared_bias(mix, name)
        of_mix, of_added = self.variance(mix), self.variance(added)
        both = float(mix @ self.covariance @ added)
        spread = of_mix + of_added - 2.0 * both + squared
        if not spread > SAME * (of_mix + of_added):  # one estimate by two names: rounding would share it out
            return mix
        share = min(max((of_added - both + squared) / spread, 0.0), 1.0)
        return share * mix + (1.0 - share) * added

    def _squared_bias(self, mix: FloatArray, name: str) -> float:
        """Of an estimate, as the mix so far and every estimate before it show."""
        before = [mix, *(self.unit[earlier] for earlier in self.order[: self.order.index(name)])]
        squares = [
            (thresholds.SHARED * self.candidates.shared_bias) ** 2 if self.order[0] == CROSS_FITTED else 0.0
        ]
        for difference in (self.unit[name] - earlier for earlier in before):
            squared, variance = self.apart(difference) ** 2, self.variance(difference)
            if self.model_is_wrong and name != "DM":
                squares.append(squared - thresholds.SUSPECTED**2 * variance)
            elif squared > thresholds.BIASED**2 * variance:
                squares.append(squared)
        return max(squares)

    @property
    def std_error(self) -> float:
        """Of the mix, by influences alone."""
        return self._error(self.mix)

    def _error(self, mix: FloatArray) -> float:
        return math.sqrt(max(float(mix @ self.candidates.covariance @ mix), 0.0))

    @cached_property
    def skewness(self) -> float:
        """Of the influences on the mix; nan where there is no telling."""
        thirds = self.candidates.thirds
        if thirds is None or not self.std_error > 0.0:
            return math.nan
        mix = self.mix * np.sqrt(np.maximum(np.diag(self.candidates.covariance), 0.0)) / self.std_error
        return float(((thirds @ mix) @ mix) @ mix)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether all that was fitted in-sample may share a bias."""
        if self.by_weights:
            return False
        bias, unseen = abs(self.candidates.shared_bias), math.sqrt(self.candidates.unseen_variance)
        return (
            bias > thresholds.SPARSE_BIAS * self.std_error
            or unseen > thresholds.SPARSE_UNSEEN * self.std_error
        )

    @property
    def undetectable(self) -> float:
        """The largest error of the model that the estimate which assumes least would not show."""
        if self.order[0] == "DM":
            return math.inf
        return thresholds.BIASED * math.sqrt(self.variance(self.unit[self.order[0]] - self.unit["DM"]))

    def beyond_noise(self, name: str) -> float:
        """By how much an estimate differs from the mix beyond noise."""
        difference = self.mix - self.unit[name]
        return max(
            self.apart(difference) - thresholds.CONTRADICTING * math.sqrt(self.variance(difference)), 0.0
        )

    @property
    def is_backed(self) -> bool:
        """Whether LIN says by itself on which side of the mean return the mix lies."""
        linear, mixed = (vector - self.unit[BASELINE] for vector in (self.unit["LIN"], self.mix))
        distance, side = (float(vector @ self.candidates.values) for vector in (linear, mixed))
        return bool(np.sign(side) * distance > thresholds.BACKED * math.sqrt(self.variance(linear)))

    @cached_property
    def estimates(self) -> tuple[Part, ...]:
        """The estimates with their shares, and what the interval allows for their distance from the mix."""
        return tuple(
            Part(
                name,
                float(self.unit[name] @ self.candidates.values),
                self._error(self.unit[name]),
                float(self.unit[name] @ self.mix),
                self._allowed(name),
            )
            for name in self.compared
        )

    def _allowed(self, name: str) -> float:
        """What the interval allows for the distance of an estimate from the mix."""
        # Two models of one log share its noise, and what saw its own episodes shares a bias.
        shares = name == SECOND_OPINION or (name == CROSS_FITTED and self.is_sparse)
        whole = shares or (name == "LIN" and not self.is_backed)
        beyond = self.apart(self.mix - self.unit[name]) if whole else self.beyond_noise(name)
        leans = CANDIDATES[name].leans
        doubted = leans == "wholly" or (leans == "partly" and self.order[0] == CROSS_FITTED)
        return (
            beyond * thresholds.SHOWN_WRONG if doubted and self.shows_wrong(self.order[0], name) else beyond
        )

    def at(self, level: float) -> Blend:
        """The mix with the widths of this level."""
        candidates, mix, mean = self.candidates, self.mix, self.unit[BASELINE]
        noisy = {name: self.beyond_noise(name) for name in self.compared}
        against = max(noisy, key=noisy.__getitem__)
        shared, missing = (0.0, candidates.missing) if self.by_weights else (abs(candidates.shared_bias), 0.0)
        contradiction = max(*(part.beyond for part in self.estimates), shared, missing)
        # Influences take the propensities as known. Where they were counted in the same log, an estimate
        # follows the mean return less closely than its influence says: a gain is never surer than that mean.
        of_gain = max(self.variance(mix - mean), self.variance(mean))
        widths = self._widths(self.variance(mix), contradiction, level)
        gain = tuple(map(max, widths, self._widths(of_gain, contradiction, level)))
        shares = {name: float(self.unit[name] @ mix) for name in self.order}
        return Blend(
            value=float(mix @ candidates.values),
            std_error=self.std_error,
            half_width=min(widths),
            shares=shares,
            contradiction=contradiction,
            shared_bias=shared,
            against=against if noisy[against] > 0.0 else None,
            baseline_error=min(gain),
            parts=self.estimates,
            missing=missing,
            undetectable=self.undetectable if shares.get("DM", 0.0) > 0.0 else math.nan,
            skewness=self.skewness,
            skewed=_beyond_least(widths),
            baseline_skewed=_beyond_least(gain),
        )

    def _widths(self, variance: float, contradiction: float, level: float) -> tuple[float, float]:
        """Half-widths below and above."""
        candidates = self.candidates
        unseen = 0.0 if self.by_weights else candidates.unseen_variance
        error, row = math.sqrt(variance + unseen), 0.0
        if self.by_weights:  # one number has one interval: never surer than its own row
            size = float(candidates.sizes[candidates.names.index(self.order[0])])
            row = t_error(error, size, level) + max(contradiction, candidates.row_distance)
        skewed = abs(self.skewness) > thresholds.SKEWED
        sides = skew_factors(self.skewness, candidates.n, level) if skewed else (1.0, 1.0)
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

    both, one_sided = float(ndtri(0.5 + level / 2)), max(float(ndtri(level)), 0.0)
    noise = thresholds.WIDTH / NORMAL * std_error
    return max(both * noise, one_sided * noise + bias)


def skew_factors(skewness: float, n: int, level: float = 0.95) -> tuple[float, float]:
    r"""By how much an interval is wider below and above its centre, at least 1.

    Where a few episodes count for far more than the rest, the mean of a log is too small, and so is its
    standard error, whenever one of them is missing. With skewness g and u = g / sqrt(n) the transformation
    that takes the skewness away puts another number in place of z (Hall, 1992, On the removal of skewness by
    transformation):

    .. math:: T(z) = \frac3u \left[ \left( 1 + u z - \frac{u^2}{6} \right)^{1/3} - 1 \right]

    >>> [round(side, 2) for side in skew_factors(6.0, 300)], skew_factors(-6.0, 300)[1]
    ([1.0, 1.46], 1.0)
    """
    from scipy.special import ndtri

    z, u = float(ndtri(0.5 + level / 2)), skewness / math.sqrt(n)
    above, below = (3.0 / u * (math.cbrt(1.0 + side * u * z - u * u / 6.0) - 1.0) for side in (-1.0, 1.0))
    return max(below / z, 1.0), max(-above / z, 1.0)


def check_blend(question: Question, name: str) -> None:
    """Refuse a blend that cannot be made, before any work is done."""
    question.pi_e(name)
    if not question.can_solve_model:
        raise EstimationError(
            f"{name} needs the action values of all {question.horizon:,} steps, and there are too many "
            "states for that.",
            fix="Use WPDIS or WIS, which need no model.",
        )


def blend_estimate(
    answers: Answers,
    plan: Plan,
    gathered: Candidates,
    interval: str | None,
    level: float,
    influence: bool = False,
) -> Estimate:
    """The blend of a question.

    Args:
      answers: sums that are there already are not made again.
      plan: of the blend.
      gathered: the estimates to mix.
      interval: None for none; a blend has one kind only.
      level: confidence level.
      influence: whether that of each episode is wanted.
    """
    question, misfit, confounding = plan.question, _model_check(answers), confounding_of(answers)
    misfits, confounded = misfit is not None and misfit.found, confounding is not None and confounding.found
    lost = misfits or confounded or question.has_mixed_worlds  # one world is what a model is of
    mixture = Mixture(checked(question, answers, gathered, lost))
    blend = mixture.at(level)
    of_mix = partial(_influence, mixture.mix.tolist(), mixture.candidates.influences)
    marks = {
        "model-misfit": misfits,
        "confounded-model": confounded,
        "missing-weight": blend.missing > thresholds.MUCH * blend.half_width,
        "heavy-reward": max(blend.skewed) > thresholds.WORTH_A_WORD * blend.half_width,
        "contradicted": blend.against is not None,
    }
    return Estimate(
        about=plan.estimator.about,
        value=blend.value,
        n_episodes=question.n,
        level=level,
        bounds=None if interval is None else _bounds(blend),
        ess=None,
        flags=tuple(flag for flag, holds in marks.items() if holds),
        model_check=misfit,
        blend=blend,
        std_error=blend.std_error,
        bias=0.0,
        ess_steps=None,
        influence=centred_influences(question, of_mix) if influence else ABSENT,
    )


def _influence(mix: list[float], influences: Sequence[Influence], block: Block) -> FloatArray:
    """(m,) of a block's episodes on the mix, with its shares as they are."""
    parts = ((share, influence) for share, influence in zip(mix, influences, strict=True) if share)
    return sum((share * influence(block) for share, influence in parts), start=np.zeros(block.n))


def _model_check(answers: Answers) -> Misfit | None:
    """The check of the model, made before or now."""
    model_alone = plan_of(answers.question, MODEL.variant(), NOTHING_DROPPED)
    known = answers.misfit(model_alone)
    if known is not None:
        return known
    checks = Answers(answers.question, [model_alone])
    carry_out(answers.question, checks.std_errors())
    return checks.misfit(model_alone)


def _bounds(blend: Blend) -> Interval:
    below, above = blend.half_widths
    return Interval(
        blend.value - below,
        blend.value + above,
        blend.half_width - (allowed := blend.contradiction if math.isfinite(blend.half_width) else 0.0),
        allowed,
        kind="blend",
        covers="V(pi_e)",
        centre=blend.value,
        std_error=blend.std_error,
        disagreement=blend.contradiction,
    )
