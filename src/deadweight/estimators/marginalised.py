r"""Marginalised importance sampling (MIS, TMIS and, with a drop, SMIS, STMIS).

State marginals are propagated step by step, so that no product of ratios is ever formed:

.. math:: d_{t+1}(s') = \sum_s \frac{d_t(s)}{n_t(s)} \sum_{i: s_t = s} k_{it} 1[s_{t+1} = s'], \qquad
   \hat G = \sum_t \gamma^t \sum_s \frac{d_t(s)}{n_t(s)} \sum_{i: s_t = s} k_{it} r_{it}

(Xie, Ma & Wang, 2019). Tabular MIS (Yin & Wang, 2020) is the same recursion with the ratio to what the
behaviour policy was *seen* to do at time t, pi_e(a|s) n_t(s) / n_t(s, a); on dropped states actions are
pooled, which is ratio 1.

Conditional importance sampling (CIS; Rowland et al., 2020) replaces the weight by its mean given less than
the whole past:

.. math:: \hat G = \frac1n \sum_i \sum_t \gamma^t r_t \, E[\rho_{1:t} \mid \phi_t]

Given the state: r_t rho_t E[rho_{1:t-1} | s_t] by means over all visits of (t, s), which is marginalised
importance sampling without propagation. Given the reward, E[rho_{1:t} | r_t] by means over equal rewards of
step t; given the return, G E[rho_{1:H} | G]. With bins of one value the last two are PDIS and IS again, which
is a good test and no reason to use them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from deadweight.estimators.product import Fit
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import Added, KeyedSums
from deadweight.sums.weighting import Weighting
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.typing import AnyArray, FloatArray, IntArray
from deadweight.values.model import successors


@dataclass(frozen=True, eq=False)
class MarginalSums(Added):
    """Sums by (t, s, a'), where a' is the action or, for tabular MIS on dropped states, "any"."""

    n: int
    cells: KeyedSums  # number, sum of k r, number of steps whose successor is known
    moves: KeyedSums  # key (t, s, a', s'): sum of k
    starts: KeyedSums  # key s: number


class Marginalised:
    """MIS, or tabular MIS when `tabular` is pi_e as a table, (S, A).

    `unseen_actions` says what tabular MIS does with pi_e's mass on actions not seen in (t, s): "renormalise"
    the rest, or count it as "zero" (as published).
    """

    def __init__(
        self,
        weighting: Weighting,
        gamma: float,
        tabular: FloatArray | None = None,
        unseen_actions: str = "renormalise",
    ) -> None:
        self.weighting, self.gamma = weighting, gamma
        self.tabular, self.unseen_actions = tabular, unseen_actions
        self.n_states = weighting.pair.n_states
        # Actions of plain MIS are all alike; those of tabular MIS are apart, and A stands for "any".
        self.n_kinds = 1 if tabular is None else weighting.pair.n_actions + 1

    @property
    def key(self) -> Hashable:
        """Everything that the sums depend on."""
        return ("marginalised", self.weighting, self.gamma, self.tabular is None, self.unseen_actions)

    def summarise(self, block: Block) -> MarginalSums:
        """Sums by (t, s, a') and (t, s, a', s')."""
        cell = self._cell_keys(block)
        ratio = self._ratios(block)
        after = successors(block, self.n_states)
        moving = (after >= 0) & (after < self.n_states)
        return MarginalSums(
            block.n,
            KeyedSums.of(
                block.flat(cell),
                1.0,
                block.flat(ratio * block.rewards),
                block.flat(after >= 0).astype(np.float64),
            ),
            KeyedSums.of(cell[moving] * self.n_states + after[moving], ratio[moving]),
            KeyedSums.of(block.states[:, 0], 1.0),
        )

    def _ratios(self, block: Block) -> FloatArray:
        return np.ones(block.states.shape) if self.tabular is not None else self.weighting.on(block).kept

    def _cell_keys(self, block: Block) -> IntArray:
        """(m, H) key of (t, s, a')."""
        at = block.times * self.n_states + block.states
        if self.tabular is None:
            return at
        dropped = self.weighting.on(block).dropped
        kind = block.actions if dropped is None else np.where(dropped, self.n_kinds - 1, block.actions)
        return at * self.n_kinds + kind

    def finish(self, summary: MarginalSums, weighted: bool) -> Fit:
        """Propagate forwards for the value, backwards for its influence function."""
        with np.errstate(over="ignore", invalid="ignore"):
            chain = _Chain(self, summary)
        flags = chain.flags if np.isfinite(chain.value) else (*chain.flags, "overflow")
        return Fit(chain.value, influence=chain.influence, flags=flags)


class _Chain:
    """The time-dependent chain of a marginalised estimator.

    Cells are (t, s, a'); nodes are (t, s). A cell's reward and transition sums, times its scales, are its
    part of pi_e's expectations: 1 / n_t(s) for MIS, pi_e(a|s) / n_t(s, a) for tabular MIS. Transitions are
    averaged over the steps whose successor is known.
    """

    def __init__(self, family: Marginalised, sums: MarginalSums) -> None:
        self.family, self.n = family, sums.n
        self.cells = sums.cells.keys
        number, rewards, known = sums.cells.sums
        self.nodes, self.node_of = np.unique(self.cells // family.n_kinds, return_inverse=True)
        self.reward_scale, self.flags = self._scales(number)
        self.move_scale, _ = self._scales(known)
        times = self.nodes // family.n_states
        self.discount = family.gamma**times

        cell = np.searchsorted(self.cells, sums.moves.keys // family.n_states)
        target = (times[self.node_of[cell]] + 1) * family.n_states + sums.moves.keys % family.n_states
        node = np.minimum(np.searchsorted(self.nodes, target), len(self.nodes) - 1)
        goes_on = self.nodes[node] == target  # a logged successor that no episode goes on from is lost
        cell, to, moved = cell[goes_on], node[goes_on], sums.moves.sums[0][goes_on]
        source, flow = self.node_of[cell], moved * self.move_scale[cell]
        r = sums_by(self.node_of, rewards * self.reward_scale, size=len(self.nodes))

        self.d, self.v = np.zeros(len(self.nodes)), r.copy()
        self.d[np.searchsorted(self.nodes, sums.starts.keys)] = sums.starts.sums[0] / sums.n
        cuts = np.searchsorted(times[source], np.arange(int(times[-1]) + 2))
        spans = [slice(lo, hi) for lo, hi in pairwise(cuts) if hi > lo]
        for span in spans:
            np.add.at(self.d, to[span], self.d[source[span]] * flow[span])
        for span in reversed(spans):
            np.add.at(self.v, source[span], family.gamma * flow[span] * self.v[to[span]])
        self.value = float((self.discount * self.d * r).sum())

        # What a step is compared with in its influence: the cell's own mean, or for MIS the node's.
        carried = sums_by(cell, moved * self.v[to], size=len(self.cells))
        group = self.node_of if family.tabular is None else np.arange(len(self.cells))
        self.mean_reward = _mean(rewards, number, group)
        self.mean_carried = _mean(carried, known, group)
        self.reward_shift = self._shift(rewards * self.reward_scale, number)
        self.carried_shift = self._shift(carried * self.move_scale, known)

    def _scales(self, number: FloatArray) -> tuple[FloatArray, tuple[str, ...]]:
        """Factor of each cell's sums over `number` steps; a flag where pi_e has no mass on what was seen."""
        family = self.family
        visits = sums_by(self.node_of, number)[self.node_of]
        if family.tabular is None:
            return divide(1.0, visits), ()
        state, kind = self.nodes[self.node_of] % family.n_states, self.cells % family.n_kinds
        pooled = kind == family.n_kinds - 1
        by_kind = np.concatenate([family.tabular, np.zeros((len(family.tabular), 1))], axis=1)
        pi = np.where(number > 0, by_kind[state, kind], 0.0)
        mass = sums_by(self.node_of, pi)[self.node_of]
        flags = ("zero-weights",) if ((mass == 0) & ~pooled).any() else ()
        if family.unseen_actions == "zero":
            mass = np.ones_like(mass)
        # Of a node's visits the pooled ones count as they are, the others by pi_e within their own share.
        kept = sums_by(self.node_of, number * ~pooled)[self.node_of]
        scales = divide(divide(kept, visits) * pi, number * mass)
        return np.where(pooled, divide(1.0, visits), scales), flags

    def _shift(self, part: FloatArray, number: FloatArray) -> FloatArray:
        """What one more visit of a cell moves by changing the share of dropped visits in its node.

        Zero unless a drop by steps leaves dropped and kept visits in one (t, s). `part` is each cell's part
        of the node's mean.
        """
        if self.family.tabular is None:
            return np.zeros(len(self.cells))
        pooled = self.cells % self.family.n_kinds == self.family.n_kinds - 1
        group = 2 * self.node_of + pooled
        visits, mean = sums_by(self.node_of, number)[self.node_of], sums_by(self.node_of, part)[self.node_of]
        group_mean = divide(sums_by(group, part)[group] * visits, sums_by(group, number)[group])
        return divide(group_mean - mean, visits)

    def influence(self, block: Block) -> FloatArray:
        """(m,) influence of a block's episodes, up to a constant."""
        family = self.family
        cell = np.minimum(np.searchsorted(self.cells, family._cell_keys(block)), len(self.cells) - 1)
        node = self.node_of[cell]
        after = successors(block, family.n_states)
        target = (block.times + 1) * family.n_states + after
        to = np.minimum(np.searchsorted(self.nodes, target), len(self.nodes) - 1)
        goes_on = (after >= 0) & (after < family.n_states) & (self.nodes[to] == target)
        v_tp1 = np.where(goes_on, self.v[to], 0.0)
        ratio = family._ratios(block)
        with np.errstate(over="ignore", invalid="ignore"):
            change = self.reward_scale[cell] * (ratio * block.rewards - self.mean_reward[cell])
            change += self.reward_shift[cell]
            carried = ratio * v_tp1 - self.mean_carried[cell]
            moved = self.move_scale[cell] * carried + self.carried_shift[cell]
            change += family.gamma * np.where(after >= 0, moved, 0.0)
            change *= self.n * self.discount[node] * self.d[node]
        if block.alive is not None:
            change = np.where(block.alive, change, 0.0)
        first = np.searchsorted(self.nodes, block.states[:, 0])
        with np.errstate(invalid="ignore"):
            return np.asarray(self.v[first] + np.add.reduce(change, axis=1))


def _mean(sums: FloatArray, number: FloatArray, group: IntArray) -> FloatArray:
    """Per cell the mean over all cells of its group."""
    return divide(sums_by(group, sums)[group], sums_by(group, number)[group])


@dataclass(frozen=True, eq=False)
class ConditionalSums(Added):
    """Per condition: visits, sum of weights, sum of what they weigh."""

    n: int
    sums: KeyedSums


@dataclass(frozen=True, eq=False)
class _Cells:
    """One weight and one value a cell, and the condition under which weights are averaged."""

    keys: AnyArray  # (m, C) equal keys: equal conditions
    weights: FloatArray  # (m, C)
    values: FloatArray  # (m, C), discounted; zero on padding


@dataclass(frozen=True, eq=False)
class Conditional:
    """CIS given the "state", the "reward" or the "return"."""

    weighting: Weighting
    gamma: float
    given: str = "state"

    @property
    def key(self) -> Hashable:
        """Everything that the sums depend on."""
        return ("conditional", self.weighting, self.gamma, self.given)

    def summarise(self, block: Block) -> ConditionalSums:
        """Sums by condition."""
        with np.errstate(over="ignore", invalid="ignore"):  # too large a weight is flagged in `finish`
            cells = self._cells(block)
        flat = np.ravel if self.given == "return" else block.flat  # one cell an episode, or one a step
        sums = KeyedSums.of(flat(cells.keys), 1.0, flat(cells.weights), flat(cells.values))
        return ConditionalSums(block.n, sums)

    def finish(self, summary: ConditionalSums, weighted: bool) -> Fit:
        """Sum over conditions of (sum of values) times (mean weight)."""
        number, weights, values = summary.sums.sums
        mean_weight, mean_value = weights / number, values / number
        keys = summary.sums.keys
        with np.errstate(over="ignore", invalid="ignore"):
            value = float((values * mean_weight).sum() / summary.n)
        influence = partial(self._influence, keys=keys, mean_weight=mean_weight, mean_value=mean_value)
        return Fit(value, influence=influence, flags=() if np.isfinite(value) else ("overflow",))

    def _influence(
        self, block: Block, keys: AnyArray, mean_weight: FloatArray, mean_value: FloatArray
    ) -> FloatArray:
        """(m,) influence of a block's episodes, up to a constant; the means are those of the sorted keys."""
        with np.errstate(over="ignore", invalid="ignore"):
            cells = self._cells(block)
            at = np.minimum(np.searchsorted(keys, cells.keys), len(keys) - 1)
            w, y = mean_weight[at], mean_value[at]
            both = cells.values * w + y * (cells.weights - w)
            if block.alive is not None and self.given != "return":
                both = np.where(block.alive, both, 0.0)
            return np.asarray(np.add.reduce(both, axis=1))

    def _cells(self, block: Block) -> _Cells:
        weighted = self.weighting.on(block)
        weights = weighted.running
        if self.given == "return":
            returns = block.returns(self.gamma)[:, None]
            return _Cells(returns, weights.last.linear(), returns)
        discount = self.gamma ** np.arange(block.horizon)
        rewards = block.rewards * discount
        if self.given == "reward":
            # A complex number sorts and compares as the pair (t, r).
            return _Cells(block.times + 1j * block.rewards, weights.linear(), rewards)
        at = block.times * self.weighting.pair.n_states + block.states
        return _Cells(at, weights.lagged.linear()[:, :-1], rewards * weighted.kept)
