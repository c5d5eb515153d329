"""Inventory management (Section VI.B and Appendix E of the paper): how much to order against random demand.

The state is the stock, 0..S-1, the action the units ordered, cut to the room left. Demand is Gaussian with
mean S/4 and standard deviation S/6, made whole by rounding or by the ceiling; what is not sold stays.
The paper computes its reference value with the ceiling and simulates with rounding: two MDPs.
"""

from __future__ import annotations

from math import erfc, sqrt
from typing import Any

import numpy as np

from deadweight.domains.inventory_policies import policy_gradient, softened_optimal
from deadweight.domains.problem import Problem, as_policy, uniform
from deadweight.errors import OptionError
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import FloatArray

PURCHASE_COST = 2.49
SALE_PRICE = 3.99
HOLDING_COST = 0.03
POLICIES = {"policy-gradient": policy_gradient, "softened-optimal": softened_optimal}


def inventory(
    S: int = 10,
    demand: str = "round",
    reward: str = "textbook",
    horizon: int = 100,
    *,
    pi_e: Any = "policy-gradient",
) -> Problem:
    """Inventory management with a uniform behaviour policy.

    Args:
      S: number of stock levels, 0..S-1.
      demand: "round" or "ceil", how Gaussian demand becomes whole units.
      reward: "textbook" pays for the units sold; "published" repeats the paper's expected reward, which takes
        the probabilities of the next stock (under "ceil") for those of the demand.
      horizon: steps of an episode.
      pi_e: "policy-gradient" (500 seeded episodes, as in the paper), "softened-optimal", or a policy: a
        `TabularPolicy`, an (S, S) array, or the path of an .npy file.

    Example:
      >>> problem = inventory(pi_e="softened-optimal")
      >>> round(problem.true_value, 4), round(problem.behaviour_value, 4)
      (349.4761, 335.6075)
    """
    if int(S) != S or S < 2:
        raise OptionError(
            f"S, the number of stock levels, must be at least 2; found {S!r}.",
            fix="For example inventory(10).",
        )
    if demand not in ("round", "ceil"):
        raise OptionError(
            f"demand must be 'round' or 'ceil'; found {demand!r}.",
            fix="For example inventory(demand='round').",
        )
    if reward not in ("textbook", "published"):
        raise OptionError(
            f"reward must be 'textbook' or 'published'; found {reward!r}.",
            fix="For example inventory(reward='textbook').",
        )
    if isinstance(pi_e, str) and pi_e not in POLICIES and not pi_e.endswith(".npy"):
        raise OptionError(
            f"pi_e must be 'policy-gradient', 'softened-optimal', an .npy file or a policy; found {pi_e!r}.",
            fix="For example inventory(pi_e='softened-optimal').",
        )
    mdp = _inventory(int(S), demand, reward, horizon)
    probs = POLICIES[pi_e](mdp) if isinstance(pi_e, str) and pi_e in POLICIES else pi_e
    return Problem(f"inventory {S}, {demand}, {reward}", mdp, as_policy(probs, mdp), uniform(mdp))


def _inventory(S: int, demand: str, reward: str, horizon: int) -> TabularMDP:
    stock, order = np.indices((S, S))
    ordered = np.minimum(order, S - 1 - stock)
    available = stock + ordered  # (S, A)
    P = _leftover(S, demand)[available]
    cost = PURCHASE_COST * ordered + HOLDING_COST * available
    left = np.arange(S)
    if reward == "textbook":
        R = SALE_PRICE * (available[:, :, None] - left) - cost[:, :, None]
    else:
        R = SALE_PRICE * (_leftover(S, "ceil")[available] @ left) - cost
    return TabularMDP(P, R, np.eye(S)[0], horizon)


def _leftover(S: int, demand: str) -> FloatArray:
    """Row y: the distribution of the stock left from y units after one step's demand, (S, S)."""
    # Demand d covers what is at most d + 1/2 when rounded, at most d under the ceiling.
    edge = np.arange(S) + (0.5 if demand == "round" else 0.0)
    above = np.array([0.5 * erfc((x - S / 4) / (S / 6) / sqrt(2)) for x in edge])  # P(demand > d)
    exactly = -np.diff(above, prepend=1.0)
    table = np.zeros((S, S))
    for y in range(S):
        table[y, 1 : y + 1] = exactly[:y][::-1]
        table[y, 0] = 1.0 - table[y, 1:].sum()
    return table
