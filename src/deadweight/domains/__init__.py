"""The four domains of the paper as exact MDPs: two lifts, inventory management, and taxi."""

from __future__ import annotations

from deadweight.domains.inventory import inventory
from deadweight.domains.lift import deterministic_lift, stochastic_lift
from deadweight.domains.problem import Problem
from deadweight.domains.taxi import taxi

__all__ = ["Problem", "deterministic_lift", "inventory", "stochastic_lift", "taxi"]
