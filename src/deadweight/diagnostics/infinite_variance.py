r"""Do the weights have a finite variance at all?

Where episodes run until they end, the second moment of their weights is a sum over all lengths. It is finite
if and only if the spectral radius of

.. math:: M(s, s') = \sum_a \pi_b(a|s) \, k(s,a)^2 \, \hat P(s'|s,a)

over the states that are reached is below 1, with kept ratios k. That is so if and only if (I - M) x = 1 has a
solution that is nowhere negative: one sparse solve. A pair that was seen once would make loops of its own, so
transitions are shrunk towards those of all actions of the state, by a few visits.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import divide
from deadweight.mdp.chains import average_actions, reached
from deadweight.question.core import Question
from deadweight.typing import BoolArray, FloatArray

# Visits of a pair that count as much as all other actions of its state together.
PSEUDO_VISITS = 10.0
# The factors of a larger sparse matrix may be dense.
MOST_STATES = 5_000


def has_infinite_variance(
    question: Question, dropped: BoolArray | None = None, pseudo_visits: float = PSEUDO_VISITS
) -> bool:
    """Whether the weights of a log have infinite variance in its fitted model.

    False where episodes are cut, for their weights are bounded; and where there are too many states to tell.

    Args:
      question: with pi_e of all actions.
      dropped: (S,) states whose ratios are dropped.
      pseudo_visits: how far transitions are shrunk.
    """
    if question.terminated < question.n or question.pair.n_states > MOST_STATES:
        return False
    pi_e, pi_b = question.pi_e("The variance of the weights"), question.pi_b
    second = divide(np.square(pi_e), pi_b)
    if dropped is not None:
        second = np.where(dropped[:, None], pi_b, second)
    return _diverges(_second_moments(question, second, pseudo_visits), question.model.d0)


def _second_moments(question: Question, second: FloatArray, pseudo_visits: float) -> Any:
    """(S, S + 1) M with shrunk transitions."""
    from scipy import sparse

    visits, P = question.counts.visits(), question.model.P
    own = divide(visits, visits + pseudo_visits)
    pooled = average_actions(P, divide(visits, visits.sum(axis=1, keepdims=True)))
    rest = (second * (1.0 - own)).sum(axis=1)
    return average_actions(P, second * own) + sparse.diags_array(rest) @ pooled


def _diverges(moments: Any, d0: FloatArray) -> bool:
    """Whether the spectral radius over the reached states is 1 or more."""
    from scipy import sparse
    from scipy.sparse.linalg import MatrixRankWarning, spsolve

    matrix = sparse.csr_array(moments)
    matrix.eliminate_zeros()
    states = reached(matrix, d0)
    inner = matrix[states][:, states]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatrixRankWarning)  # a radius of exactly 1
        solution = spsolve(sparse.csc_array(sparse.eye_array(states.size) - inner), np.ones(states.size))
    return not bool(np.isfinite(solution).all() and (np.asarray(solution) >= 1.0 - 1e-9).all())
