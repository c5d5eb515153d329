"""Blend: what a mix of several estimates is made of, as data; see `deadweight.blend.mixing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deadweight.results.saved import saved


@saved
@dataclass(frozen=True, eq=False)
class Blend:
    """A mix of estimates.

    Attributes:
      value: the estimate.
      std_error: its standard error.
      half_width: of its interval; infinite where nothing can be said.
      shares: by estimate, summing to 1.
      contradiction: the part of the half-width that is due to estimates which differ, or to a bias that they
        share.
      shared_bias: the latter alone.
      against: the estimate that differs most beyond noise; None where none does.
      baseline_error: half-width of the difference from the mean return that the verdict uses.
    """

    value: float
    std_error: float
    half_width: float
    shares: Mapping[str, float]
    contradiction: float
    shared_bias: float
    against: str | None
    baseline_error: float
