"""Diagnostics: what the weights look like, what the log cannot answer, and which states cost what."""

from deadweight.diagnostics.pareto import pareto_k
from deadweight.diagnostics.states import StateReport, state_report
from deadweight.diagnostics.support import SupportReport, support
from deadweight.diagnostics.weights import WeightReport, weights

__all__ = [
    "StateReport",
    "SupportReport",
    "WeightReport",
    "pareto_k",
    "state_report",
    "support",
    "weights",
]
