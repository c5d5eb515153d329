"""Exact theory on a known MDP: moments of the product estimators, and the best any estimator can do.

Example:
  >>> import deadweight as dw
  >>> lift = dw.domains.deterministic_lift(7)
  >>> round(dw.theory.moments(lift.mdp, lift.pi_e, lift.pi_b, "IS").variance, 6)
  7.0
"""

from __future__ import annotations

from deadweight.theory.cramer_rao import cramer_rao
from deadweight.theory.moments import Moments, moments
from deadweight.theory.planning import episodes_needed

__all__ = ["Moments", "cramer_rao", "episodes_needed", "moments"]
