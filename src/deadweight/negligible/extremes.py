"""Coverage: how much of a log a drop set touches, and a warning when that is nearly all of it or nothing.

A set that covers nearly every logged step turns any estimator into the naive average of the returns; one that
covers none leaves the plain estimator. Neither is wrong, but nobody should come to it unawares.
"""

from __future__ import annotations

import warnings

from deadweight.answers.plans import NEARLY_ALL
from deadweight.log.state_sets import StateSet
from deadweight.typing import FloatArray


class DropWarning(UserWarning):
    """A drop set that covers nearly all logged steps, or none of them.

    Example:
      >>> import deadweight as dw
      >>> lift = dw.domains.deterministic_lift(7)
      >>> with warnings.catch_warnings():
      ...     warnings.simplefilter("ignore", DropWarning)
      ...     everything = dw.negligible.q_gap(lift.sample(100), lift.pi_e, epsilon=100.0)
      >>> len(everything)
      5
    """


def covered(states: StateSet, visits: FloatArray) -> float:
    """Share of the logged steps that are in the set."""
    return float(visits[states.mask].sum() / visits.sum())


def warn_if_extreme(states: StateSet, visits: FloatArray) -> StateSet:
    """The set itself, with a warning to the caller's caller if it covers nearly all steps or none."""
    share = covered(states, visits)
    if share >= NEARLY_ALL:
        message = (
            f"'{states.origin}' covers {share:.1%} of the logged steps: with it, an estimate is close to the "
            "naive average of the returns."
        )
        warnings.warn(message, DropWarning, stacklevel=3)
    elif share == 0.0:
        message = f"'{states.origin}' covers no logged step: with it, an estimate is the plain estimator."
        warnings.warn(message, DropWarning, stacklevel=3)
    return states
