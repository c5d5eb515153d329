"""Scales: from values to places in a drawing, with round tick marks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A linear map of [low, high] to [start, end]; values outside are put on the border.

    >>> scale = Scale(0.0, 10.0, 100.0, 200.0)
    >>> scale(2.5), scale(99.0), scale.ticks()
    (125.0, 200.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value."""
        if math.isnan(value):
            return self.start
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether the value lies within the drawing."""
        return self.low <= value <= self.high

    @property
    def step(self) -> float:
        """Distance of the tick marks: 1, 2 or 5 times a power of ten."""
        rough = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(rough))
        return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)

    def ticks(self) -> list[float]:
        """Round values within the scale, four to six of them as a rule."""
        step = self.step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def text(self, tick: float) -> str:
        """A tick as text, with no more digits than the step needs."""
        decimals = max(0, decimals_below(self.step))
        if decimals > 6 or abs(tick) >= 1e7:
            largest = math.floor(math.log10(max(abs(self.low), abs(self.high))))
            return f"{tick:.{max(1, largest + decimals_below(self.step) + 1)}g}".replace("-", "−")
        return f"{tick + 0.0:,.{decimals}f}".replace("-", "−")


def decimals_below(step: float) -> int:
    """Decimals that tell multiples of a step apart; negative for steps of tens and more."""
    return -math.floor(math.log10(step) + 1e-9)


def spanning(values: Iterable[float], start: float, end: float, room: float = 0.06) -> Scale:
    """A scale that holds all finite values with some room around them."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    # Values that are all alike still need a scale around them.
    alike = max(1e-9 * max(abs(low), abs(high)), 1e-300)  # below it a logarithm of the width has no meaning
    width = high - low if high - low > alike else max(abs(low), 1.0)
    return Scale(low - room * width, high + room * width, start, end)


def without_outliers(core: Iterable[float], ends: Iterable[float], most: float = 2.5) -> list[float]:
    """The core values, and those ends that do not blow their range up more than `most` times.

    One hopeless interval would otherwise press all others into a dot.
    """
    kept = [value for value in core if math.isfinite(value)] or [0.0]
    low, high = min(kept), max(kept)
    width = max(high - low, 1e-9 * max(abs(low), abs(high)))
    return kept + [end for end in ends if low - most * width <= end <= high + most * width]
