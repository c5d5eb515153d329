r"""Cramer-Rao bounds: the least variance, per episode, of any unbiased estimate of the value of pi_e.

With d_t^e and d_t^b the state-action marginals of the two policies and V = V^{pi_e}: a model that may change
with time (Jiang & Li 2016; Yin & Wang 2020) has

.. math:: \mathrm{Var}[V_0(s_0)] + \sum_t \gamma^{2t} \sum_{s,a} \frac{d^e_t(s,a)^2}{d^b_t(s,a)}
          \mathrm{Var}[r + \gamma V_{t+1}(s') | s, a]

and a model known to be the same at all times, whose visits add up, has

.. math:: \mathrm{Var}[V_0(s_0)] + \sum_{s,a} \frac{1}{\sum_t d^b_t(s,a)}
          \mathrm{Var}\Bigl[\sum_t \gamma^t d^e_t(s,a) (r + \gamma V_{t+1}(s')) \Big| s, a\Bigr],

which is never larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from deadweight.mdp.chains import average_actions, check_terminates, reached, sum_until_end
from deadweight.mdp.tabular import TabularMDP, backward, check_gamma, checked_horizon, policy_table
from deadweight.mdp.transitions import entry_rows
from deadweight.typing import FloatArray

# Until termination, the sum over time stops where what is left cannot change the result.
NEGLIGIBLE = 1e-17


def cramer_rao(
    mdp: TabularMDP,
    pi_e: Any,
    pi_b: Any,
    horizon: int | None = None,
    gamma: float = 1.0,
    homogeneous: bool = False,
) -> float:
    """The bound per episode; divide by n for n episodes. Infinite where pi_b does not cover pi_e.

    Args:
      mdp: the MDP that episodes come from.
      pi_e, pi_b: evaluation and behaviour policy.
      horizon: None takes the MDP's own horizon or, when it has none, runs until termination.
      gamma: discount.
      homogeneous: the bound for a model that is the same at all times, which a pooled direct method may
        reach, instead of the one for a model that may change.

    Example:
      >>> from deadweight.domains import stochastic_lift
      >>> lift = stochastic_lift(7)
      >>> cramer_rao(lift.mdp, lift.pi_e, lift.pi_e) < cramer_rao(lift.mdp, lift.pi_e, lift.pi_b)
      True
    """
    check_gamma(gamma)
    steps = mdp.horizon if horizon is None else checked_horizon(horizon)
    values = _values(mdp, policy_table(pi_e, mdp), steps, gamma)  # (H + 1, S + 1), or (1, S + 1)
    bound = _homogeneous if homogeneous else _time_varying
    v0 = values[0, :-1]
    start = float(mdp.d0 @ (v0 - mdp.d0 @ v0) ** 2)
    return start + bound(mdp, policy_table(pi_e, mdp), policy_table(pi_b, mdp), values, steps, gamma)


def _values(mdp: TabularMDP, pi_e: FloatArray, steps: int | None, gamma: float) -> FloatArray:
    """V_t for t = 0..H with termination's 0 appended; without a horizon the one V of all times."""
    if steps is not None:
        values = np.zeros((steps + 1, mdp.n_states + 1))
        for t, _, v_t in backward(mdp, pi_e, steps, gamma):
            values[t, :-1] = v_t
        return values
    chain = average_actions(mdp.P, pi_e)
    states = reached(chain, mdp.d0)
    if gamma == 1.0:
        check_terminates(chain, states)
    values = np.zeros((1, mdp.n_states + 1))
    values[0, states] = sum_until_end(chain, states, (pi_e * mdp.r).sum(axis=1)[states], gamma)
    return values


def _marginals(mdp: TabularMDP, pi: FloatArray) -> Iterator[FloatArray]:
    """d_t(s, a) for t = 0, 1, ...: (S, A)."""
    forward = mdp.P.T.tocsr()
    d = mdp.d0
    while True:
        pairs = d[:, None] * pi
        yield pairs
        d = np.asarray(forward @ pairs.ravel())[:-1]


class _Outcomes:
    """Variances over the transition from each (s, a)."""

    def __init__(self, mdp: TabularMDP) -> None:
        self.rows = entry_rows(mdp.P)
        self.columns, self.probs = mdp.P.indices, mdp.P.data
        self.shape = mdp.r.shape
        paid = mdp.transition_rewards
        self.paid = mdp.r.ravel()[self.rows] if paid is None else paid

    def variance(self, outcome: FloatArray) -> FloatArray:
        """Var[outcome | s, a] from one number a stored transition; (S, A)."""
        size = self.shape[0] * self.shape[1]
        mean = np.bincount(self.rows, self.probs * outcome, size)
        spread = np.bincount(self.rows, self.probs * (outcome - mean[self.rows]) ** 2, size)
        # What rounding leaves of a certain outcome must not count where pi_b never goes.
        rounding = (1e-13 * np.abs(outcome).max()) ** 2
        return np.where(spread > rounding, spread, 0.0).reshape(self.shape)


def _time_varying(
    mdp: TabularMDP, pi_e: FloatArray, pi_b: FloatArray, values: FloatArray, steps: int | None, gamma: float
) -> float:
    outcomes = _Outcomes(mdp)
    total, variance = 0.0, np.zeros(mdp.r.shape)
    for t, (d_e, d_b) in enumerate(zip(_marginals(mdp, pi_e), _marginals(mdp, pi_b), strict=False)):
        if t == steps:
            break
        if steps is not None or t == 0:
            v_tp1 = values[min(t + 1, len(values) - 1)]
            variance = outcomes.variance(outcomes.paid + gamma * v_tp1[outcomes.columns])
        cost = gamma ** (2 * t) * _over(d_e**2, d_b)
        total += float(_times(cost, variance).sum())
        if np.isinf(total) or (steps is None and cost.sum() * variance.max() <= NEGLIGIBLE * total):
            break
    return total


def _homogeneous(
    mdp: TabularMDP, pi_e: FloatArray, pi_b: FloatArray, values: FloatArray, steps: int | None, gamma: float
) -> float:
    outcomes = _Outcomes(mdp)
    visits_e, visits_b = np.zeros(mdp.r.shape), np.zeros(mdp.r.shape)
    following = np.zeros(outcomes.paid.size)  # sum_t gamma^t d_t^e(s, a) gamma V_{t+1}(s')
    for t, (d_e, d_b) in enumerate(zip(_marginals(mdp, pi_e), _marginals(mdp, pi_b), strict=False)):
        if t == steps:
            break
        v_tp1 = values[min(t + 1, len(values) - 1)]
        following += gamma ** (t + 1) * d_e.ravel()[outcomes.rows] * v_tp1[outcomes.columns]
        visits_e += gamma**t * d_e
        visits_b += d_b
        if steps is None and gamma**t * d_e.sum() + d_b.sum() <= NEGLIGIBLE:
            break
    spread = outcomes.variance(visits_e.ravel()[outcomes.rows] * outcomes.paid + following)
    return float(_over(spread, visits_b).sum())


def _over(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Quotient with 0 / 0 = 0 and x / 0 infinite."""
    quotient = np.where(numerator > 0, np.inf, 0.0)
    return np.divide(numerator, denominator, out=quotient, where=denominator > 0)


def _times(cost: FloatArray, variance: FloatArray) -> FloatArray:
    """Product with infinity * 0 = 0: an outcome without spread needs no data."""
    return np.multiply(cost, variance, out=np.zeros_like(cost), where=variance > 0)
