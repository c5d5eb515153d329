r"""Settled values: a model solved until more steps change nothing.

A model of a log in which no episode was cut has no horizon. Its values are those until the task ends,

.. math:: V = r_\pi + \gamma P_\pi V, \qquad Q = r + \gamma P V

and do not depend on how long the longest logged episode happened to be. They exist where the policy is sure
to end in the model. Where it may go round for ever (or for more steps than anybody would log), values over a
fixed number of steps stand in for them; if it gets there from the start, nothing has settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.mdp.tabular import TabularMDP, backward
from deadweight.typing import FloatArray
from deadweight.values.until_end import UntilEnd

KEPT_BITS = 42


@dataclass(frozen=True, eq=False)
class Settled:
    """Values and occupancy of a policy in a model, until the end.

    Attributes:
      q: (S, A).
      v: (S,).
      occupancy: (S,) discounted number of visits of each state from the start.
      until_end: the chain that the policy makes of the model.
    """

    q: FloatArray
    v: FloatArray
    occupancy: FloatArray
    until_end: UntilEnd


def settle(mdp: TabularMDP, pi: FloatArray, gamma: float, steps: int) -> Settled | None:
    """The settled values of pi; None if some state that it reaches from the start has none.

    Args:
      mdp: the model.
      pi: (S, A).
      gamma: discount.
      steps: states without a settled value get that of so many steps.
    """
    chain = UntilEnd(mdp, pi, gamma)
    if not chain.is_fine_from(mdp.d0):
        return None
    v, occupancy = chain.values((pi * mdp.r).sum(axis=1)), chain.occupancy(mdp.d0)
    if v is None or occupancy is None:
        return None
    if not chain.fine.all():
        for _, _, v_t in backward(mdp, pi, steps, gamma):
            last = v_t
        v = np.where(chain.fine, v, last)
    v = _rounded(v)
    after: Any = mdp._stored @ np.append(v, 0.0)
    if mdp._spread is not None:
        after = after + mdp._spread * v.sum()
    return Settled(_rounded(mdp.r + gamma * after.reshape(mdp.r.shape)), v, occupancy, chain)


def occupancy(mdp: TabularMDP, pi: FloatArray, gamma: float) -> FloatArray | None:
    """(S,) discounted visits of each state from the start until the end; None if there may be none."""
    chain = UntilEnd(mdp, pi, gamma)
    return chain.occupancy(mdp.d0) if chain.is_fine_from(mdp.d0) else None


def _rounded(values: FloatArray) -> FloatArray:
    """Values without the last digits, which are the solver's: what is equal in theory stays equal.

    Levels of a path are distinct gaps, and a gap of exactly epsilon is not below it.
    """
    largest = float(np.abs(values).max())
    if not 0.0 < largest < np.inf:
        return values
    unit = 2.0 ** (int(np.frexp(largest)[1]) - KEPT_BITS)
    rounded: FloatArray = np.round(values / unit) * unit
    return rounded
