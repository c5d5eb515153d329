"""The four domains of the paper as exact MDPs: two lifts, inventory management, and taxi.

Example:
  >>> import deadweight as dw
  >>> dw.domains.deterministic_lift(7).true_value
  1.0
"""

from __future__ import annotations

from deadweight.domains.inventory import inventory
from deadweight.domains.lift import deterministic_lift, stochastic_lift
from deadweight.domains.problem import Problem
from deadweight.domains.taxi import taxi

__all__ = ["Problem", "deterministic_lift", "inventory", "stochastic_lift", "taxi"]
