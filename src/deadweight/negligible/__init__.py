"""Negligible states: four ways to find them, and the path of estimates as more and more of them are dropped.

Each way returns a `StateSet` that knows why.

Example:
  >>> import deadweight as dw
  >>> lift = dw.domains.deterministic_lift(7)
  >>> dw.negligible.lift(lift.mdp)
  StateSet(2 of 5 states: {1, 3}; lift states of the MDP)
"""

from __future__ import annotations

from deadweight.negligible.covariance_test import covariance
from deadweight.negligible.path import EpsilonPath, epsilon_path
from deadweight.negligible.state_tests import DropWarning, lift, q_gap, return_test

__all__ = ["DropWarning", "EpsilonPath", "covariance", "epsilon_path", "lift", "q_gap", "return_test"]
