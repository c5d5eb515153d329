"""Lift states: where the action changes nothing at all, known from the MDP itself."""

from __future__ import annotations

import numpy as np

from deadweight.log.state_sets import StateSet
from deadweight.mdp.tabular import TabularMDP

TOLERANCE = 1e-12


def lift(mdp: TabularMDP) -> StateSet:
    """States in which all actions have the same transitions and the same expected reward.

    Dropping them costs no bias: every action there has the same value. Needs the MDP; from a log,
    `q_gap` finds them approximately.

    Args:
      mdp: the MDP.

    Example:
      >>> from deadweight.domains import stochastic_lift
      >>> lift(stochastic_lift(11).mdp).states
      [1, 2, 3, 5, 6, 7]

    Reference: Bossens & Thomas (2024), Section VI.A.
    """
    scale = max(1.0, float(np.abs(mdp.r).max()))
    same = np.ptp(mdp.r, axis=1) <= TOLERANCE * scale
    first = mdp.P[:: mdp.n_actions]
    for action in range(1, mdp.n_actions):
        difference = abs(mdp.P[action :: mdp.n_actions] - first)
        same &= difference.max(axis=1).toarray().ravel() <= TOLERANCE
    return StateSet(same, np.arange(mdp.n_states), origin="lift states of the MDP")
