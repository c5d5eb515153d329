"""Blend: what a mix of several estimates is made of, as data; see `deadweight.blend.mixing`."""

from __future__ import annotations

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
      beyond: what the interval allows for its difference from the mix: as much as is beyond noise, or half of
        that for a model that is shown to be wrong; 0 where noise explains the difference.
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
      half_width: of its interval; infinite where nothing can be said.
      shares: by estimate, summing to 1.
      contradiction: the part of the half-width that is due to estimates which differ, to a bias that they
        share, or to a model that does not fit.
      shared_bias: the latter alone.
      against: the estimate that differs most beyond noise; None where none does.
      baseline_error: half-width of the difference from the mean return that the verdict uses.
      parts: the estimates behind it, from the one that assumes least to the one that varies least, and then
        those that it was only compared with.
      misfit: what a model that is used although it does not fit the log is off by for the behaviour policy.
      drops: whether any logged step was dropped in those that may drop some.
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
    misfit: float = 0.0
    drops: bool = True
