r"""A multinomial logit with a ridge: the probability of each action as a softmax of linear scores.

.. math:: \min_W\; -\sum_i \log \mathrm{softmax}(x_i W)_{a_i} + \tfrac{\lambda}{2} \sum_{j > 0} |W_j|^2

The first column of x is the constant, which the ridge leaves alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deadweight.typing import FloatArray, IntArray

MOST_ROUNDS = 200


def fit_logit(columns: FloatArray, actions: IntArray, n_actions: int, ridge: float = 1.0) -> FloatArray:
    """(p, A) weights of a logit of actions on columns, (m, p).

    >>> x = np.column_stack([np.ones(4), [0.0, 0.0, 1.0, 1.0]])
    >>> w = fit_logit(x, np.array([0, 1, 1, 1]), 2, ridge=0.01)
    >>> bool(probabilities(x, w)[3, 1] > 0.95)
    True
    """
    from scipy.optimize import minimize

    m, p = columns.shape
    hot = np.zeros((m, n_actions))
    hot[np.arange(m), actions] = 1.0
    kept = np.full((p, 1), ridge)
    kept[0] = 1e-6 * ridge  # so that adding one number to all scores is not free
    taken = np.arange(m), actions

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(p, n_actions)
        probs = probabilities(columns, weights)
        penalty = kept * weights
        value = -np.log(np.maximum(probs[taken], 1e-300)).sum() + 0.5 * float((penalty * weights).sum())
        slope = columns.T @ (probs - hot) + penalty
        return value / m, slope.ravel() / m

    start = np.zeros((p, n_actions))
    start[0] = np.log((hot.sum(axis=0) + 1.0) / (m + n_actions))
    options = {"maxiter": MOST_ROUNDS, "ftol": 1e-10, "gtol": 1e-6}
    optimise: Any = minimize  # its stubs have no function that returns its own slope
    found = optimise(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x).reshape(p, n_actions)


def probabilities(columns: FloatArray, weights: FloatArray) -> FloatArray:
    """(m, A) softmax of columns @ weights."""
    scores = columns @ weights
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
