"""Sepsis treatment as a table of 716 states and 25 actions, where the package icu-sepsis is installed.

Its wheel holds transition tables estimated from MIMIC-III. They are read by path, since importing the package
needs a library that is no longer maintained.
"""

from __future__ import annotations

from importlib.metadata import distribution

import numpy as np

from deadweight.mdp.tabular import TabularMDP, q_values
from deadweight.typing import FloatArray

HORIZON = 500


def sepsis() -> tuple[TabularMDP, FloatArray]:
    """The MDP, and the clinicians' policy as (S, A) probabilities."""
    files = distribution("icu-sepsis").files or []
    path = next(file for file in files if file.name == "dynamics.npz").locate()
    with np.load(str(path)) as arrays:
        P, R, d0 = (np.array(arrays[name], dtype=float) for name in ("tx_mat", "r_mat", "d_0"))
        expert = np.array(arrays["expert_policy"], dtype=float)
    ended = expert.sum(axis=1) == 0  # death, survival, and what follows: nobody acts there
    P[ended] = 0.0  # mass that is missing from a row is termination
    expert[ended] = 1.0 / expert.shape[1]
    rewards = R if R.shape == P.shape else R.reshape(P.shape[:2])
    return TabularMDP(P, rewards, d0 / d0.sum(), horizon=HORIZON), expert


def softened_improvement(mdp: TabularMDP, expert: FloatArray) -> FloatArray:
    """Half clinician, half softmax of the clinicians' own action values, over what clinicians do at all."""
    q = q_values(mdp, expert, HORIZON)[0]
    better = np.where(expert > 0, np.exp((q - q.max(axis=1, keepdims=True)) / 0.01), 0.0)
    found: FloatArray = 0.5 * expert + 0.5 * better / better.sum(axis=1, keepdims=True)
    return found
