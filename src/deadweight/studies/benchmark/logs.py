"""Problems for timings: uniform states and actions, so that nothing is easier than it would be in earnest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.log.trajectories import Trajectories
from deadweight.mdp.tabular import TabularMDP
from deadweight.typing import BoolArray, FloatArray

N_STATES, N_ACTIONS = 50, 4


@dataclass(frozen=True, eq=False)
class Setting:
    """A log with two policies and a state mask."""

    log: Trajectories
    pi_e: FloatArray
    pi_b: FloatArray
    mask: BoolArray

    @property
    def in_columns(self) -> Trajectories:
        """The log with both policies' probabilities of what was done."""
        log, taken = self.log, (self.log.states, self.log.actions)
        own, other = self.pi_b[taken], self.pi_e[taken]
        return Trajectories(*taken, log.rewards, log.offsets, propensities=own, target_probs=other)


def setting(episodes: int, horizon: int, n_states: int = N_STATES) -> Setting:
    """Episodes of equal length, 50 states, 4 actions, policies that differ moderately."""
    rng = np.random.default_rng(0)
    steps = episodes * horizon
    log = Trajectories(
        rng.integers(n_states, size=steps),
        rng.integers(N_ACTIONS, size=steps),
        rng.normal(size=steps),
        np.arange(0, steps + 1, horizon),
    )
    pi_e, pi_b = (rng.dirichlet(np.full(N_ACTIONS, 20.0), n_states) for _ in range(2))
    return Setting(log, pi_e, pi_b, rng.random(n_states) < 0.5)


def ragged(episodes: int, mean: int) -> Setting:
    """The same with episodes of one to twice as many steps."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 2 * mean, size=episodes)
    made = setting(1, int(lengths.sum()))
    log = Trajectories(
        made.log.states, made.log.actions, made.log.rewards, np.concatenate([[0], np.cumsum(lengths)])
    )
    return Setting(log, made.pi_e, made.pi_b, made.mask)


def sparse_problem(n_states: int, n_actions: int = 6, successors: int = 16) -> tuple[TabularMDP, FloatArray]:
    """An MDP with so many successors of each state and action, and a policy."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    pairs = n_states * n_actions
    to = np.column_stack(
        [rng.integers(n_states, size=(pairs, successors)), np.full((pairs, 1), n_states)]
    ).ravel()
    share = np.tile(np.append(np.full(successors, 0.999 / successors), 0.001), pairs)
    rows = np.repeat(np.arange(pairs), successors + 1)
    P = sparse.csr_array((share, (rows, to)), shape=(pairs, n_states + 1))
    mdp = TabularMDP(P, rng.normal(size=(n_states, n_actions)), np.full(n_states, 1 / n_states))
    return mdp, rng.dirichlet(np.ones(n_actions), n_states)
