"""The four domains of the paper as exact MDPs (two lifts, inventory, taxi), and four with features.

Example:
  >>> import deadweight as dw
  >>> dw.domains.deterministic_lift(7).true_value
  1.0
"""

from __future__ import annotations

from deadweight.mdp.feature_worlds import cart_pole, continuous_lift, navigation, sepsis_like
from deadweight.mdp.paper_domains import deterministic_lift, inventory, stochastic_lift, taxi
from deadweight.mdp.problem import FeatureProblem, Problem

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
