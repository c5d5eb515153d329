"""Exact theory on a known MDP: moments of the product estimators, and the best any estimator can do."""

from __future__ import annotations

from deadweight.theory.cramer_rao import cramer_rao
from deadweight.theory.moments import Moments, moments
from deadweight.theory.planning import episodes_needed

__all__ = ["Moments", "cramer_rao", "episodes_needed", "moments"]
