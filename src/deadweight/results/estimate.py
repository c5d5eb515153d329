"""Estimate: a number with what is needed to trust it.

The standard error of a self-normalised estimate takes a second pass over the log, with the final
denominators. It is made when first asked for; `interval=None` therefore costs one pass only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.drops import Drop
from deadweight.estimators.names import recipe
from deadweight.typing import FloatArray

FLAGS = {
    "zero-weights": "All weights were zero in at least one normaliser, which counts as 0: the log hardly "
    "ever does what the evaluation policy would do.",
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide the "
    "estimate.",
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, tell the "
    "evaluation policy from the behaviour policy.",
    "none-dropped": "No logged step is dropped: the estimate is the plain estimator.",
    "truncated": "Some episodes were cut before they ended: returns count only what was logged.",
    "no-support": "The evaluation policy takes actions in visited states where the behaviour policy never "
    "does: their effect cannot be seen in this log.",
    "unchecked": "The interval could not be checked against a model, which takes the evaluation policy's "
    "probabilities of all actions and not too many states: it may be too narrow.",
    "model-misfit": "The fitted model does not give back the mean return of the log itself, by more than "
    "chance: what rests on the model is not to be trusted.",
    "model-unsettled": "In the fitted model the evaluation policy may go on for ever: the model is solved "
    "over the steps of the longest episode instead.",
    "overflow": "The product of ratios left the range of floating-point numbers: use a self-normalised (W) "
    "estimator.",
}

# Where a flag means something else for some estimators.
OF_CORRECTED = {
    "all-dropped": "Nearly every logged step is dropped: how the evaluation policy differs from the "
    "behaviour policy is told by the model, hardly by the weights.",
}
OF_DOUBLY_ROBUST = {
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide how the "
    "model's value is corrected.",
}
OF_PRODUCTS = {
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, keep the "
    "estimate from being the naive average return.",
}


def remark(flag: str, name: str) -> str:
    """What a flag says about this estimator.

    >>> remark("none-dropped", "WSIS")
    'No logged step is dropped: the estimate is the plain estimator.'
    """
    made = recipe(name)
    said = FLAGS[flag]
    if made.product:
        said = OF_PRODUCTS.get(flag, said)
    if made.corrected or made.contains_correction:
        said = OF_CORRECTED.get(flag, said)
    return OF_DOUBLY_ROBUST.get(flag, said) if made.contains_correction else said


def remarks(named: Iterable[tuple[str, Iterable[str]]]) -> list[tuple[str, list[str], str]]:
    """Flag, estimators and sentence, of estimators with their flags: one entry for each different sentence.

    >>> [(flag, names) for flag, names, _ in remarks([("WIS", ["low-ess"]), ("IS", ["low-ess"])])]
    [('low-ess', ['WIS', 'IS'])]
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, flags in named:
        for flag in flags:
            found.setdefault((flag, remark(flag, name)), []).append(name)
    order = list(FLAGS)
    ranked = sorted(found.items(), key=lambda entry: order.index(entry[0][0]))
    return [(flag, names, said) for (flag, said), names in ranked]


@dataclass(frozen=True)
class Interval:
    """A confidence interval and the two parts of its half-width."""

    lower: float
    upper: float
    sampling_error: float
    bias_allowance: float


def finite(number: float | None) -> float | None:
    """The number as JSON can hold it: infinity and NaN are null."""
    return float(number) if number is not None and np.isfinite(number) else None


class Estimate:
    """An estimate of the value of the evaluation policy.

    Attributes:
      name: the estimator.
      value: the estimate; for `C-` names the corrected one.
      ess: Kish effective sample size of the final kept weights; None for estimators without products.
      dropped: labels of the dropped states.
      dropped_share: share of the logged steps whose ratio was dropped.
      flags: codes of what a reader must know; `explain()` says them in words.
      n_episodes: size of the log.
      level: confidence level of the interval.
      details: by-products, such as the windows that INCRIS chose.

    Example:
      >>> import deadweight as dw
      >>> log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
      >>> est = dw.estimate("WIS", log, [[0.25, 0.75]], [[0.5, 0.5]])
      >>> est.value, round(est.ess, 6), est.flags
      (2.5, 1.6, ('low-ess',))
      >>> print(est.explain())
      Fewer than ten effective episodes carry the weights: a handful of episodes decide the estimate.
    """

    def __init__(
        self,
        name: str,
        value: float,
        *,
        n_episodes: int,
        std_error: Callable[[], float],
        make_interval: Callable[[Estimate], Interval] | None,
        level: float,
        ess: float | None,
        ess_steps: Callable[[], FloatArray | None],
        bias: Callable[[], float | None],
        drop: Drop,
        dropped_share: float,
        flags: tuple[str, ...],
        details: dict[str, Any],
        influence: Callable[[], FloatArray] | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.n_episodes = n_episodes
        self.level = level
        self.ess = ess
        self._bias = bias
        self.drop = drop
        self.dropped: list[Any] = [] if drop.states is None else drop.states.states
        self.dropped_share = dropped_share
        self.flags = flags
        self.details = details
        self._std_error = std_error
        self._make_interval = make_interval
        self._ess_steps = ess_steps
        self._influence = influence

    @cached_property
    def std_error(self) -> float:
        """Standard error from influence functions, ddof 1."""
        return self._std_error()

    @cached_property
    def bias(self) -> float | None:
        """Estimated bias of the uncorrected estimate, V(mu_D) - V(pi_e); None if it cannot be estimated."""
        return self._bias()

    @cached_property
    def ess_steps(self) -> FloatArray | None:
        """(T,) effective sample size at each step; None for estimators without products."""
        return self._ess_steps()

    @cached_property
    def _interval(self) -> Interval | None:
        return None if self._make_interval is None else self._make_interval(self)

    @property
    def interval(self) -> tuple[float, float] | None:
        """(lower, upper), or None when none was asked for."""
        return None if self._interval is None else (self._interval.lower, self._interval.upper)

    @property
    def sampling_error(self) -> float | None:
        """Half-width of the interval due to sampling."""
        return None if self._interval is None else self._interval.sampling_error

    @property
    def bias_allowance(self) -> float | None:
        """Half-width of the interval due to bias: of the drop, and of weights or model where they differ."""
        return None if self._interval is None else self._interval.bias_allowance

    @property
    def interval_kind(self) -> str | None:
        """Which kind of interval was made; None when none was."""
        _ = self._interval
        kind: str | None = self.details.get("interval", {}).get("kind")
        return kind

    @property
    def centre(self) -> float:
        """The best single number: the corrected value where the interval is centred on it, else the value."""
        _ = self._interval
        return float(self.details.get("interval", {}).get("centre", self.value))

    @cached_property
    def influence(self) -> FloatArray | None:
        """(n,) centred influence of each episode on the centre; None where none is known."""
        return None if self._influence is None else self._influence()

    def settle(self) -> Estimate:
        """Compute what is computed on demand, so that the log may be let go."""
        _ = self.std_error, self.bias, self.interval
        return self

    def explain(self) -> str:
        """The flags in words, one a line."""
        return "\n".join(remark(flag, self.name) for flag in self.flags) or "Nothing to remark."

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "value": finite(self.value),
            "std_error": finite(self.std_error),
            "interval": None if self.interval is None else [finite(end) for end in self.interval],
            "ess": self.ess,
            "bias": finite(self.bias),
            "dropped": self.dropped,
            "flags": list(self.flags),
        }

    def __repr__(self) -> str:
        text = f"{self.name} = {self.value:.6g}"
        if self._make_interval is not None and self.interval is not None:
            text += f", {self.level:.0%} interval [{self.interval[0]:.6g}, {self.interval[1]:.6g}]"
        if self.ess is not None:
            text += f", ESS {self.ess:.1f} of {self.n_episodes}"
        if self.flags:
            text += f" ({', '.join(self.flags)})"
        return f"Estimate({text})"
