"""Paired timings: the reference right before and right after the candidate, one ratio a round.

Machines are shared and noisy; seconds are not comparable between runs, ratios of neighbours are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Work = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """Quartiles of candidate time over reference time."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{_short(self.median)}x ({_short(self.low)} to {_short(self.high)})"

    def times(self, factor: float) -> Ratio:
        """The same where the reference did 1 / factor of the work that it stands for."""
        return Ratio(self.low * factor, self.median * factor, self.high * factor)

    @property
    def inverse(self) -> Ratio:
        """Reference time over candidate time: how many times faster the candidate is."""
        return Ratio(1 / self.high, 1 / self.median, 1 / self.low)


def _short(number: float) -> str:
    """Three digits, or all that stand before the point."""
    return f"{number:,.{2 if number < 10 else 1 if number < 100 else 0}f}"


def seconds(work: Work) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(candidate: Work, reference: Work, rounds: int = 9, repeats: int = 1) -> Ratio:
    """How many times the reference the candidate takes; both are called once before the first round.

    With `repeats` a round calls the candidate so many times, where it is much shorter than the reference.
    """
    reference(), candidate()
    found = []
    for _ in range(rounds):
        before = seconds(reference)
        mine = seconds(lambda: [candidate() for _ in range(repeats)]) / repeats
        found.append(2 * mine / (before + seconds(reference)))
    return Ratio(*(float(q) for q in np.percentile(found, [25, 50, 75])))
