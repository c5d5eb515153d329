r"""The variance cost of each state: by how much dropping it alone shrinks the second moment of the weight.

.. math:: c(s) = \log E[B^2] - \log E[B^2 \text{ with } s \text{ dropped}], \qquad
   u_t(s) = \sum_a \pi_b(a|s) k(s, a)^2 \sum_{s'} P(s'|s, a) u_{t+1}(s')

with u = 1 at the end and E[B^2] = sum_s d0(s) u_0(s), by dynamic programming in the fitted model. Dropping s
changes one row of the recursion, so that all states are done together, one column each. Ranks states nearly
perfectly; decompositions of the logged weights fail on heavy tails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.mdp.chains import average_actions
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from deadweight.mdp.transitions import Sparse

# Columns of the recursion at a time: (states x columns) doubles.
CHUNK_CELLS = 1 << 21


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
    squared = average_actions(model.P, pi_b * ratio**2)
    plain = average_actions(model.P, pi_b)
    # Where the policies agree, dropping changes nothing, and no column is needed.
    differs = np.abs(pi_e - pi_b)[wanted].max(axis=1) > 0
    whole = _log_second_moment(squared, None, np.empty(0, dtype=np.int64), model.d0, horizon)[0]
    costs = np.zeros(len(wanted))
    size = max(1, CHUNK_CELLS // (model.n_states + 1))
    columns = np.flatnonzero(differs)
    for lo in range(0, len(columns), size):
        some = columns[lo : lo + size]
        costs[some] = whole - _log_second_moment(squared, plain, wanted[some], model.d0, horizon)
    return costs


def _log_second_moment(
    squared: Sparse, plain: Any, states: IntArray, d0: FloatArray, horizon: int
) -> FloatArray:
    """log E[B^2], one entry for each state that is dropped alone; a single one when none is."""
    columns = max(1, len(states))
    u = np.ones((squared.shape[0] + 1, columns))  # the last row is termination
    scale = np.zeros(columns)  # u is in units of exp(scale)
    own: Any = None if plain is None else plain[states]
    if own is not None:
        column = np.repeat(np.arange(columns), np.diff(own.indptr))
    for _ in range(horizon):
        following: Any = squared @ u
        if own is not None:
            kept = np.bincount(column, own.data * u[own.indices, column], minlength=columns)
            following[states, np.arange(columns)] = kept
        u[:-1] = following
        largest = u.max(axis=0)
        u /= largest
        scale += np.log(largest)
    with np.errstate(divide="ignore"):
        second: FloatArray = np.log(d0 @ u[:-1]) + scale
    return second
