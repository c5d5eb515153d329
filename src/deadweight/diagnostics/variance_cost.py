r"""The variance cost of each state: by how much dropping it alone shrinks the second moment of the weight.

.. math:: c(s) = \log E[B^2] - \log E[B^2 \text{ with } s \text{ dropped}], \qquad
   u_t(s) = \sum_a \pi_b(a|s) k(s, a)^2 \sum_{s'} P(s'|s, a) u_{t+1}(s')

with u = 1 at the end and E[B^2] = sum_s d0(s) u_0(s), by dynamic programming in the fitted model. Dropping s
changes one row of the recursion, so that all states are done together, one column each. Ranks states nearly
perfectly; decompositions of the logged weights fail on heavy tails.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.basics.products import one_thread
from deadweight.mdp.chains import average_actions
from deadweight.mdp.tabular import TabularMDP, chain_table
from deadweight.typing import FloatArray, IntArray

# Columns of the recursion at a time: (states x columns) doubles.
CHUNK_CELLS = 1 << 21
# Numbers are brought back to at most 1 after so many steps, or before they changed by 2 to this power.
MOST_AT_ONCE, RANGE = 16, 500.0


def variance_costs(
    model: TabularMDP, pi_e: FloatArray, pi_b: FloatArray, horizon: int, wanted: IntArray
) -> FloatArray:
    """c(s) of the wanted states, with nothing else dropped.

    Args:
      model: the MDP, fitted or known.
      pi_e, pi_b: (S, A); actions that pi_b never takes contribute nothing.
      horizon: steps of an episode that does not terminate.
      wanted: (X,) state indices.
    """
    ratio = np.divide(pi_e, pi_b, out=np.zeros_like(pi_e), where=pi_b > 0)
    chain_of = partial(chain_table, model) if model._table is not None else partial(average_actions, model.P)
    squared, plain = chain_of(pi_b * ratio**2), chain_of(pi_b)
    # Where the policies agree, dropping changes nothing, and no column is needed.
    columns = np.flatnonzero(np.abs(pi_e - pi_b)[wanted].max(axis=1) > 0)
    costs = np.zeros(len(wanted))
    size = max(1, CHUNK_CELLS // (model.n_states + 1))
    for lo in range(0, len(columns), size):
        some = columns[lo : lo + size]
        with one_thread():
            second = _log_second_moments(squared, plain[wanted[some]], wanted[some], model.d0, horizon)
        costs[some] = second[0] - second[1:]
    return costs


def _log_second_moments(
    squared: Any, plain: Any, states: IntArray, d0: FloatArray, horizon: int
) -> FloatArray:
    """log E[B^2] with nothing dropped, and then with each of the states dropped alone.

    Args:
      squared: (S, S + 1) the recursion where nothing is dropped.
      plain: (X, S + 1) its rows in the states where they are dropped.
      states: (X,).
    """
    number = np.arange(len(states))
    u = np.ones((squared.shape[0] + 1, 1 + len(states)))  # the last row is termination
    scale = np.zeros(u.shape[1])  # u is in units of exp(scale)
    at_once = _steps_in_range(squared)
    for t in range(horizon):
        following = squared @ u
        following[states, 1 + number] = _diagonal(plain, u[:, 1:])
        u[:-1] = following
        if t % at_once == at_once - 1 or t == horizon - 1:
            largest = u.max(axis=0)
            u /= largest
            scale += np.log(largest)
    with np.errstate(divide="ignore"):
        second: FloatArray = np.log(d0 @ u[:-1]) + scale
    return second


def _steps_in_range(squared: Any) -> int:
    """Steps after which numbers of at most 1 are still far from leaving the range of doubles."""
    rows = np.asarray(squared.sum(axis=1))
    power = float(np.abs(np.log2(rows[rows > 0])).max(initial=1.0))
    return max(1, min(MOST_AT_ONCE, int(RANGE / power)))


def _diagonal(rows: Any, u: FloatArray) -> FloatArray:
    """(X,) the product of each row with the column of the same number."""
    if isinstance(rows, np.ndarray):
        found: FloatArray = np.einsum("xs,sx->x", rows, u)
        return found
    column = np.repeat(np.arange(u.shape[1]), np.diff(rows.indptr))
    return sums_by(column, rows.data * u[rows.indices, column], u.shape[1])
