r"""The influence of a fitted model: what an episode does to an estimate by being in the model's counts.

An estimate depends on the action values by a table of derivatives, its *start* (`estimators/starts.py`).
Values of one step depend on those of the next, so the start is pushed forward through the model,

.. math:: f_t(s,a) = \mathrm{start}_t(s,a) + g_t(s) \, \pi_e(a|s), \qquad
   g_{t+1}(s') = \gamma \sum_{s,a} f_t(s,a) \hat P(s'|s,a), \qquad g_0 = 0

and a step (s, a, r, s') of episode i then moves the estimate by way of reward and transition of (s, a):

.. math:: \varphi_i = \sum \frac{n}{n(s,a)} \sum_t f_t(s,a) \left( r + \gamma V_{t+1}(s') - Q_t(s,a) \right)

Pairs that were never seen borrow from others, and what they do is shared out among those. The sum is sampling
noise only: what the model gets wrong in the limit is not in it. A given model has no influence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.basics.arithmetic import divide, sums_by
from deadweight.mdp.chains import average_actions
from deadweight.mdp.tabular import TabularMDP
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Folds
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.model import Counts, successors

# A pushed derivative that is so much smaller than its start changes nothing any more.
NEGLIGIBLE = 1e-17
# And what is still there after so many steps is there for ever.
MOST_STEPS = 20_000

Start = Callable[[int], FloatArray | None]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted model with what its influence needs.

    Attributes:
      model: the model.
      counts: what it was fitted to.
      pi_e: (S, A).
      v: (H, S) state values of pi_e at all steps over which the model is solved or, if it is solved until
        its values settle, at the steps of the log.
      settled: values go on as they are at the last of these steps; otherwise everything ends there.
      gamma: discount.
      unseen: what unseen pairs do, see `deadweight.values.model.fit_mdp`.
      fold, folds: the model has not seen the episodes of this fold; without folds it has seen all.
    """

    model: TabularMDP
    counts: Counts
    pi_e: FloatArray
    v: FloatArray
    settled: bool
    gamma: float
    unseen: str
    fold: int = 0
    folds: Folds | None = None

    def influence(self, start: Start, n: int) -> ModelInfluence:
        """The influence on an estimate from n episodes whose derivative by Q_t is start(t); None for none."""
        return ModelInfluence(self, self.push(start), n)

    def push(self, start: Start) -> Pushed:
        """The start pushed through the model, summed over the steps."""
        horizon, layout = len(self.v), self._layout
        total, carried = np.zeros(self.model.r.size), np.zeros(len(layout.source))
        g = np.zeros(self.model.n_states)
        for t in range(horizon):
            f = self._derivative(start(t), g)
            total += f
            carried += layout.lent(f)[layout.source] * self._ahead(t)[layout.target]
            g = self._forward(f)
        if self.settled:
            rest = self._until_it_ends(self._derivative(start(horizon), g), np.abs(total).sum())
            total += rest
            carried += layout.lent(rest)[layout.source] * self._ahead(horizon)[layout.target]
        return Pushed(total.reshape(self.model.r.shape), self.gamma * carried)

    def _derivative(self, start: FloatArray | None, g: FloatArray) -> FloatArray:
        f = (g[:, None] * self.pi_e).ravel()
        return f if start is None else f + start

    def _ahead(self, t: int) -> FloatArray:
        """(S + 1,) V_{t+1}, with the end, which is worth nothing."""
        after = min(t + 1, len(self.v) - 1) if self.settled else t + 1
        return np.append(self.v[after], 0.0) if after < len(self.v) else np.zeros(self.v.shape[1] + 1)

    def _until_it_ends(self, f: FloatArray, size: float) -> FloatArray:
        """The sum of what f becomes from step to step, at which values stay what they are."""
        g = self._forward(f)
        visits = np.zeros_like(g)
        for _ in range(MOST_STEPS):
            if np.abs(g).sum() <= NEGLIGIBLE * size:
                break
            visits += g
            g = self.gamma * (self._chain @ g)
        return f + self._derivative(None, visits)

    @cached_property
    def _chain(self) -> Any:
        """(S, S) from the derivative by V of one step to that of the next, under pi_e."""
        chain: Any = average_actions(self.model.P, self.pi_e)
        return chain[:, :-1].T.tocsr()

    def _forward(self, f: FloatArray) -> FloatArray:
        """gamma * sum over pairs of f(s, a) P(. | s, a)."""
        return self.gamma * self.model.forward(f)

    @cached_property
    def _layout(self) -> _Layout:
        return _Layout(self.counts, self.unseen)


@dataclass(frozen=True, eq=False)
class Pushed:
    """sum_t f_t(s, a), (S, A), and gamma sum_t f_t(s, a) V_{t+1}(s') of each logged transition."""

    total: FloatArray
    carried: FloatArray


class _Layout:
    """Which derivatives concern which logged transition.

    Entries are the distinct logged (s, a, s') and then, for the unseen actions of s that borrow its pooled
    transitions, the distinct logged (s, s').
    """

    def __init__(self, counts: Counts, unseen: str) -> None:
        n_states, n_actions = counts.n_states, counts.n_actions
        self.keys, self.number = counts.transitions.keys, counts.transitions.sums[0]
        self.n_states, self.n_actions = n_states, n_actions
        self.pair, after = np.divmod(self.keys, n_states + 1)
        self.visits = counts.visits()
        self.moves = sums_by(self.pair, self.number, n_states * n_actions).reshape(n_states, n_actions)
        state = self.pair // n_actions
        pooled, self.pooled = np.unique(state * (n_states + 1) + after, return_inverse=True)
        self.pooled_state = pooled // (n_states + 1)
        pool = unseen == "pool"
        self.borrows_reward = (self.visits == 0) & pool
        self.borrows_moves = (self.moves == 0) & pool
        self.source = np.concatenate([self.pair, n_states * n_actions + self.pooled_state])
        self.target = np.concatenate([after, pooled % (n_states + 1)])

    def lent(self, f: FloatArray) -> FloatArray:
        """f of each pair, followed by what the unseen actions of each state have together."""
        by_state = np.where(self.borrows_moves, f.reshape(self.moves.shape), 0.0).sum(axis=1)
        return np.concatenate([f, by_state])

    def on(self, block: Block) -> IntArray:
        """(m, H) the entry of each step; looked up once."""
        return block.once(self, self._place)

    def _place(self, block: Block) -> IntArray:
        pairs, after = pairs_of(block, self.n_actions), successors(block, self.n_states)
        known = after >= 0
        at = np.searchsorted(self.keys, pairs * (self.n_states + 1) + np.maximum(after, 0))
        # Transitions that a model has not seen are those of another fold: nobody asks for them.
        place = np.where(known, np.minimum(at, len(self.keys) - 1), len(self.keys) + pairs)
        if block.alive is not None:
            place[~block.alive] = len(self.keys) + self.n_states * self.n_actions
        return place


class ModelInfluence:
    """phi of the episodes of a block, up to a constant.

    Each step adds slope(s, a) * r + level(s, a, s'): two look-ups.
    """

    def __init__(self, fitted: FittedModel, pushed: Pushed, n: int) -> None:
        layout, counts = fitted._layout, fitted.counts
        self.fitted, self.n_actions = _Places(fitted), layout.n_actions
        total, visits, moves = pushed.total, layout.visits, layout.moves
        rewards = counts.rewards()
        earning = np.where(visits > 0, total, 0.0)
        if fitted.unseen == "mean":  # every seen pair earns for the unseen ones as well
            earning = np.where(visits > 0, total + total[visits == 0].sum() / np.count_nonzero(visits), 0.0)
        own = divide(earning, visits)
        shared = divide(np.where(layout.borrows_reward, total, 0.0).sum(axis=1), visits.sum(axis=1))
        slope = n * (own + shared[:, None])
        mean_reward = own * divide(rewards, visits)
        mean_reward += (shared * divide(rewards.sum(axis=1), visits.sum(axis=1)))[:, None]
        by_pair = -n * np.where(visits > 0, mean_reward, 0.0).ravel()

        size = len(layout.keys)
        carried, lent = pushed.carried[:size], pushed.carried[size:]
        mean = divide(sums_by(layout.pair, layout.number * carried, total.size), moves.ravel())
        pooled_number = sums_by(layout.pooled, layout.number, len(lent))
        pooled_moves = moves.sum(axis=1)
        pooled_mean = divide(sums_by(layout.pooled_state, pooled_number * lent, len(total)), pooled_moves)
        state = layout.pair // layout.n_actions
        moved = divide(carried - mean[layout.pair], moves.ravel()[layout.pair])
        moved += divide(lent[layout.pooled] - pooled_mean[state], pooled_moves[state])
        self.slope: FloatArray = slope.ravel()
        self.level: FloatArray = np.concatenate([by_pair[layout.pair] + n * moved, by_pair, [0.0]])

    def __call__(self, block: Block) -> FloatArray:
        """(m,) influence of the episodes of a block."""
        moved = block.look_up(self.slope, pairs_of(block, self.n_actions)) * block.rewards
        moved += block.look_up(self.level, self.fitted.place(block))
        total: FloatArray = np.add.reduce(moved, axis=1)
        seen = self.fitted.seen(block)
        return total if seen is None else np.where(seen, total, 0.0)


class _Places:
    """What of a fitted model is needed block by block: little, for it travels to other processes."""

    def __init__(self, fitted: FittedModel) -> None:
        self._layout = fitted._layout
        self._fold, self._folds = fitted.fold, fitted.folds

    def place(self, block: Block) -> IntArray:
        return self._layout.on(block)

    def seen(self, block: Block) -> BoolArray | None:
        """(m,) which episodes the model has seen; None for all."""
        return None if self._folds is None else self._folds(block) != self._fold


def pairs_of(block: Block, n_actions: int) -> IntArray:
    """(m, H) the pair of each step; with a single action all actions count as one."""
    return block.pairs(n_actions) if n_actions > 1 else block.states
