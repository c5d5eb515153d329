r"""Sums until the end of a chain: :math:`(I - \gamma P_\pi) x = b`, its transpose, and where they exist.

They exist on the states from which the policy is sure to end in the model. Chains of few states are tables;
larger ones are sparse, and very large ones are summed step by step. Smoothed counts add u 1' to P, a matrix
of rank one that is never written out.

So is a model solved until more steps change nothing (`settle`): one of a log in which no episode was cut has
no horizon. Its values are those until the task ends,

.. math:: V = r_\pi + \gamma P_\pi V, \qquad Q = r + \gamma P V

and do not depend on how long the longest logged episode happened to be. Where the policy may go round for
ever (or for more steps than anybody would log), values over a fixed number of steps stand in for them; if it
gets there from the start, nothing has settled.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.mdp.tabular import (
    SMALL,
    TabularMDP,
    average_actions,
    backward,
    chain_table,
    ending,
    ending_in,
    reached,
    reached_in,
)
from deadweight.tools.arithmetic import each_row
from deadweight.tools.limits import one_blas_thread
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from deadweight.mdp.tabular import Sparse

# A policy that is expected to go on for more steps than this in the model is taken to go on for ever.
MOST_STEPS = 1e6
# Systems of more states than this are solved step by step: factors of a large sparse matrix may be dense.
FACTORED = 2_000
CONVERGED = 1e-13
# Of a settled value; the last digits are the solver's.
KEPT_BITS = 42


class UntilEnd:
    """What a chain adds up to on its way to the end; made once for a model, a policy and a discount."""

    def __init__(self, mdp: TabularMDP, pi: FloatArray, gamma: float) -> None:
        self._gamma = gamma
        self._chain: _Table | _Matrix
        self._chain = _Table(mdp, pi) if mdp.n_states <= SMALL else _Matrix(mdp, pi)
        self._u = None if mdp._spread is None else (pi * mdp._spread.reshape(pi.shape)).sum(axis=1)

    @cached_property
    def fine(self) -> BoolArray:
        """(S,) states whose sum until the end exists."""
        n = self._chain.n
        if self._gamma < 1.0:
            return np.ones(n, dtype=bool)
        fine = np.ones(n, dtype=bool) if self._u is not None else self._chain.ending()
        duration = self._solved(np.ones((n, 1)), fine, transposed=False)
        return np.zeros(n, dtype=bool) if duration is None else fine & (duration[:, 0] <= MOST_STEPS)

    def is_fine_from(self, d0: FloatArray) -> bool:
        """Whether the sums of all states exist that are reached from the start."""
        return bool(self.fine.all()) or bool(self.fine[self._chain.reached(d0)].all())

    def values(self, gain: FloatArray) -> FloatArray | None:
        """(S,) x = gain + gamma P x on the fine states, 0 on the others; None if it could not be solved."""
        values = self._solved(gain[:, None], self.fine, transposed=False)
        return None if values is None else values[:, 0]

    def occupancy(self, d0: FloatArray) -> FloatArray | None:
        """(S,) x = d0 + gamma P' x on the fine states; None if it could not be solved."""
        visits = self._solved(d0[:, None], self.fine, transposed=True)
        return None if visits is None else visits[:, 0]

    def onwards(self, b: FloatArray) -> FloatArray | None:
        """(k, S) x = b + gamma P' x for (k, S): what becomes of many b on the way to the end.

        None where the sum does not exist, or where the system is too large to solve.
        """
        if b[:, ~self.fine].any() or not self._chain.has_factors(self.fine, self._u):
            return None
        sums = self._solved(b.T, self.fine, transposed=True)
        return None if sums is None else sums.T

    def _solved(self, b: FloatArray, fine: BoolArray, transposed: bool) -> FloatArray | None:
        """(S, k) x = b + gamma P x on the fine states, 0 on the others."""
        states = np.flatnonzero(fine)
        inner = self._inner(b[states], states, transposed)
        if inner is None or not np.isfinite(inner).all():
            return None
        if states.size == fine.size:
            return inner
        x = np.zeros_like(b)
        x[states] = inner
        return x

    def _inner(self, b: FloatArray, states: IntArray, transposed: bool) -> FloatArray | None:
        if self._u is None or not states.size:
            return self._chain.solve(b, states, self._gamma, transposed)
        # Sherman and Morrison: (A - gamma p q') x = b from solutions for b and for p.
        ones, u = np.ones(states.size), self._u[states]
        p, q = (ones, u) if transposed else (u, ones)
        both = self._chain.solve(np.column_stack([b, p]), states, self._gamma, transposed)
        if both is None:
            return None
        left = 1.0 - self._gamma * float(q @ both[:, -1])
        if not left > 0.0:
            return None
        along = each_row(np.ascontiguousarray(both[:, :-1].T), q[:, None])[:, 0]
        return np.asarray(both[:, :-1] + self._gamma * along / left * both[:, -1:])


def by_column(system: FloatArray, b: FloatArray) -> FloatArray | None:
    """(S, k) x of system x = b, each column with the bits that it has alone; None if there is no solution."""
    from scipy.linalg.lapack import dgetrf, dgetrs

    with one_blas_thread("scipy.linalg"):
        factors, pivots, singular = dgetrf(system)
        if singular:
            return None
        columns = [dgetrs(factors, pivots, np.ascontiguousarray(column))[0] for column in b.T]
    return np.stack(columns, axis=1) if columns else np.zeros_like(b)


class _Table:
    """A chain of few states."""

    def __init__(self, mdp: TabularMDP, pi: FloatArray) -> None:
        self._chain = chain_table(mdp, pi, smoothed=False)
        self.n = mdp.n_states

    def ending(self) -> BoolArray:
        return ending_in(self._chain)

    def reached(self, d0: FloatArray) -> BoolArray:
        return reached_in(self._chain, d0)

    def has_factors(self, fine: BoolArray, u: FloatArray | None) -> bool:
        return True

    def solve(self, b: FloatArray, states: IntArray, gamma: float, transposed: bool) -> FloatArray | None:
        """x = b + gamma P x on some states; None if there is no solution."""
        inner = self._chain[:, :-1] if states.size == self.n else self._chain[np.ix_(states, states)]
        system = np.eye(states.size) - gamma * (inner.T if transposed else inner)
        return by_column(system, b)


class _Matrix:
    """A chain of many states."""

    def __init__(self, mdp: TabularMDP, pi: FloatArray) -> None:
        self._chain: Sparse = average_actions(mdp._stored, pi)
        self.n = mdp.n_states

    def ending(self) -> BoolArray:
        return ending(self._chain)

    def reached(self, d0: FloatArray) -> IntArray:
        return reached(self._chain, d0)

    def has_factors(self, fine: BoolArray, u: FloatArray | None) -> bool:
        return u is None and int(np.count_nonzero(fine)) <= FACTORED

    def solve(self, b: FloatArray, states: IntArray, gamma: float, transposed: bool) -> FloatArray | None:
        """As of a table, by factors or, in large systems, step by step."""
        from scipy import sparse
        from scipy.sparse.linalg import MatrixRankWarning, spsolve

        n = states.size
        inner: Any = self._chain[states][:, states]
        inner = inner.T.tocsr() if transposed else inner
        if n == 0:
            return np.zeros_like(b)
        if n <= FACTORED:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MatrixRankWarning)
                system = sparse.csc_array(sparse.eye_array(n) - gamma * inner)
                return np.stack(
                    [np.asarray(spsolve(system, column), dtype=np.float64) for column in b.T], axis=1
                )
        x, term = b.copy(), b
        for _ in range(int(MOST_STEPS) // 10):
            term = gamma * (inner @ term)
            x += term
            if np.abs(term).max() <= CONVERGED * np.abs(x).max():
                return x
        return None


@dataclass(frozen=True, eq=False)
class Settled:
    """Values and occupancy of a policy in a model, until the end."""

    q: FloatArray  # (S, A)
    v: FloatArray  # (S,)
    occupancy: FloatArray  # (S,) discounted number of visits of each state from the start
    until_end: UntilEnd  # the chain that the policy makes of the model


def settle(mdp: TabularMDP, pi: FloatArray, gamma: float, steps: int) -> Settled | None:
    """The settled values of pi, (S, A); None if some state that it reaches from the start has none.

    Other states without a settled value get that of so many steps.
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
    """Values without their last digits: what is equal in theory stays equal.

    Levels of a path are distinct gaps, and a gap of exactly epsilon is not below it.
    """
    largest = float(np.abs(values).max())
    if not 0.0 < largest < np.inf:
        return values
    unit = 2.0 ** (int(np.frexp(largest)[1]) - KEPT_BITS)
    return np.asarray(np.round(values / unit) * unit)
