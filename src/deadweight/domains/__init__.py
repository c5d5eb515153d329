"""The four domains of the paper as exact MDPs (two lifts, inventory, taxi), and four with features.

Example:
  >>> import deadweight as dw
  >>> dw.domains.deterministic_lift(7).true_value
  1.0
"""

from __future__ import annotations

from deadweight.domains.cart_pole import cart_pole
from deadweight.domains.continuous_lift import continuous_lift
from deadweight.domains.feature_problem import FeatureProblem
from deadweight.domains.inventory import inventory
from deadweight.domains.lift import deterministic_lift, stochastic_lift
from deadweight.domains.navigation import navigation
from deadweight.domains.problem import Problem
from deadweight.domains.sepsis_like import sepsis_like
from deadweight.domains.taxi import taxi

__all__ = [
    "FeatureProblem",
    "Problem",
    "cart_pole",
    "continuous_lift",
    "deterministic_lift",
    "inventory",
    "navigation",
    "sepsis_like",
    "stochastic_lift",
    "taxi",
]
