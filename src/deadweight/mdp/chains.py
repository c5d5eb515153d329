"""Markov chains under a policy: which states they reach, whether they end, and sums until they do.

A policy turns the (S*A, S+1) transitions of an MDP into a chain of (S, S+1), last column termination. The
same averaging with other weights than probabilities (squared ratios, say) gives the second moments of
`deadweight.theory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.errors import MDPError
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from deadweight.mdp.tabular import Sparse


def average_actions(P: Sparse, weights: FloatArray) -> Sparse:
    """sum_a weights(s, a) P(s, a, .): (S, S+1) from (S*A, S+1) transitions and (S, A) weights."""
    from scipy import sparse

    n_states, n_actions = weights.shape
    pairs = np.arange(weights.size + 1)
    average = sparse.csr_array(
        (weights.ravel(), pairs[:-1], pairs[::n_actions]), shape=(n_states, weights.size)
    )
    chain: Any = average @ P
    chain.eliminate_zeros()
    return chain  # type: ignore[no-any-return]


def average_rows(table: FloatArray, weights: FloatArray) -> FloatArray:
    """The same of a dense table; added in the same order, so that both have the same bits."""
    by_action = table.reshape(*weights.shape, -1)
    chain: FloatArray = weights[:, :1] * by_action[:, 0]
    for action in range(1, weights.shape[1]):
        chain += weights[:, action, None] * by_action[:, action]
    return chain


def reached(chain: Sparse, d0: FloatArray) -> IntArray:
    """States, in order, that the chain visits with positive probability from d0."""
    from scipy import sparse
    from scipy.sparse.csgraph import breadth_first_order

    # The termination node doubles as the start: nothing else leaves it.
    start = sparse.csr_array(np.append(d0, 0.0)[None, :])
    graph = sparse.vstack([chain, start], format="csr")
    nodes = breadth_first_order(graph, d0.size, return_predecessors=False)
    return np.sort(nodes[nodes < d0.size]).astype(np.int64)


def ending(chain: Sparse) -> BoolArray:
    """(S,) states from which the chain is sure to terminate: it reaches no state that cannot."""
    n = chain.shape[0]
    stuck = np.setdiff1d(np.arange(n), _leading_to(chain, [n]))
    fine = np.ones(n, dtype=bool)
    if stuck.size:
        fine[_leading_to(chain, stuck)] = False
    return fine


def _leading_to(chain: Sparse, targets: IntArray | list[int]) -> IntArray:
    """States from which the chain may get to one of the targets, themselves included; S is termination."""
    from scipy import sparse
    from scipy.sparse.csgraph import breadth_first_order

    n = chain.shape[0]
    # The reversed chain starts from all targets at once: from a node of its own that leads to them.
    start = np.zeros((n + 2, 1))
    start[targets] = 1.0
    forwards: Any = sparse.vstack([chain, sparse.csr_array((2, n + 1))])
    graph: Any = sparse.hstack([forwards, sparse.csr_array(start)]).T.tocsr()
    nodes = breadth_first_order(graph, n + 1, return_predecessors=False)
    return np.sort(nodes[nodes < n]).astype(np.int64)


def check_terminates(chain: Sparse, states: IntArray) -> None:
    """Refuse a chain in which one of the given states cannot reach termination."""
    stuck = np.setdiff1d(states, _leading_to(chain, [chain.shape[0]]))
    if stuck.size:
        raise MDPError(
            f"The value until termination does not exist: the policy reaches state {stuck[0]} and never "
            "terminates from there.",
            fix="Pass a horizon, or gamma below 1.",
        )


def sum_until_end(chain: Sparse, states: IntArray, gain: FloatArray, discount: float = 1.0) -> FloatArray:
    """x = gain + discount * chain x on the given states: (len(states),) or, for several gains, (.., k)."""
    from scipy import sparse
    from scipy.sparse.linalg import spsolve

    inner = chain[states][:, states]
    system = sparse.csc_array(sparse.eye_array(states.size) - discount * inner)
    return np.asarray(spsolve(system, gain), dtype=np.float64).reshape(gain.shape)


# --------------------------------------------------------------------------------------------------------
# Chains of few states as tables: what `chains` does, where sparse matrices cost more than the sums do.

# A chain of no more states than this is a table: systems of that size are solved faster so.
SMALL = 200


def reached_in(chain: FloatArray, d0: FloatArray) -> BoolArray:
    """(S,) which states the chain visits with positive probability from d0."""
    return _closure(chain[:, :-1].T, d0 > 0)


def ending_in(chain: FloatArray) -> BoolArray:
    """(S,) states from which the chain is sure to terminate: it reaches no state that cannot."""
    inner = chain[:, :-1]
    may_end = _closure(inner, chain[:, -1] > 0)
    return may_end if may_end.all() else ~_closure(inner, ~may_end)


def _closure(links: FloatArray, start: BoolArray) -> BoolArray:
    """(S,) what the start grows to when whoever has a link to one of it (a number above 0) joins."""
    found = start
    while True:
        more = found | (links @ found.astype(np.float64) > 0)
        if np.count_nonzero(more) == np.count_nonzero(found):
            return found
        found = more
