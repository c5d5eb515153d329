r"""Exact mean, bias and variance of IS, SIS, PDIS and SPDIS, per episode.

With k_t the kept ratio (1 in a dropped state, pi_e / pi_b elsewhere), one episode contributes
:math:`B G = \prod_t k_t \sum_t \gamma^t r_t` to IS and SIS, and J_0 with :math:`J_t = k_t (r_t + \gamma
J_{t+1})` to PDIS and SPDIS. First and second moments of both obey linear recursions backwards in time,
here solved step by step up to a horizon and as linear systems until termination.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.errors import DropError, MDPError, UnknownEstimator, did_you_mean
from deadweight.log.state_sets import StateSet
from deadweight.mdp.chains import average_actions, check_terminates, reached, sum_until_end
from deadweight.mdp.tabular import TabularMDP, check_gamma, checked_horizon, policy_table, policy_value
from deadweight.mdp.transitions import entry_rows
from deadweight.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from deadweight.mdp.transitions import Sparse

ESTIMATORS = ("IS", "SIS", "PDIS", "SPDIS")


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
      >>> found = moments(lift.mdp, lift.pi_e, lift.pi_b, "IS")
      >>> round(found.mean, 9), round(found.variance, 9)
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


def _ended(values: FloatArray, at_end: float) -> FloatArray:
    """(S + 1,) with the value of termination appended."""
    return np.append(values, at_end)


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
    one, j, j2 = np.ones(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for _ in range(steps):
        j2[:-1] = second.paid_twice @ one + 2 * gamma * (second.paid @ j) + gamma**2 * (second.plain @ j2)
        j[:-1] = first.paid @ one + gamma * (first.plain @ j)
    return j[:-1], j2[:-1]


def _whole_until_end(
    first: _Averages, second: _Averages, d0: FloatArray, gamma: float
) -> tuple[float, float]:
    """The same moments until termination, each the solution of one linear system."""
    a, c = _System(first.plain, d0), _System(second.plain, d0)
    c.check_finite(1.0)
    b = a.solve(first.plain[:, [-1]].toarray().ravel(), 1.0)
    bg = a.solve(first.paid @ _ended(b, 1.0), gamma)
    b2 = c.solve(second.plain[:, [-1]].toarray().ravel(), 1.0)
    b2g = c.solve(second.paid @ _ended(b2, 1.0), gamma)
    gain = second.paid_twice @ _ended(b2, 1.0) + 2 * gamma * (second.paid @ _ended(b2g, 0.0))
    b2g2 = c.solve(gain, gamma**2)
    return float(d0 @ bg), float(d0 @ b2g2)


def _per_decision_until_end(
    first: _Averages, second: _Averages, d0: FloatArray, gamma: float
) -> tuple[float, float]:
    a, c = _System(first.plain, d0), _System(second.plain, d0)
    c.check_finite(gamma**2)
    one = np.ones(d0.size + 1)
    j = a.solve(first.paid @ one, gamma)
    j2 = c.solve(second.paid_twice @ one + 2 * gamma * (second.paid @ _ended(j, 0.0)), gamma**2)
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
