r"""Settled values: a model solved until more steps change nothing.

A model of a log in which no episode was cut has no horizon. Its values are those until the task ends,

.. math:: V = r_\pi + \gamma P_\pi V, \qquad Q = r + \gamma P V

and do not depend on how long the longest logged episode happened to be. They exist where the policy is sure
to end in the model. Where it may go round for ever (or for more steps than anybody would log), values over a
fixed number of steps stand in for them; if it gets there from the start, nothing has settled.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.mdp.chains import average_actions, ending, reached
from deadweight.mdp.tabular import TabularMDP, backward
from deadweight.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from deadweight.mdp.transitions import Sparse

# A policy that is expected to go on for more steps than this in the model is taken to go on for ever.
MOST_STEPS = 1e6
# Systems of more states than this are solved step by step: factors of a large sparse matrix may be dense.
FACTORED = 2_000
CONVERGED = 1e-13
KEPT_BITS = 42


@dataclass(frozen=True, eq=False)
class Settled:
    """Values and occupancy of a policy in a model, until the end.

    Attributes:
      q: (S, A).
      v: (S,).
      occupancy: (S,) discounted number of visits of each state from the start.
    """

    q: FloatArray
    v: FloatArray
    occupancy: FloatArray


def settle(mdp: TabularMDP, pi: FloatArray, gamma: float, steps: int) -> Settled | None:
    """The settled values of pi; None if some state that it reaches from the start has none.

    Args:
      mdp: the model.
      pi: (S, A).
      gamma: discount.
      steps: states without a settled value get that of so many steps.
    """
    system = _System(mdp, pi, gamma)
    fine = system.finite()
    if not fine[reached(system.chain, mdp.d0)].all():
        return None
    v = system.values((pi * mdp.r).sum(axis=1), fine)
    if v is None:
        return None
    if not fine.all():
        for _, _, v_t in backward(mdp, pi, steps, gamma):
            last = v_t
        v = np.where(fine, v, last)
    occupancy = system.occupancy(mdp.d0, fine)
    if occupancy is None:
        return None
    v = _rounded(v)
    after: Any = mdp._stored @ np.append(v, 0.0)
    if mdp._spread is not None:
        after = after + mdp._spread * v.sum()
    return Settled(_rounded(mdp.r + gamma * after.reshape(mdp.r.shape)), v, occupancy)


def occupancy(mdp: TabularMDP, pi: FloatArray, gamma: float) -> FloatArray | None:
    """(S,) discounted visits of each state from the start until the end; None if there may be none."""
    system = _System(mdp, pi, gamma)
    fine = system.finite()
    if not fine[reached(system.chain, mdp.d0)].all():
        return None
    return system.occupancy(mdp.d0, fine)


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


class _System:
    """(I - gamma P_pi) x = b and its transpose, on the states that are sure to end.

    Smoothed counts add u 1' to P, a matrix of rank one that is never written out.
    """

    def __init__(self, mdp: TabularMDP, pi: FloatArray, gamma: float) -> None:
        self.gamma = gamma
        self.chain: Sparse = average_actions(mdp._stored, pi)
        self.u = None if mdp._spread is None else (pi * mdp._spread.reshape(pi.shape)).sum(axis=1)

    def finite(self) -> BoolArray:
        """(S,) states whose value until the end exists."""
        n = self.chain.shape[0]
        if self.gamma < 1.0:
            return np.ones(n, dtype=bool)
        fine = np.ones(n, dtype=bool) if self.u is not None else ending(self.chain)
        duration = self.values(np.ones(n), fine)
        return np.zeros(n, dtype=bool) if duration is None else fine & (duration <= MOST_STEPS)

    def values(self, gain: FloatArray, fine: BoolArray) -> FloatArray | None:
        """x = gain + gamma P x on the fine states, 0 on the others; None if it could not be solved."""
        found = self._solved(gain[fine], fine, transposed=False)
        return None if found is None else self._filled(found, fine)

    def occupancy(self, d0: FloatArray, fine: BoolArray) -> FloatArray | None:
        """x = d0 + gamma P' x, likewise."""
        found = self._solved(d0[fine], fine, transposed=True)
        return None if found is None else self._filled(found, fine)

    def _filled(self, found: FloatArray, fine: BoolArray) -> FloatArray:
        x = np.zeros(fine.size)
        x[fine] = found
        return x

    def _solved(self, b: FloatArray, fine: BoolArray, transposed: bool) -> FloatArray | None:
        states = np.flatnonzero(fine)
        inner: Any = self.chain[states][:, states]
        inner = inner.T.tocsr() if transposed else inner
        if self.u is None:
            return _linear(inner, b[:, None], self.gamma, 0)
        # Sherman and Morrison: (A - gamma p q') x = b from solutions for b and for p.
        ones, u = np.ones(states.size), self.u[states]
        p, q = (ones, u) if transposed else (u, ones)
        both = _linear(inner, np.stack([b, p], axis=1), self.gamma, None)
        if both is None:
            return None
        left = 1.0 - self.gamma * float(q @ both[:, 1])
        if not left > 0.0:
            return None
        found: FloatArray = both[:, 0] + self.gamma * float(q @ both[:, 0]) / left * both[:, 1]
        return found if np.isfinite(found).all() else None


def _linear(inner: Any, b: FloatArray, gamma: float, column: int | None) -> FloatArray | None:
    """x = b + gamma inner x, by factors or, in large systems, step by step; None if there is no solution."""
    from scipy import sparse
    from scipy.sparse.linalg import MatrixRankWarning, spsolve

    n = b.shape[0]
    if n == 0:
        x = np.zeros_like(b)
    elif n <= FACTORED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MatrixRankWarning)
            system = sparse.csc_array(sparse.eye_array(n) - gamma * inner)
            x = np.asarray(spsolve(system, b), dtype=np.float64).reshape(b.shape)
    else:
        x, term = b.copy(), b
        for _ in range(int(MOST_STEPS) // 10):
            term = gamma * (inner @ term)
            x += term
            if np.abs(term).max() <= CONVERGED * np.abs(x).max():
                break
        else:
            return None
    if not np.isfinite(x).all():
        return None
    return x if column is None else x[:, column]
