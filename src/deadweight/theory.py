r"""Exact theory on a known MDP: moments of the product estimators, and the best any estimator can do.

With k_t the kept ratio (1 in a dropped state, pi_e / pi_b elsewhere), one episode contributes
:math:`B G = \prod_t k_t \sum_t \gamma^t r_t` to IS and SIS, and J_0 with :math:`J_t = k_t (r_t + \gamma
J_{t+1})` to PDIS and SPDIS. First and second moments of both obey linear recursions backwards in time,
here solved step by step up to a horizon and as linear systems until termination.

Example:
  >>> import deadweight as dw
  >>> lift = dw.domains.deterministic_lift(7)
  >>> round(dw.theory.moments(lift.mdp, lift.pi_e, lift.pi_b, "IS").variance, 6)
  7.0
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.errors import DropError, MDPError, OptionError, UnknownEstimator, did_you_mean
from deadweight.log.interface import check_gamma
from deadweight.log.labels import StateSet
from deadweight.mdp.tabular import (
    TabularMDP,
    average_actions,
    backward,
    check_terminates,
    checked_horizon,
    entry_rows,
    policy_table,
    policy_value,
    reached,
    sum_until_end,
)
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from deadweight.mdp.tabular import Sparse

ESTIMATORS = ("IS", "SIS", "PDIS", "SPDIS")
# Until termination, the sum over time of a bound stops where what is left cannot change the result.
NEGLIGIBLE = 1e-17


@dataclass(frozen=True)
class Moments:
    """Exact moments of one episode's term; an estimate from n episodes has variance / n and the same bias.

    Attributes:
      mean: what the estimator estimates.
      variance: of one episode's term.
      bias: mean less the value of pi_e.

    Example:
      >>> Moments(mean=1.0, variance=3.0, bias=0.5).mse(episodes=12)
      0.5
    """

    mean: float
    variance: float
    bias: float

    def mse(self, episodes: int) -> float:
        """Mean squared error of the estimate from that many episodes."""
        return self.bias**2 + self.variance / episodes


def moments(
    mdp: TabularMDP,
    pi_e: Any,
    pi_b: Any,
    estimator: str = "SIS",
    drop: Any = None,
    horizon: int | None = None,
    gamma: float = 1.0,
) -> Moments:
    """Mean, variance and bias of one episode's term, without sampling.

    Args:
      mdp: the MDP that episodes come from.
      pi_e, pi_b: evaluation and behaviour policy: `TabularPolicy` or (S, A) probabilities.
      estimator: "IS", "SIS", "PDIS" or "SPDIS"; the plain names ignore `drop`.
      drop: dropped states: a `StateSet`, state indices, a boolean array (S,), or None.
      horizon: None takes the MDP's own horizon or, when it has none, runs until termination.
      gamma: discount.

    Raises:
      MDPError: until termination, the second moment may be infinite.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(17)
      >>> exact = moments(lift.mdp, lift.pi_e, lift.pi_b, "IS")
      >>> round(exact.mean, 9), round(exact.variance, 9)
      (1.0, 255.0)
    """
    if estimator not in ESTIMATORS:
        raise UnknownEstimator(
            f"'{estimator}' has no exact moments here.{did_you_mean(estimator, ESTIMATORS)}",
            fix=f"Choose one of {', '.join(ESTIMATORS)}.",
        )
    check_gamma(gamma)
    steps = mdp.horizon if horizon is None else checked_horizon(horizon)
    target, behaviour = policy_table(pi_e, mdp), policy_table(pi_b, mdp)
    dropped = drop_mask(drop if estimator.startswith("S") else None, mdp.n_states)
    # An action that pi_b never takes contributes nothing, whatever its ratio.
    ratio = np.divide(target, behaviour, out=np.zeros_like(target), where=behaviour > 0)
    kept = np.where(dropped[:, None], 1.0, ratio)
    first, second = _Averages(mdp, behaviour * kept), _Averages(mdp, behaviour * kept**2)
    per_decision = estimator.endswith("PDIS")
    if steps is None:
        chain = average_actions(mdp.P, behaviour)
        check_terminates(chain, reached(chain, mdp.d0))
        solve = _per_decision_until_end if per_decision else _whole_until_end
        mean, square = solve(first, second, mdp.d0, gamma)
    else:
        march = _per_decision_steps if per_decision else _whole_steps
        mean, square = (float(mdp.d0 @ x) for x in march(first, second, gamma, steps))
    truth = policy_value(mdp, target, steps, gamma)
    return Moments(mean, max(0.0, square - mean**2), mean - truth)


def drop_mask(drop: Any, n_states: int) -> BoolArray:
    """(S,) flags from a `StateSet`, state indices, a boolean array or None."""
    given = [] if drop is None else drop.states if isinstance(drop, StateSet) else drop
    array = np.asarray(given)
    if array.dtype == bool and array.shape == (n_states,):
        return array
    if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= n_states):
        raise DropError(
            f"drop must name states 0 to {n_states - 1}, or hold {n_states} flags; found {array!r}.",
            fix="Pass a StateSet, a list of state indices, or a boolean array with one flag a state.",
        )
    mask = np.zeros(n_states, dtype=bool)
    mask[array.astype(np.int64)] = True
    return mask


class _Averages:
    """sum_a w(s, a) sum_s' P(s'|s, a) R^m: (S, S+1) for m = 0, 1, 2."""

    def __init__(self, mdp: TabularMDP, weights: FloatArray) -> None:
        paid = mdp.transition_rewards
        if paid is None:
            paid = mdp.r.ravel()[entry_rows(mdp.P)]
        self.plain: Any = average_actions(mdp.P, weights)
        self.paid: Any = average_actions(_with_data(mdp.P, mdp.P.data * paid), weights)
        self.paid_twice: Any = average_actions(_with_data(mdp.P, mdp.P.data * paid**2), weights)


def _with_data(P: Sparse, data: FloatArray) -> Sparse:
    from scipy import sparse

    return sparse.csr_array((data, P.indices, P.indptr), shape=P.shape)


def _whole_steps(
    first: _Averages, second: _Averages, gamma: float, steps: int
) -> tuple[FloatArray, FloatArray]:
    """E[B G] and E[B^2 G^2] per start state, from E[B^m G^j] backwards."""
    n = first.plain.shape[0]
    b, bg = np.ones(n + 1), np.zeros(n + 1)
    b2, b2g, b2g2 = np.ones(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for _ in range(steps):
        bg[:-1] = first.paid @ b + gamma * (first.plain @ bg)
        b[:-1] = first.plain @ b
        b2g2[:-1] = (
            second.paid_twice @ b2 + 2 * gamma * (second.paid @ b2g) + gamma**2 * (second.plain @ b2g2)
        )
        b2g[:-1] = second.paid @ b2 + gamma * (second.plain @ b2g)
        b2[:-1] = second.plain @ b2
    return bg[:-1], b2g2[:-1]


def _per_decision_steps(
    first: _Averages, second: _Averages, gamma: float, steps: int
) -> tuple[FloatArray, FloatArray]:
    """E[J_0] and E[J_0^2] per start state."""
    n = first.plain.shape[0]
    ones, j, j2 = np.ones(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for _ in range(steps):
        j2[:-1] = second.paid_twice @ ones + 2 * gamma * (second.paid @ j) + gamma**2 * (second.plain @ j2)
        j[:-1] = first.paid @ ones + gamma * (first.plain @ j)
    return j[:-1], j2[:-1]


def _whole_until_end(
    first: _Averages, second: _Averages, d0: FloatArray, gamma: float
) -> tuple[float, float]:
    """E[B G] and E[B^2 G^2] until termination, each the solution of one linear system."""
    a, c = _System(first.plain, d0), _System(second.plain, d0)
    c.check_finite(1.0)
    b = a.solve(first.plain[:, [-1]].toarray().ravel(), 1.0)
    bg = a.solve(first.paid @ np.append(b, 1.0), gamma)
    b2 = c.solve(second.plain[:, [-1]].toarray().ravel(), 1.0)
    b2g = c.solve(second.paid @ np.append(b2, 1.0), gamma)
    gain = second.paid_twice @ np.append(b2, 1.0) + 2 * gamma * (second.paid @ np.append(b2g, 0.0))
    b2g2 = c.solve(gain, gamma**2)
    return float(d0 @ bg), float(d0 @ b2g2)


def _per_decision_until_end(
    first: _Averages, second: _Averages, d0: FloatArray, gamma: float
) -> tuple[float, float]:
    a, c = _System(first.plain, d0), _System(second.plain, d0)
    c.check_finite(gamma**2)
    ones = np.ones(d0.size + 1)
    j = a.solve(first.paid @ ones, gamma)
    j2 = c.solve(second.paid_twice @ ones + 2 * gamma * (second.paid @ np.append(j, 0.0)), gamma**2)
    return float(d0 @ j), float(d0 @ j2)


class _System:
    """x = gain + discount * M x on the states that M reaches from d0; elsewhere x is 0 and never matters."""

    def __init__(self, matrix: Sparse, d0: FloatArray) -> None:
        self._matrix = matrix
        self._states: IntArray = reached(matrix, d0)

    def solve(self, gain: Any, discount: float) -> FloatArray:
        x = np.zeros(self._matrix.shape[0])
        x[self._states] = sum_until_end(self._matrix, self._states, gain[self._states], discount)
        return x

    def check_finite(self, discount: float) -> None:
        """Refuse a spectral radius of 1 or more.

        For M >= 0 it is below 1 exactly when x = 1 + M x has a positive solution (I - M is an M-matrix).
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a singular system is one of the answers
            x = self.solve(np.ones(self._matrix.shape[0]), discount)[self._states]
        if not (np.isfinite(x) & (x > 0)).all():
            raise MDPError(
                "The second moment of the weights is infinite: episodes last too long for these policies.",
                fix="Pass a horizon, drop more states, or take a behaviour policy closer to pi_e.",
            )


# --- Cramer-Rao bounds.


def cramer_rao(
    mdp: TabularMDP,
    pi_e: Any,
    pi_b: Any,
    horizon: int | None = None,
    gamma: float = 1.0,
    homogeneous: bool = False,
) -> float:
    r"""The least variance, per episode, of any unbiased estimate of the value of pi_e (Cramer-Rao).

    Divide by n for n episodes; it is infinite where pi_b does not cover pi_e. With d_t^e and d_t^b the
    state-action marginals of the two policies and V = V^{pi_e}, a model that may change with time has

    .. math:: \mathrm{Var}[V_0(s_0)] + \sum_t \gamma^{2t} \sum_{s,a} \frac{d^e_t(s,a)^2}{d^b_t(s,a)}
              \mathrm{Var}[r + \gamma V_{t+1}(s') | s, a]

    and a model known to be the same at all times, whose visits add up, has

    .. math:: \mathrm{Var}[V_0(s_0)] + \sum_{s,a} \frac{1}{\sum_t d^b_t(s,a)}
              \mathrm{Var}\Bigl[\sum_t \gamma^t d^e_t(s,a) (r + \gamma V_{t+1}(s')) \Big| s, a\Bigr],

    which is never larger.

    Reference: Jiang & Li (2016); Yin & Wang (2020).

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


def episodes_needed(
    mdp: TabularMDP,
    pi_e: Any,
    pi_b: Any,
    std_error: float,
    estimator: str = "SIS",
    drop: Any = None,
    horizon: int | None = None,
    gamma: float = 1.0,
) -> int:
    r"""Episodes of pi_b for which the estimator's standard error is at most `std_error`.

    .. math:: n = \lceil \mathrm{Var}(X) / \mathrm{se}^2 \rceil

    X is one episode's term, with its exact variance; no number of episodes removes a bias.

    Args:
      mdp, pi_e, pi_b, estimator, drop, horizon, gamma: those of `moments`.
      std_error: the largest standard error.

    Example:
      >>> from deadweight.domains import deterministic_lift
      >>> lift = deterministic_lift(17)
      >>> episodes_needed(lift.mdp, lift.pi_e, lift.pi_b, std_error=0.1, estimator="IS")
      25500
    """
    if not std_error > 0:
        raise OptionError(
            f"std_error must be above 0; found {std_error!r}.", fix="For example std_error=0.1."
        )
    variance = moments(mdp, pi_e, pi_b, estimator, drop, horizon, gamma).variance
    # Rounding of the variance must not add an episode.
    return max(1, ceil(variance / std_error**2 * (1 - 1e-12)))


__all__ = ["Moments", "cramer_rao", "episodes_needed", "moments"]
