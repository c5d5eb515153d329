"""Diagnostics: what the weights look like, what the log cannot answer, and which states cost what.

Example:
  >>> import deadweight as dw
  >>> log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)]])
  >>> round(dw.diagnostics.weights(log, [[0.25, 0.75]], [[0.5, 0.5]]).ess, 6)
  1.6
"""

from __future__ import annotations

from deadweight.diagnostics.states import StateReport, SupportReport, state_report, support
from deadweight.diagnostics.tails import pareto_k
from deadweight.diagnostics.weight_report import WeightReport, weights

__all__ = [
    "StateReport",
    "SupportReport",
    "WeightReport",
    "pareto_k",
    "state_report",
    "support",
    "weights",
]
