"""Blend: what a mix of several estimates is made of, as data; see `deadweight.blend.mixing`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from deadweight.results.saved import saved


@saved
@dataclass(frozen=True)
class Part:
    """One of the estimates that a mix was made of, or was compared with.

    Attributes:
      name: such as "WDR".
      value: the estimate.
      std_error: its standard error, the noise of its model included; what hardly seen pairs could do is added
        to the mix as a whole.
      share: in the mix; 0 for those that only had a say in its width.
      beyond: what the interval allows for its difference from the mix: as much as is beyond noise, half of
        that for what is shown to be wrong, and all of it for LIN where LIN does not back the mix and for
        cross-fitted WDR in a sparse log.
    """

    name: str
    value: float
    std_error: float
    share: float
    beyond: float


@saved
@dataclass(frozen=True, eq=False)
class Blend:
    """A mix of estimates.

    Attributes:
      value: the estimate.
      std_error: its standard error.
      half_width: of its interval, on its narrower side; infinite where nothing can be said.
      shares: by estimate, summing to 1.
      contradiction: the part of the half-width that is due to estimates which differ, to a bias that they
        share, or to episodes that the log does not have.
      shared_bias: the second of these alone.
      against: the estimate that differs most beyond noise; None where none does.
      baseline_error: half-width of the difference from the mean return that the verdict uses.
      parts: the estimates behind it, from the one that assumes least to the one that varies least, and then
        those that it was only compared with.
      missing: the third of these alone.
      undetectable: the largest error of the model that the log would not have shown; nan where the model
        alone has no share, infinite where nothing checks it.
      skewness: of what each episode does to the mix; nan where there is no telling.
      skewed: by how much the interval is wider below and above than `half_width`.
      baseline_skewed: the same beside `baseline_error`.
    """

    value: float
    std_error: float
    half_width: float
    shares: Mapping[str, float]
    contradiction: float
    shared_bias: float
    against: str | None
    baseline_error: float
    parts: tuple[Part, ...] = ()
    missing: float = 0.0
    undetectable: float = math.nan
    skewness: float = math.nan
    skewed: tuple[float, float] = (0.0, 0.0)
    baseline_skewed: tuple[float, float] = (0.0, 0.0)

    @property
    def half_widths(self) -> tuple[float, float]:
        """Of its interval, below and above."""
        return self.half_width + self.skewed[0], self.half_width + self.skewed[1]

    @property
    def baseline_half_widths(self) -> tuple[float, float]:
        """Of its difference from the mean return, below and above."""
        return self.baseline_error + self.baseline_skewed[0], self.baseline_error + self.baseline_skewed[1]
