"""The arguments of a comparison, refused before any work where they cannot be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from deadweight.comparing.simultaneous import Draws
from deadweight.errors import OptionError, did_you_mean
from deadweight.question.asking import Policy
from deadweight.results.differences import BASELINE


def checked_policies(policies: Any, baseline: Any) -> dict[str, Policy]:
    """The policies by name; the baseline is checked with them."""
    if not isinstance(policies, Mapping):
        raise OptionError(
            f"policies must be a mapping of names to policies; found {type(policies).__name__}.",
            fix='For example {"old rule": pi_a, "new rule": pi_b}.',
        )
    given = dict(policies)
    if len(given) < 2:
        raise OptionError(
            f"A comparison needs two policies or more; found {len(given)}.",
            fix="For one policy use deadweight.evaluate, which compares it with the old policy.",
        )
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise OptionError(f"Names of policies must be text; found {name!r}.", fix="Give each one a name.")
        if name == BASELINE:
            raise OptionError(f"No policy may be called {BASELINE!r}.", fix="Choose another name.")
    if isinstance(baseline, str) and baseline not in given:
        raise OptionError(
            f"baseline={baseline!r} is none of the policies.{did_you_mean(baseline, given)}",
            fix=f"Policies: {', '.join(given)}. None compares with the old policy.",
        )
    if is_number(baseline) and not math.isfinite(float(baseline)):
        raise OptionError(
            f"baseline must be a finite number; found {baseline}.",
            fix="For example baseline=0.75, or baseline=None for the old policy.",
        )
    return given


def is_number(baseline: Any) -> bool:
    """Whether a baseline is a value to beat, and no policy."""
    return isinstance(baseline, Real) or getattr(baseline, "ndim", None) == 0


def checked_draws(level: float, resamples: Any, seed: Any) -> Draws:
    """How noise is to be simulated."""
    for name, value, least in (("resamples", resamples, 100), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OptionError(
                f"{name} must be a whole number of at least {least}; found {value!r}.",
                fix="For example resamples=1000, seed=0.",
            )
    return Draws(level, resamples, seed)
