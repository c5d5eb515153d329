r"""MAGIC, beside which the headline is measured: weighted DR and a model, blended by the length of a return.

.. math:: g^{(j)} = \sum_i \sum_{t \le j} \gamma^t \left[ w_{it} (r_{it} - Q_t) + w_{i,t-1} V_t \right]
   + \gamma^{j+1} \sum_i w_{ij} V_{j+1}

takes weights for the first j + 1 steps and the model from there on: :math:`g^{(-1)}` is the model alone, and
the last one is WDR. Of all mixes :math:`x'g` the one is taken with the least :math:`x'(\Omega + bb')x`, where
:math:`\Omega` is the sample covariance over episodes, and :math:`b_j` how far :math:`g^{(j)}` lies outside an
interval of WDR by the percentile bootstrap.

Reference: Thomas & Brunskill (2016).
"""

from __future__ import annotations

import numpy as np

from deadweight.estimators.simplex_qp import solve_simplex_qp
from deadweight.question.core import Question
from deadweight.sums.blocks import Block
from deadweight.typing import FloatArray, IntArray

RESAMPLES = 200
# The bootstrap's interval leaves out so much at either end.
TAIL = 0.05
# So many lengths are looked at, evenly from the model alone to all steps.
MOST_LENGTHS = 12
# Added to the diagonal, relative to its mean: the programme needs a matrix of full rank.
RIDGE = 1e-9


def magic(question: Question, rng: np.random.Generator) -> float:
    """The estimate for a log in memory, with the model and the ratios of its question.

    Args:
      question: about one log.
      rng: of the bootstrap.
    """
    log, gamma = question.parts[0], question.gamma
    block = Block(log, np.arange(log.n_episodes), contiguous=False)
    new, old = (field.on(block) for field in (question.pair.evaluation, question.pair.behaviour))
    rho = np.divide(new, old, out=np.ones(new.shape), where=old > 0)  # of padding: one
    with np.errstate(divide="ignore"):
        log_w = np.cumsum(np.log(rho), axis=1)
    weights = np.exp(log_w - np.maximum(log_w.max(axis=0), np.finfo(float).min))
    weights = np.column_stack([np.ones(log.n_episodes), weights])  # place t: before step t
    discount = np.asarray(gamma ** np.arange(block.horizon + 1), dtype=np.float64)
    wrong = block.rewards - question.values.q.on(block)
    values = np.column_stack([question.values.v.on(block), np.zeros(log.n_episodes)])
    returns = _returns(weights, wrong, values, discount)
    lengths = np.unique(np.linspace(0, block.horizon, MOST_LENGTHS).round().astype(int))
    g = returns.sum(axis=0)[lengths]
    covariance = np.atleast_2d(np.cov(returns[:, lengths].T)) * log.n_episodes
    drawn = rng.multinomial(log.n_episodes, np.full(log.n_episodes, 1.0 / log.n_episodes), RESAMPLES)
    low, high = np.quantile(_resampled(drawn, weights, wrong, values, discount), [TAIL, 1.0 - TAIL])
    bias = np.maximum(g - max(high, g[-1]), 0.0) - np.maximum(min(low, g[-1]) - g, 0.0)
    return float(_least(covariance + np.outer(bias, bias)) @ g)


def _returns(weights: FloatArray, wrong: FloatArray, values: FloatArray, discount: FloatArray) -> FloatArray:
    """(n, T + 1) what each episode adds to the return of each length, the model alone first."""
    w = weights / _totals(weights.sum(axis=0))
    summed = np.cumsum(discount[:-1] * (w[:, 1:] * wrong + w[:, :-1] * values[:, :-1]), axis=1)
    return np.column_stack([np.zeros(len(w)), summed]) + discount * w * values


def _resampled(
    drawn: IntArray, weights: FloatArray, wrong: FloatArray, values: FloatArray, discount: FloatArray
) -> FloatArray:
    """(resamples,) WDR of episodes drawn so often."""
    total = _totals(drawn @ weights)
    corrected = (drawn @ (weights[:, 1:] * wrong)) / total[:, 1:]
    found = corrected + (drawn @ (weights[:, :-1] * values[:, :-1])) / total[:, :-1]
    return np.asarray(found @ discount[:-1])


def _totals(total: FloatArray) -> FloatArray:
    """Sums of weights to divide by; where all are zero so is what is divided."""
    found: FloatArray = np.where(total > 0, total, 1.0)
    return found


def _least(matrix: FloatArray) -> FloatArray:
    """The point of the simplex with the least x' matrix x."""
    from scipy.sparse import csr_array

    scale = float(np.trace(matrix)) / len(matrix)
    if not scale > 0:  # they all agree in every episode
        return np.append(np.zeros(len(matrix) - 1), 1.0)
    size, vectors = np.linalg.eigh(matrix / scale)
    root = csr_array(vectors * np.sqrt(np.maximum(size, 0.0)))
    return solve_simplex_qp(root, RIDGE).x
