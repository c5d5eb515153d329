"""Candidates: the estimates that BLEND may mix, in their order, and which of them are taken for biased.

They go from the one that assumes least to the one that varies least. Standard errors from few effective
episodes are too small, and the more so where the weights are skewed: so the variance of what the weights add
to the model is multiplied by 1 + 12 / ESS. A candidate that differs from any that assumes less by more than
three standard errors is taken for biased by all of the difference. Once the model itself is found wrong in
this way, those that lean on it in part have lost their credit: for them one and a half standard errors do,
and what is beyond counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.estimators.full_influence import Influence
from deadweight.typing import FloatArray

CROSS_FITTED = "WDR cross-fitted"
# From the fewest assumptions to the least variance; the first two never stand beside each other.
ORDER = (CROSS_FITTED, "WDR", "LIN", "WIN3", "WIN2", "WIN1", "DM")
# Those that weights of whole episodes carry, which need enough effective ones.
FULL_WEIGHTS = (CROSS_FITTED, "WDR")
# What is left without a model, and where all reward comes last.
BY_STEP, BY_EPISODE = "WPDIS", "WIS"
WITHOUT_MODEL = (BY_STEP, BY_EPISODE)
BASELINE = "BEHAVIOUR"
# The default's value of the start, where another model has learned from the same features.
SECOND_OPINION = "DM by default"
# What has no weights.
UNWEIGHTED = ("DM", SECOND_OPINION, BASELINE)
# Fewer effective episodes than this carry no conclusion.
FEW_EPISODES = 10.0
# So many effective episodes have a variance that is twice what it seems.
TWICE = 12.0
# A difference of so many standard errors is bias, and where the model is known to be wrong.
BIASED, SUSPECTED = 3.0, 1.5
# The bias of the model that leaving out folds shows, times this, is the least that in-sample estimates have.
SHARED = 2.0
# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9


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
      thirds: (k, k, k) means of the products of three influences; None for a single episode.
      unseen_variance: of what the model hardly saw.
      shared_bias: of the model, by leaving out folds.
      model: whether the model may be used at all.
      late: all reward comes with the last step of episodes of different lengths.
      missing: (1 - mean weight)+ of whole episodes, times the range of returns.
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
    missing: float = 0.0
    row_distance: float = 0.0
    left_out: tuple[str, ...] = ()
    influences: tuple[Influence, ...] = ()
    unseen: FloatArray | None = None
    rows: FloatArray | None = None

    def size(self, name: str) -> float:
        """Effective episodes behind one of the estimates."""
        return float(self.sizes[self.names.index(name)])


class Candidates:
    """Estimates as unit vectors over all names, so that any mix of them has a value and a variance.

    Args:
      evidence: all estimates.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.unit = dict(zip(evidence.names, np.eye(len(evidence.names)), strict=True))
        self.order = self._order()
        self.covariance = evidence.covariance if self.by_weights else self._widened()

    def _order(self) -> list[str]:
        evidence = self.evidence
        order = [name for name in ORDER if name in self.unit and name not in evidence.left_out]
        if evidence.ess < FEW_EPISODES:
            order = [name for name in order if name not in FULL_WEIGHTS]
        if evidence.model and order:
            return order
        return [BY_EPISODE if evidence.late else BY_STEP]

    @property
    def by_weights(self) -> bool:
        """Whether nothing in the mix depends on the model."""
        return self.order[0] in WITHOUT_MODEL

    @property
    def witnesses(self) -> list[str]:
        """Which estimates may contradict a mix."""
        asked = not self.by_weights and SECOND_OPINION in self.unit
        return [*self.order, SECOND_OPINION] if asked else self.order

    def squared_bias(self, mix: FloatArray, name: str) -> float:
        """Of a candidate, as the mix so far and every candidate before it show."""
        own = self.unit[name]
        before = [self.unit[other] for other in self.order[: self.order.index(name)]]
        least = (SHARED * self.evidence.shared_bias) ** 2 if self.order[0] == CROSS_FITTED else 0.0
        return max(least, *(self._squared_bias(own - other, name) for other in (mix, *before)))

    def _squared_bias(self, difference: FloatArray, name: str) -> float:
        squared, variance = self.apart(difference) ** 2, self.variance(difference)
        if self.model_is_wrong and name != "DM":
            return max(squared - SUSPECTED**2 * variance, 0.0)
        return squared if squared > BIASED**2 * variance else 0.0

    @cached_property
    def model_is_wrong(self) -> bool:
        """Whether any estimate before it shows a bias of the model alone."""
        return self.order[-1] == "DM" and any(self.shows_wrong(name, "DM") for name in self.order[:-1])

    def shows_wrong(self, name: str, other: str) -> bool:
        """Whether two estimates differ so much that one of them must be biased."""
        difference = self.unit[name] - self.unit[other]
        return self.apart(difference) > BIASED * math.sqrt(self.variance(difference))

    def apart(self, difference: FloatArray) -> float:
        """How far two mixes lie from each other; less than rounding is nothing."""
        found = abs(float(difference @ self.evidence.values))
        return found if found > ROUNDING * float(np.abs(difference) @ np.abs(self.evidence.values)) else 0.0

    def beyond_noise(self, difference: FloatArray, errors: float) -> float:
        """How much of a difference is more than so many standard errors."""
        return max(self.apart(difference) - errors * math.sqrt(self.variance(difference)), 0.0)

    def variance(self, mix: FloatArray) -> float:
        """Of a mix, or of a difference."""
        return max(float(mix @ self.covariance @ mix), 0.0)

    @property
    def undetectable(self) -> float:
        """The largest error of the model that the estimate which assumes least would not show."""
        first = self.order[0]
        if first == "DM":
            return math.inf
        return BIASED * math.sqrt(self.variance(self.unit[first] - self.unit["DM"]))

    def _widened(self) -> FloatArray:
        """The covariance with more noise in what each estimate adds to the model."""
        names = self.evidence.names
        change = np.eye(len(names))
        for place, name in enumerate(names):
            if name not in UNWEIGHTED:
                change[place, place] = math.sqrt(1.0 + TWICE / max(self.evidence.sizes[place], 1.0))
                change[place, names.index("DM")] = 1.0 - change[place, place]
        found: FloatArray = change @ self.evidence.covariance @ change.T
        return found
