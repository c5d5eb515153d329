"""Differences: of several policies from each other and from a baseline, and where they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import freeze_fields
from deadweight.results.saved import saved
from deadweight.results.verdict_data import Verdict
from deadweight.typing import FloatArray

BASELINE = "baseline"
# Differences smaller than this, relative to the values compared, are rounding.
ROUNDING = 1e-9
SAME = "acts-as-logged"
UNSOUND = {
    "trained-on-log": "A policy that was learnt from this log looks better on it than it is: nothing can be "
    "concluded.",
    SAME: "The policy does what the old policy does, with the same probabilities.",
}


@saved
@dataclass(frozen=True)
class StateWorth:
    """A state in which two policies differ.

    Attributes:
      state: its label.
      first, second: the action that each of the two takes most often there, and how often.
      worth: what the difference in this state adds to the difference of the values, by the fitted model.
      visits: of the log.
    """

    state: Any
    first: tuple[Any, float]
    second: tuple[Any, float]
    worth: float
    visits: int


@saved
@dataclass(frozen=True)
class PairStates:
    """Where two policies differ, or one and the baseline.

    Attributes:
      first, second: their names.
      states: what matters most first.
      other_states: how many more there are in which they differ.
      elsewhere: what those add together.
    """

    first: str
    second: str
    states: tuple[StateWorth, ...]
    other_states: int
    elsewhere: float


@saved
@dataclass(frozen=True, eq=False)
class Differences:
    """The differences of all policies from each other and from the baseline.

    Attributes:
      names: (K,) of the policies.
      values: (K,) theirs.
      half_widths: (K, K) of the differences between two of them; all hold together.
      baseline: what they are compared with, in words.
      baseline_value: its value.
      baseline_half_widths: (K, 2) of the differences from it, below and above; all hold together. Earlier
        versions have saved (K,), the same on both sides.
      unsound: of policies of which nothing can be claimed, the flag that says why, or a sentence.
    """

    names: tuple[str, ...]
    values: FloatArray
    half_widths: FloatArray
    baseline: str
    baseline_value: float
    baseline_half_widths: FloatArray
    unsound: Mapping[str, str]

    def __post_init__(self) -> None:
        freeze_fields(self)

    def verdict(self, first: int, second: int | None) -> Verdict:
        """Is a policy better than another, or (None) than the baseline? By their places."""
        value = self.baseline_value if second is None else float(self.values[second])
        half = self.baseline_half_widths[first] if second is None else self.half_widths[first, second]
        below, above = np.broadcast_to(half, 2).tolist()
        own = float(self.values[first])
        difference, slack = own - value, ROUNDING * max(abs(own), abs(value))
        ends = difference - below, difference + above
        words = [self._numbers(first, second, difference, ends)]
        flagged = [self.unsound[name] for name in self._names(first, second) if name in self.unsound]
        answer = "cannot tell"
        if flagged:
            words.append(UNSOUND.get(flagged[0], flagged[0]))
        elif ends[0] > slack or ends[1] < -slack:
            answer = "better" if difference > 0 else "worse"
        else:
            words.append("No difference at all lies within that range.")
        return Verdict(answer, tuple(words), difference, ends, sound=not flagged)

    def _names(self, first: int, second: int | None) -> list[str]:
        if second is None:
            return [self.names[first]]
        # What acts as it was logged can well be compared with other policies.
        both = [self.names[first], self.names[second]]
        return [name for name in both if self.unsound.get(name) != SAME]

    def _numbers(self, first: int, second: int | None, difference: float, ends: tuple[float, float]) -> str:
        against = self.baseline if second is None else self.names[second]
        spread = (
            f"between {ends[0]:+.4g} and {ends[1]:+.4g}"
            if all(map(math.isfinite, ends))
            else "which could be anything"
        )
        return f"{self.names[first]} less {against}: {difference:+.4g} for each episode, {spread}."
