"""Paired timings: the reference right before and right after the candidate, one ratio a round.

Machines are shared and noisy; seconds are not comparable between runs, ratios of neighbours are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ratio:
    """Quartiles of candidate time over reference time."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f} to {self.high:.2f})"


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ratio(candidate: Callable[[], object], reference: Callable[[], object], rounds: int = 9) -> Ratio:
    """How many times the reference the candidate takes; both are called once before the first round."""
    reference(), candidate()
    found = []
    for _ in range(rounds):
        before, mine, after = seconds(reference), seconds(candidate), seconds(reference)
        found.append(2 * mine / (before + after))
    return Ratio(*(float(q) for q in np.percentile(found, [25, 50, 75])))
