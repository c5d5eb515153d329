r"""The direct method (DM): the value of pi_e in the fitted model, without any ratio.

.. math:: \hat G = \sum_s \hat d_0(s) \hat V_0(s)

Its standard error follows from the influence of one step on the model. With occupancies d_t of pi_e in the
model, a visit of (s, a) that leads to s' with reward r moves the estimate by

.. math:: \frac{\pi_e(a|s)}{n(s,a)} \sum_t \gamma^t d_t(s) \left[ r - \hat r(s,a)
   + \gamma \left( V_{t+1}(s') - \sum_{s''} \hat P(s''|s,a) V_{t+1}(s'') \right) \right]

and, where unseen actions borrow the state's pooled transitions or the mean reward of all pairs, by their
share of the same. It measures sampling noise only: what the model gets wrong in the limit is not in it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.arithmetic import divide, sums_by
from deadweight.blocks import Block
from deadweight.estimators.base import Fit
from deadweight.mdp import TabularMDP, backward
from deadweight.memory import NUMBER, require
from deadweight.model import Counts, successors
from deadweight.settling import Settled
from deadweight.typing import FloatArray


@dataclass(frozen=True)
class Episodes:
    """A number of episodes."""

    n: int

    def merge(self, other: Episodes) -> Episodes:
        """Both together."""
        return Episodes(self.n + other.n)


class Direct:
    """DM.

    Args:
      model: the fitted model, or the one that the user gives.
      pi_e: (S, A).
      horizon: T.
      gamma: discount.
      counts: what the model was fitted to; None for a given model, whose value has no sampling noise.
      unseen: what unseen actions do in the fitted model, see `deadweight.model.fit_mdp`.
      settled: values until the end, where the model has no horizon.
    """

    def __init__(
        self,
        model: TabularMDP,
        pi_e: FloatArray,
        horizon: int,
        gamma: float,
        counts: Counts | None,
        unseen: str = "pool",
        settled: Settled | None = None,
    ) -> None:
        self.model, self.pi_e, self.horizon, self.gamma = model, pi_e, horizon, gamma
        self.counts, self.unseen, self.settled = counts, unseen, settled

    @property
    def key(self) -> Hashable:
        """One for each model."""
        return ("direct", self.model, self.gamma)

    def summarise(self, block: Block) -> Episodes:
        """Nothing to sum: the model has it all."""
        return Episodes(block.n)

    def finish(self, summary: Episodes, weighted: bool) -> Fit:
        """The model's value, and the influence of each episode on it."""
        if self.settled is not None:
            v = np.append(self.settled.v, 0.0)[None, :]
        else:
            require(
                NUMBER * float(self.horizon + 1) * (self.model.n_states + 1),
                f"V of {self.horizon:,} steps x {self.model.n_states:,} states",
                "Use coarser states, or estimators without a model (WIS, WPDIS).",
            )
            v = np.zeros((self.horizon + 1, self.model.n_states + 1))  # V = 0 after the end, in each row
            for t, _, v_t in backward(self.model, self.pi_e, self.horizon, self.gamma):
                v[t, :-1] = v_t
        value = float(self.model.d0 @ v[0, :-1])
        if self.counts is None:
            return Fit(value, std_error=0.0)
        moves = _Influence(self, self.counts, v, summary.n)
        return Fit(value, influence=moves)


class _Influence:
    """Influence of the episodes of a block on the model's value."""

    def __init__(self, direct: Direct, counts: Counts, v: FloatArray, n: int) -> None:
        model, gamma = direct.model, direct.gamma
        n_states, n_actions = model.r.shape
        self.n, self.n_states, self.n_actions = n, n_states, n_actions
        self.start_value = v[0]
        rows, after = np.divmod(counts.transitions.keys, n_states + 1)
        state = rows // n_actions
        self.keys = np.unique(state * (n_states + 1) + after)
        src, dst = np.divmod(self.keys, n_states + 1)
        # occupancy(s) = sum_t gamma^t d_t(s); carried(s, s') = sum_t gamma^(t+1) d_t(s) V_{t+1}(s')
        if direct.settled is not None:
            occupancy = direct.settled.occupancy
            carried = gamma * occupancy[src] * v[0][dst]
        else:
            chain = _chain(model, direct.pi_e)
            d, occupancy, carried = model.d0.copy(), np.zeros(n_states), np.zeros(len(self.keys))
            for t in range(direct.horizon):
                weight = gamma**t * d
                occupancy += weight
                carried += gamma * weight[src] * v[t + 1][dst]
                d = chain(d)
        self.carried = carried

        visits, moves = counts.visits(), sums_by(rows, counts.transitions.sums[0], n_states * n_actions)
        moves = moves.reshape(n_states, n_actions)
        lent = direct.pi_e if direct.unseen == "pool" else np.zeros_like(direct.pi_e)
        borrowed_r = np.where(visits == 0, lent, 0.0).sum(axis=1)
        borrowed_p = np.where(moves == 0, lent, 0.0).sum(axis=1)
        reached = direct.pi_e * occupancy[:, None]
        if direct.unseen == "mean":  # every seen pair earns for the unseen ones as well
            reached = reached + reached[visits == 0].sum() / np.count_nonzero(visits)
        self.reward_scale = divide(reached, visits)
        self.reward_scale_pooled = divide(borrowed_r * occupancy, visits.sum(axis=1))
        self.move_scale = divide(direct.pi_e, moves)
        self.move_scale_pooled = divide(borrowed_p, moves.sum(axis=1))
        self.r = divide(counts.rewards(), visits)
        self.r_pooled = divide(counts.rewards().sum(axis=1), visits.sum(axis=1))
        # Mean of carried(s, .) over the logged successors of (s, a), and of s.
        at = np.searchsorted(self.keys, state * (n_states + 1) + after)
        total = sums_by(rows, counts.transitions.sums[0] * carried[at], n_states * n_actions)
        total = total.reshape(n_states, n_actions)
        self.mean = divide(total, moves)
        self.mean_pooled = divide(total.sum(axis=1), moves.sum(axis=1))

    def __call__(self, block: Block) -> FloatArray:
        """(m,) influence, up to a constant."""
        s = block.states
        a = block.actions if self.n_actions > 1 else np.zeros_like(s)  # where all actions count as one
        after = successors(block, self.n_states)
        known = after >= 0
        at = np.minimum(np.searchsorted(self.keys, s * (self.n_states + 1) + after), len(self.keys) - 1)
        carried = self.carried[at]
        change = self.reward_scale[s, a] * (block.rewards - self.r[s, a])
        change += self.reward_scale_pooled[s] * (block.rewards - self.r_pooled[s])
        moved = self.move_scale[s, a] * (carried - self.mean[s, a])
        moved += self.move_scale_pooled[s] * (carried - self.mean_pooled[s])
        change += np.where(known, moved, 0.0)
        if block.alive is not None:
            change = np.where(block.alive, change, 0.0)
        result: FloatArray = self.start_value[s[:, 0]] + self.n * np.add.reduce(change, axis=1)
        return result


def _chain(model: TabularMDP, pi_e: FloatArray) -> Any:
    """d -> the next step's state distribution under pi_e in the model."""
    stored, spread = model._stored, model._spread

    def step(d: FloatArray) -> FloatArray:
        weights = (d[:, None] * pi_e).ravel()
        following: FloatArray = np.asarray(weights @ stored)[:-1]
        return following if spread is None else following + float(weights @ spread)

    return step
