"""The domains as Gymnasium environments.

Gymnasium loads this module when one of the registered names is made, so it is the one place that may import
gymnasium at the top. The names themselves come from `deadweight.mdp.gymnasium_worlds`.
"""

from __future__ import annotations

from typing import Any

import gymnasium  # noqa: TID253
import numpy as np

from deadweight.mdp import paper_domains
from deadweight.mdp.problem import RowSampler


class DomainEnv(gymnasium.Env[np.int64, np.int64]):
    """One of the four domains, with states and actions as integers.

    Args:
      domain: name of a function of `deadweight.domains`.
      render_mode: always None: there is nothing to see.
      **options: its arguments, such as `size=11` or `horizon=250`.

    The episode ends when the MDP terminates (the observation is then the state it left) and is truncated at
    the MDP's horizon. `info["prob"]` is the probability of the transition that happened.
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, domain: str, render_mode: str | None = None, **options: Any) -> None:
        self.problem = getattr(paper_domains, domain)(**options)
        self.render_mode = render_mode
        mdp = self.problem.mdp
        self.observation_space = gymnasium.spaces.Discrete(mdp.n_states)
        self.action_space = gymnasium.spaces.Discrete(mdp.n_actions)
        self._start = RowSampler(mdp.d0, np.array([0, mdp.n_states]))
        self._move = RowSampler(mdp.P.data, mdp.P.indptr)
        self._state, self._steps = -1, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Draw a first state."""
        super().reset(seed=seed)
        self._state = int(self._start.draw(np.zeros(1, dtype=np.int64), self.np_random)[0])
        self._steps = 0
        return np.int64(self._state), {"prob": float(self.problem.mdp.d0[self._state])}

    def step(self, action: Any) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Draw a transition."""
        mdp = self.problem.mdp
        row = self._state * mdp.n_actions + int(action)
        entry = int(self._move.draw(np.array([row]), self.np_random)[0])
        paid = mdp.r.ravel()[row] if mdp.transition_rewards is None else mdp.transition_rewards[entry]
        following = int(mdp.P.indices[entry])
        self._steps += 1
        terminated = following == mdp.n_states
        if not terminated:
            self._state = following
        truncated = not terminated and self._steps == mdp.horizon
        return np.int64(self._state), float(paid), terminated, truncated, {"prob": float(mdp.P.data[entry])}
