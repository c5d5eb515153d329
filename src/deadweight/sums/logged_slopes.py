"""Slopes of what followed by the probability that was logged, action by action: is any of them no chance?

What is regressed on what is said in `deadweight.answers.confounding`, for an evaluation, and in
`deadweight.doctor.same_world`, where there is no new policy yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deadweight.basics.arithmetic import divide, sums_by
from deadweight.sums.summaries import KeyedSums
from deadweight.typing import FloatArray, IntArray

# A slope of more standard errors than this is no chance.
MOST_STANDARD_ERRORS = 4.0
# A tail below this is no number any more; the z of it is 38.
SMALLEST = 1e-300
# Degrees of freedom of a slope that a single episode carries: it says next to nothing.
LEAST_DEGREES = 0.1
# Logarithms of probabilities that spread less than this within a state and action are the same number, with
# the digits that somebody has kept.
SAME = 1e-3


@dataclass(frozen=True)
class Confounding:
    """What the check has found.

    Attributes:
      z: of the action for which it is clearest, the slope of the model's errors by the logged probabilities,
        in standard errors; counted as if that action had been the only one.
    """

    z: float

    @classmethod
    def of(cls, sums: FloatArray) -> Confounding:
        """From (5, A) sums over episodes of xd, x^2, and of the squares and the product of both."""
        from scipy.special import ndtri, stdtr

        some = sums[1] > 0
        both, squares, both_squared, product, squares_squared = sums[:, some]
        slopes = both / squares
        variance = both_squared - 2 * slopes * product + np.square(slopes) * squares_squared
        sizes = np.abs(divide(both, np.sqrt(np.maximum(variance, 0.0))))
        degrees = np.maximum(np.square(squares) / squares_squared - 1.0, LEAST_DEGREES)
        tails = stdtr(degrees, -sizes) * len(sizes)
        if not tails.size:
            return cls(0.0)
        clearest = int(np.argmin(tails))
        size = -float(ndtri(np.clip(tails[clearest], SMALLEST, 0.5)))
        return cls(math.copysign(size, slopes[clearest]))

    @property
    def found(self) -> bool:
        """Whether what the old policy looked at tells what follows."""
        return abs(self.z) > MOST_STANDARD_ERRORS

    @property
    def reason(self) -> str:
        """The finding in words."""
        return (
            "The old policy looked at something that the states leave out: where its logged probability of "
            f"the same action in the same state was higher, {'more' if self.z > 0 else 'less'} followed than "
            f"the model says ({self.z:+.0f} standard errors)."
        )


def slope_sums(
    keys: IntArray, x: FloatArray, errors: FloatArray, larger: FloatArray, n_actions: int
) -> FloatArray:
    """(5, A) the sums over episodes that `Confounding.of` takes.

    Args:
      keys: (steps,) episode times A plus action.
      x: (steps,) logarithms of logged probabilities, less their mean in the state and action.
      errors: (steps,) what followed, less what follows on average.
      larger: (steps,) n / (n - 1) for n such steps: an error is seen from a mean that it is part of.
      n_actions: A.
    """
    columns = np.stack([x * errors, np.square(x)])
    of_episode = KeyedSums.of(keys, *columns, *(columns * larger))
    both, squares, more, wider = of_episode.sums
    sums = both, squares, np.square(more), more * wider, np.square(wider)
    return np.stack([sums_by(of_episode.keys % n_actions, one, n_actions) for one in sums])
