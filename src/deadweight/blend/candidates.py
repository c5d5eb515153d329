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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deadweight.estimators.full_influence import Influence
from deadweight.typing import FloatArray

# From the fewest assumptions to the least variance.
ORDER = ("WDR", "WDRSIS", "WIN3", "WIN2", "WIN1", "DM")
# Those that are right whatever the model says, if only there are weights enough.
BY_WEIGHTS = ("WDR", "WPDIS", "WIS")
# Those that a model which contradicts the log leaves.
WITHOUT_MODEL = ("WPDIS", "WIS")
# The one of them that is left where all reward comes last.
WHOLE_EPISODES = "WIS"
CROSS_FITTED = ("WDR cross-fitted", "WDRSIS cross-fitted")
BASELINE = "BEHAVIOUR"
# The default's value of the start, where another model has learned from the same features.
SECOND_OPINION = "DM by default"
# Fewer effective episodes than this carry no conclusion.
FEW_EPISODES = 10.0
# A share of effective episodes from which on nothing is left of the weights.
ALL_DROPPED = 0.95
# So many effective episodes have a variance that is twice what it seems.
TWICE = 12.0
# A difference of so many standard errors is bias, and where the model is known to be wrong.
BIASED, SUSPECTED = 3.0, 1.5
# A misfit of less than this share of the standard error of weights alone is the lesser evil.
BEARABLE = 0.5
# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9
# What rests on the model, whatever weights it has.
OF_MODEL = ("DM", "WDRSIS", "WIN3", "WIN2")


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
      misfit: by how much a model that does not fit the log is off for the behaviour policy; else 0.
      weights_only: the estimate with full weights goes without the model, which is of no use to it.
      left_out: estimates that may not be mixed: nothing says how sure they are.
      useless: a fitted model says nothing about episodes that it has not seen.
      heard: whether those may contradict the mix all the same.
      drops: whether any logged step is dropped in those that may drop some.
      late: all reward comes with the last step of episodes of different lengths.
      some_cut: the log says of some episodes that they were cut.
      influences: (k,) of an episode on each estimate, where the mix is to have one.
      unseen: (S, A) what each pair contributes to the root of that variance.
      rows: (k, n) the influences of all episodes, where a question keeps them.
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
    misfit: float = 0.0
    weights_only: bool = False
    left_out: tuple[str, ...] = ()
    useless: bool = False
    heard: bool = False
    drops: bool = True
    late: bool = False
    some_cut: bool = False
    influences: tuple[Influence, ...] = ()
    unseen: FloatArray | None = None
    rows: FloatArray | None = None


class Candidates:
    """Estimates as unit vectors over all names, so that any mix of them has a value and a variance.

    Args:
      evidence: all estimates.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.unit = dict(zip(evidence.names, np.eye(len(evidence.names)), strict=True))
        self.enough = evidence.ess >= FEW_EPISODES
        self.sizes = {name: _size(evidence, name) for name in evidence.names}
        self.order = self._order()
        self.covariance = evidence.covariance if self.by_weights else self._widened()
        self.degrees = self._degrees(self.order[0])
        self.model_is_wrong = self._model_is_wrong()

    def _order(self) -> list[str]:
        evidence = self.evidence
        no_use = evidence.weights_only and not self._allowed(ORDER[1:])
        if not evidence.model or no_use:
            return self._without_model()
        order = self._allowed(ORDER)  # without labels there are no windows
        if evidence.weights_only:
            order[0] = WHOLE_EPISODES if evidence.late else "WPDIS"
        if evidence.ess_dropped > ALL_DROPPED * evidence.n:
            # Without any ratio left it is the model once more, and no check of it.
            order = [name for name in order if name != "WDRSIS"]
        elif "WIN3" in order and "WDRSIS" in order and self.nearly_model:
            order.remove("WDRSIS")
            order.insert(order.index("WIN2") + 1, "WDRSIS")
        return order if self.enough else order[1:] or order

    def _allowed(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.unit and name not in self.evidence.left_out]

    @property
    def by_weights(self) -> bool:
        """Whether nothing in the mix depends on whether the model is right."""
        return all(name in BY_WEIGHTS for name in self.order)

    def _without_model(self) -> list[str]:
        """Weights alone; and WDR, which is right with any model, where even this one takes noise away.

        Not where the log says of no episode that it was cut: then its ends are what the model is wrong about.
        """
        if self.evidence.late:
            return [WHOLE_EPISODES]
        robust = CROSS_FITTED[0] if CROSS_FITTED[0] in self.unit else "WDR"
        if not self.evidence.some_cut or self.evidence.weights_only or not self.enough:
            return [*WITHOUT_MODEL]
        variances = dict(zip(self.evidence.names, np.diag(self.evidence.covariance), strict=True))
        helps = variances[robust] < variances["WPDIS"]
        return ["WDR", *WITHOUT_MODEL] if helps else [*WITHOUT_MODEL]

    @property
    def nearly_model(self) -> bool:
        """Whether WDRSIS keeps less of the weights than a window of three steps does."""
        return self.evidence.ess_dropped > self.evidence.ess_windowed

    def witnesses(self) -> Sequence[str]:
        """Which estimates may contradict a mix."""
        heard = self.evidence.model and self.evidence.heard
        if self.by_weights and not heard:
            return self.order
        names = (*ORDER, *CROSS_FITTED, SECOND_OPINION)
        known = [name for name in names if name in self.unit] if heard else self._allowed(names)
        return known if self.enough else [name for name in known if name not in ("WDR", CROSS_FITTED[0])]

    def squared_bias(self, mix: FloatArray, name: str) -> float:
        """Of a candidate, as the mix so far and every candidate before it show."""
        own = self.unit[name]
        found = self._squared_bias(own - mix, self.degrees, name)
        for before in self.order[: self.order.index(name)]:
            degrees = self._degrees(before, name)
            found = max(found, self._squared_bias(own - self.unit[before], degrees, name))
        return found

    def _squared_bias(self, difference: FloatArray, degrees: float, name: str) -> float:
        squared = float(difference @ self.evidence.values) ** 2
        if self.model_is_wrong and name != "DM":
            return max(squared - self._noise(difference, SUSPECTED, degrees) ** 2, 0.0)
        return squared if squared > self._noise(difference, BIASED, degrees) ** 2 else 0.0

    def _model_is_wrong(self) -> bool:
        """Whether any estimate before it shows a bias of the model alone."""
        return self.order[-1] == "DM" and any(
            self.is_apart(name, "DM", self._degrees(name)) for name in self.order[:-1]
        )

    def is_apart(self, name: str, other: str, degrees: float) -> bool:
        """Whether two estimates differ so much that one of them must be biased."""
        difference = self.unit[name] - self.unit[other]
        return abs(float(difference @ self.evidence.values)) > self._noise(difference, BIASED, degrees)

    def beyond_noise(self, difference: FloatArray, errors: float) -> float:
        """How much of a difference is more than so many standard errors, and than rounding."""
        found = abs(float(difference @ self.evidence.values))
        rounding = ROUNDING * float(np.abs(difference) @ np.abs(self.evidence.values))
        beyond = found - self._noise(difference, errors, self.degrees)
        return beyond if beyond > rounding else 0.0

    def variance(self, mix: FloatArray) -> float:
        """Of a mix, or of a difference."""
        return max(float(mix @ self.covariance @ mix), 0.0)

    def _noise(self, difference: FloatArray, errors: float, degrees: float) -> float:
        return quantile(degrees, errors) * math.sqrt(self.variance(difference))

    def _degrees(self, *names: str) -> float:
        return max(min(self.sizes[name] for name in names) - 1.0, 1.0)

    def _widened(self) -> FloatArray:
        """The covariance with more noise in what each estimate adds to the model."""
        names = self.evidence.names
        change = np.eye(len(names))
        for place, name in enumerate(names):
            if name not in ("DM", SECOND_OPINION, BASELINE):
                change[place, place] = math.sqrt(1.0 + TWICE / max(self.sizes[name], 1.0))
                change[place, names.index("DM")] = 1.0 - change[place, place]
        found: FloatArray = change @ self.evidence.covariance @ change.T
        return found


def is_bearable(evidence: Evidence, misfit: float) -> bool:
    """Whether a fitted table that is off by `misfit` for the behaviour policy is better than none.

    A long log shows the smallest misfit, and weights alone may leave far more open than that.
    """
    if evidence.heard or "WIN3" not in evidence.names:  # values that were given, or of rows
        return False
    alone = evidence.names.index(WHOLE_EPISODES if evidence.late else "WPDIS")
    return misfit < BEARABLE * math.sqrt(float(evidence.covariance[alone, alone]))


@lru_cache(maxsize=1024)
def quantile(degrees: float, errors: float) -> float:
    """Of Student's t, where a normal distribution has so many standard errors.

    >>> round(quantile(1e9, 2.5), 6), round(quantile(9.0, 2.5), 2)
    (2.5, 3.11)
    """
    from scipy.special import ndtr, stdtrit

    return float(stdtrit(degrees, float(ndtr(errors))))


def _size(evidence: Evidence, name: str) -> float:
    """How many effective episodes an estimate has."""
    if name in ("WIN1", "DM", SECOND_OPINION, BASELINE):
        return float(evidence.n)
    if not evidence.model:
        return evidence.ess
    if name.startswith("WDRSIS"):
        return evidence.ess_dropped
    return evidence.ess_windowed if name.startswith("WIN") else evidence.ess
