r"""The influence of a fitted model: what an episode does to an estimate by being in the model's counts.

An estimate depends on the action values by a table of derivatives, its *start* (`estimators/influence.py`).
Values of one step depend on those of the next, so the start is pushed forward through the model,

.. math:: f_t(s,a) = \mathrm{start}_t(s,a) + g_t(s) \, \pi_e(a|s), \qquad
   g_{t+1}(s') = \gamma \sum_{s,a} f_t(s,a) \hat P(s'|s,a), \qquad g_0 = 0

and a step (s, a, r, s') of episode i then moves the estimate by way of reward and transition of (s, a):

.. math:: \varphi_i = \sum \frac{n}{n(s,a)} \sum_t f_t(s,a) \left( r + \gamma V_{t+1}(s') - Q_t(s,a) \right)

Pairs that were never seen borrow from others, and what they do is shared out among those. The sum is sampling
noise only: what the model gets wrong in the limit is not in it. A given model has no influence.

A pair (s, a) that was seen once has no noise there: its reward and its successor are fitted exactly. What
pairs that were hardly seen leave open is

.. math:: v_u = \sum_{s,a} \left( \frac{o(s) \, \pi_e(a|s)}{n(s,a) + 1} \right)^2 g_s^2, \qquad
   o(s) = \sum_t \gamma^t \Pr_e(s_t = s)

with g_s^2 the mean square of r + gamma V_{t+1}(s') - V_t(s) over the visits of s, shrunk by one visit towards
that of all states. It falls with the square of the visits: in a long log it is next to nothing. The standard
error of DM has it once. The interval of BLEND adds it by itself to a covariance of influences, in which DM
does not bring it along.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.mdp.tabular import TabularMDP, average_actions
from deadweight.sums import kernel
from deadweight.sums.blocks import Block, Folds, readable
from deadweight.sums.lanes import aligned_zeros
from deadweight.sums.summaries import Added
from deadweight.tools.arithmetic import divide, sums_by, sums_by_row
from deadweight.tools.limits import one_blas_thread
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.model import MOST_CELLS, Counts, Layout, pairs_of, successors
from deadweight.values.until_end import UntilEnd

# A pushed derivative that is so much smaller than its start changes nothing any more.
NEGLIGIBLE = 1e-17
# And what is still there after so many steps is there for ever.
MOST_STEPS = 20_000
# A table of all (s, a, s') is used where it has at most so many cells for each that was logged.
SPARSE = 16
# Derivatives of so many cells are kept before they meet the values of the next step.
AT_ONCE = 1 << 21
# Steps of one product of matrices; as many whatever else is pushed, which changes no bit of a derivative.
MOST_STEPS_AT_ONCE = 64
# Tables of more numbers than this, 64 MiB, are not worth having.
MOST_NUMBERS = 1 << 23
# A table of all successors of all pairs may have so many rows for each that has been seen.
DENSE = 1.5
# Of a pack of columns, in `_model.c` as well: a line of cache.
MOST_COLUMNS = 8

Start = Callable[[int], FloatArray | None]


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted model with what its influence needs.

    The state values `v` of pi_e are those at all steps over which the model is solved or, if it is solved
    until its values settle, at the steps of the log: the same at all of them.
    """

    model: TabularMDP
    counts: Counts  # what it was fitted to
    pi_e: FloatArray  # (S, A)
    v: FloatArray  # (H, S)
    settled: bool  # values go on as they are at the last of these steps; otherwise everything ends there
    gamma: float
    unseen: str = "pool"  # what unseen pairs do, see `deadweight.values.model.fit_mdp`
    fold: int = 0  # whose episodes the model has not seen; without folds it has seen all
    folds: Folds | None = None
    until_end: UntilEnd | None = None  # the chain that pi_e makes of the model, if somebody has it

    def influences(self, starts: Sequence[Start], n: int) -> list[ModelInfluence]:
        """The influences on estimates from n episodes; start(t) is the derivative by Q_t, None for none."""
        with one_blas_thread() if self.model._table is not None else nullcontext():
            pushed = self.push(starts)
        levels = _Levels(self, n)
        at_once = max(1, AT_ONCE // self._layout.size)
        return [
            influence
            for lo in range(0, len(starts), at_once)
            for influence in levels.influences(pushed.part(slice(lo, lo + at_once)))
        ]

    def push(self, starts: Sequence[Start]) -> Pushed:
        """Each start pushed through the model, summed over the steps."""
        at_once = self._push_at_once(starts) if self.settled else None
        return self._push_by_step(starts) if at_once is None else at_once

    def _push_at_once(self, starts: Sequence[Start]) -> Pushed | None:
        """Where values are the same at every step only the sums over the steps matter, and they solve

        f = start + g pi_e, g = gamma f P. None where that could not be solved.
        """
        first = np.stack([_total(start, len(self.v) + 1, self.model.r.size) for start in starts])
        chain = UntilEnd(self.model, self.pi_e, self.gamma) if self.until_end is None else self.until_end
        later = chain.onwards(self._forward(first))
        if later is None:
            return None
        total, layout = first + self._spread(later), self._layout
        ahead = self.gamma * self._ahead(len(self.v))
        moved = total[:, layout.pair] * ahead[layout.after]
        lent = layout.lent(total)[:, layout.pooled_state] * ahead[layout.pooled_after]
        return Pushed(total.reshape(-1, *self.pi_e.shape), moved, lent)

    def _push_by_step(self, starts: Sequence[Start]) -> Pushed:
        horizon, size, count = len(self.v), self.model.r.size, len(starts)
        total, met = np.zeros((count, size)), _Meeting(self._layout, count, horizon)
        g = np.zeros((count, self.model.n_states))
        for t in range(horizon):
            f = self._derivative(starts, t, g)
            total += f
            met.add(f, self._ahead(t))
            g = self._forward(f)
        if self.settled:
            rest = self._until_it_ends(self._derivative(starts, horizon, g), np.abs(total).sum(axis=1))
            total += rest
            met.add(rest, self._ahead(horizon))
        moved, lent = met.sums()
        return Pushed(total.reshape(-1, *self.pi_e.shape), self.gamma * moved, self.gamma * lent)

    def _derivative(self, starts: Sequence[Start], t: int, g: FloatArray) -> FloatArray:
        f = self._spread(g)
        for k, start in enumerate(starts):
            derivative = start(t)
            if derivative is not None:
                f[k] += derivative
        return f

    def _spread(self, g: FloatArray) -> FloatArray:
        """(k, S * A) g(s) pi_e(a|s), of (k, S)."""
        return np.reshape(g[:, :, None] * self.pi_e, (len(g), -1))

    def _ahead(self, t: int) -> FloatArray:
        """(S + 1,) V_{t+1}, with the end, which is worth nothing."""
        after = min(t + 1, len(self.v) - 1) if self.settled else t + 1
        ahead = np.zeros(self.v.shape[1] + 1)
        if after < len(self.v):
            ahead[:-1] = self.v[after]
        return ahead

    def _until_it_ends(self, f: FloatArray, size: FloatArray) -> FloatArray:
        """The sum of what f becomes from step to step, at which values stay what they are."""
        g = self._forward(f)
        visits = np.zeros_like(g)
        for _ in range(MOST_STEPS):
            g[np.abs(g).sum(axis=1) <= NEGLIGIBLE * size] = 0.0  # each ends by itself
            if not g.any():
                break
            visits += g
            g = self.gamma * (self._chain @ g.T).T
        return f + self._spread(visits)

    @cached_property
    def _chain(self) -> Any:
        """(S, S) from the derivative by V of one step to that of the next, under pi_e."""
        return average_actions(self.model.P, self.pi_e)[:, :-1].T.tocsr()

    def _forward(self, f: FloatArray) -> FloatArray:
        """(k, S) gamma * sum over pairs of f(s, a) P(. | s, a)."""
        return self.gamma * self.model.forward(f)

    @property
    def _layout(self) -> Layout:
        if self.unseen not in self.counts.layouts:
            self.counts.layouts[self.unseen] = Layout(self.counts, self.unseen)
        layout: Layout = self.counts.layouts[self.unseen]
        return layout


def _total(start: Start, steps: int, size: int) -> FloatArray:
    """(S * A,) the sum of a start over the first steps, which a start with a method `total` knows itself."""
    if hasattr(start, "total"):
        summed: FloatArray | None = start.total(steps)
        return np.zeros(size) if summed is None else summed
    total = np.zeros(size)
    for derivative in map(start, range(steps)):
        if derivative is not None:
            total += derivative
    return total


class _Meeting:
    """sum_t f_t(s, a) V_{t+1}(s') of each logged transition, and the same of pooled ones, for k derivatives.

    Where most transitions were logged it is a product of matrices, many steps at a time.
    """

    def __init__(self, layout: Layout, count: int, steps: int) -> None:
        self._layout, pairs = layout, layout.n_states * layout.n_actions
        self._dense = pairs * (layout.n_states + 1) <= SPARSE * max(len(layout.keys), 1)
        self._lends = bool(layout.borrows_moves.any())
        self._most = max(1, min(steps, MOST_STEPS_AT_ONCE, AT_ONCE // pairs)) if self._dense else 1
        self._kept: list[tuple[FloatArray, FloatArray]] = []
        self._moved = np.zeros((count, len(layout.keys)))
        self._lent = np.zeros((count, len(layout.pooled_state)))

    def add(self, f: FloatArray, ahead: FloatArray) -> None:
        """One more step: (k, S * A) and (S + 1,)."""
        self._kept.append((f, ahead))
        if len(self._kept) >= self._most:
            self._collect()

    def sums(self) -> tuple[FloatArray, FloatArray]:
        """Both, (k, transitions) and (k, pooled ones)."""
        self._collect()
        return self._moved, self._lent

    def _collect(self) -> None:
        if not self._kept:
            return
        layout = self._layout
        f = np.stack([f_t for f_t, _ in self._kept], axis=-1)  # (k, S * A, steps)
        ahead = np.stack([v_tp1 for _, v_tp1 in self._kept])  # (steps, S + 1)
        self._kept.clear()
        self._moved += self._met(f, ahead, layout.pair, layout.after)
        if self._lends:
            lent = layout.lent(f.transpose(0, 2, 1)).transpose(0, 2, 1)
            self._lent += self._met(lent, ahead, layout.pooled_state, layout.pooled_after)

    def _met(self, f: FloatArray, ahead: FloatArray, source: Any, target: Any) -> FloatArray:
        if self._dense:
            return np.asarray(np.matmul(f, ahead)[:, source, target])  # of each derivative by itself
        return np.asarray(f[:, source, 0] * ahead[0, target])


@dataclass(frozen=True, eq=False)
class Pushed:
    """k starts pushed through a model."""

    total: FloatArray  # (k, S, A) sum_t f_t(s, a)
    moved: FloatArray  # (k, transitions) gamma sum_t f_t(s, a) V_{t+1}(s') of each logged transition
    lent: FloatArray  # (k, pooled) that of all unseen actions together that borrow a pooled (s, s')

    def part(self, which: slice) -> Pushed:
        """A part of the starts."""
        return Pushed(self.total[which], self.moved[which], self.lent[which])


@dataclass(frozen=True, eq=False)
class ModelInfluence:
    """phi of the episodes of a block, up to a constant.

    Each step adds slope(s, a) * r + level(s, a, s'): two look-ups. The episodes of `fold` do not move the
    model, which has not seen them.
    """

    layout: Layout  # places of steps in the tables
    slope: FloatArray  # (S * A,)
    level: FloatArray  # by place
    during: FloatArray | None  # by place, what the discount of a step adds; None where it has none of its own
    fold: int
    folds: Folds | None

    def __call__(self, block: Block) -> FloatArray:
        """(m,) influence of the episodes of a block."""
        moved = block.look_up(self.slope, pairs_of(block, self.layout.n_actions)) * block.paid
        moved += block.look_up(self.level, self.layout.on(block))
        if self.during is not None:
            moved += block.look_up(self.during, self.layout.on(block)) * block.during
        total: FloatArray = np.add.reduce(moved, axis=1)
        return total if self.folds is None else np.where(self.folds(block) != self.fold, total, 0.0)


class _Levels:
    """The tables of influences on estimates from n episodes, several at a time."""

    def __init__(self, fitted: FittedModel, n: int) -> None:
        self._fitted, self._n, self._layout = fitted, n, fitted._layout
        visits, rewards = self._layout.visits, fitted.counts.rewards()
        self._seen, self._by_state = visits > 0, visits.sum(axis=1)
        self._mean_reward = divide(rewards, visits)
        self._pooled_reward = divide(rewards.sum(axis=1), self._by_state)

    def influences(self, pushed: Pushed) -> list[ModelInfluence]:
        """One for each start."""
        fitted, n = self._fitted, self._n
        slope, by_pair = self._rewards(pushed.total)
        follows, change = self._moves(pushed)
        count, nothing = len(slope), np.zeros((len(slope), 1))
        during: Sequence[FloatArray | None] = [None] * count
        if fitted.counts.by_duration:
            during = list(np.concatenate([n * follows, np.zeros_like(by_pair), nothing], axis=1))
            change = change - follows
        level = np.concatenate([by_pair[:, self._layout.pair] + n * change, by_pair, nothing], axis=1)
        return [
            ModelInfluence(self._layout, *tables, fitted.fold, fitted.folds)
            for tables in zip(slope, level, during, strict=True)
        ]

    def _rewards(self, total: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(k, S * A) what a reward moves by, and what the mean reward of the pair takes away again."""
        layout, seen, count = self._layout, self._seen, len(total)
        earning = np.where(seen, total, 0.0)
        if self._fitted.unseen == "mean":  # every seen pair earns for the unseen ones as well
            others = total[:, ~seen].sum(axis=1) / np.count_nonzero(seen)
            earning = np.where(seen, total + others[:, None, None], 0.0)
        by_visit = divide(earning, layout.visits)
        shared = divide(np.where(layout.borrows_reward, total, 0.0).sum(axis=2), self._by_state)
        slope: FloatArray = self._n * (by_visit + shared[:, :, None])
        mean_reward = by_visit * self._mean_reward
        mean_reward += (shared * self._pooled_reward)[:, :, None]
        by_pair: FloatArray = -self._n * np.where(seen, mean_reward, 0.0)
        return slope.reshape(count, -1), by_pair.reshape(count, -1)

    def _moves(self, pushed: Pushed) -> tuple[FloatArray, FloatArray]:
        """(k, transitions) what follows a step, and that less its mean: of one visit among all of the pair.

        A step that has a discount of its own is worth that times what follows, less the mean; else once.
        """
        layout, moved, lent = self._layout, pushed.moved, pushed.lent
        moves = layout.moves.ravel()
        mean = divide(sums_by_row(layout.pair, layout.discount * moved, moves.size), moves)
        number = moves[layout.pair]
        follows, change = divide(moved, number), divide(moved - mean[:, layout.pair], number)
        if layout.borrows_moves.any():
            pooled_number = sums_by(layout.pooled, layout.discount, lent.shape[1])
            pooled_moves = layout.moves.sum(axis=1)
            pooled_mean = divide(
                sums_by_row(layout.pooled_state, pooled_number * lent, pooled_moves.size), pooled_moves
            )
            state = layout.pair // layout.n_actions
            follows += divide(lent[:, layout.pooled], pooled_moves[state])
            change += divide(lent[:, layout.pooled] - pooled_mean[:, state], pooled_moves[state])
        return follows, change


class JointInfluence:
    """Sums of influences of many models, or of many folds, on the episodes of a block, in one walk along it.

    Each influence is a sum of two look-ups a step. Side by side in one table they cost little more than one
    of them. An episode moves the models of all folds but its own, so the tables of those are added up before.

    Args:
      each: for each sum, the influences that it is made of; all have the same states and actions, and all
        have folds or none has.
    """

    def __init__(self, each: Sequence[Sequence[ModelInfluence]]) -> None:
        self.each = tuple(map(tuple, each))
        first = self.each[0][0]
        self.folds = first.folds
        self.n_states, self.n_actions = first.layout.n_states, first.layout.n_actions

    def __call__(self, block: Block) -> FloatArray:
        """(k, m) the sums for the episodes of a block."""
        compiled = self._compiled(block)
        if compiled is not None:
            return compiled
        return np.stack([sum((part(block) for part in parts), np.zeros(block.n)) for parts in self.each])

    def _compiled(self, block: Block) -> FloatArray | None:
        log = block.log
        columns = block.columns
        if (
            kernel.KERNEL is None
            or log.discounting is not None
            or not all(map(readable, (*columns, *log.ends)))
            or self._tables is None
        ):
            return None
        fold_of = None if self.folds is None else self.folds(block)
        count = 1 if self.folds is None else self.folds.count
        sums = np.empty((block.n, len(self.each)))
        sizes = (count, self.n_states, self.n_actions, len(self.each))
        done = kernel.KERNEL.model_influences(
            columns, log.ends, fold_of, *sizes, self._tables, sums.reshape(-1)
        )
        return sums.T if done else None

    @cached_property
    def _tables(self) -> tuple[IntArray | None, FloatArray, FloatArray] | None:
        """Places of pairs and successors, slopes and levels; None where they would be too large.

        Where most successors of most pairs have been seen, each has its own place, which nobody looks up.
        """
        pairs, width = self.n_states * self.n_actions, self.n_states + 2
        if pairs * width > MOST_CELLS:
            return None
        layouts = dict.fromkeys(part.layout for parts in self.each for part in parts)
        logged = np.zeros(pairs * (self.n_states + 1), dtype=bool)
        for layout in layouts:
            logged[layout.keys] = True
        union: IntArray = np.flatnonzero(logged)
        dense = pairs * width <= DENSE * len(union)
        places, folds = len(union) + pairs + 1, 1 if self.folds is None else self.folds.count
        pair, after = np.divmod(union, self.n_states + 1)
        known, unknown = np.arange(len(union)), len(union) + np.arange(pairs)
        if dense:
            places, known, unknown = pairs * width, pair * width + after, np.arange(1, pairs + 1) * width - 1
        if folds * places * len(self.each) > MOST_NUMBERS:
            return None
        number = np.cumsum(logged) - 1
        place_in = {layout: known[number[layout.keys]] for layout in layouts}
        slope = np.zeros((folds, pairs, len(self.each)))
        level = np.zeros((folds, places, len(self.each)))
        for column, parts in enumerate(self.each):
            for part in parts:
                seen = [fold for fold in range(folds) if self.folds is None or fold != part.fold]
                at, size = place_in[part.layout], len(part.layout.keys)
                slope[seen, :, column] += part.slope
                for fold in seen:
                    level[fold, at, column] += part.level[:size]
                    level[fold, unknown, column] += part.level[size : size + pairs]
        if dense:
            return None, _in_packs(slope), _in_packs(level)
        cells = np.full((pairs, width), places - 1, dtype=np.int64)
        cells[pair, after] = known
        cells[:, -1] = unknown
        return cells.reshape(-1), _in_packs(slope), _in_packs(level)


def _in_packs(table: FloatArray) -> FloatArray:
    """The columns of (folds, rows, columns) as the kernel takes them: eight at a time, then four, two, one.

    Each pack is a table of its own, which fits in a nearer cache than all of them would.
    """
    packed, first = aligned_zeros(table.size), 0
    while first < table.shape[2]:
        size = min(MOST_COLUMNS, 1 << ((table.shape[2] - first).bit_length() - 1))
        pack = table[..., first : first + size]
        packed[table[..., :first].size :][: pack.size] = pack.reshape(-1)
        first += size
    return packed


# --- What pairs that were hardly seen could do to the value of a fitted model


@dataclass(frozen=True, eq=False)
class SquaresByState(Added):
    """Squared errors of the model's state values, and steps, by state."""

    squares: FloatArray  # (S,)
    visits: FloatArray  # (S,)


class Surprise:
    """The squares of r + gamma V_{t+1}(s') - V_t(s) by state.

    Args:
      model: whose values they are.
      v: (T + 1, S + 1) at the steps of the log and after the last of them, with the end; one row where values
        are the same at every step.
      gamma: discount.
    """

    def __init__(self, model: Hashable, v: FloatArray, gamma: float) -> None:
        self.key = ("surprise", model, gamma)
        self.v, self.gamma = v, gamma

    def summarise(self, block: Block) -> SquaresByState:
        """The sums over the steps of a block whose successor is known."""
        size = self.v.shape[1] - 1
        after, known = known_successors(block, self.v)
        s, t = block.states[known], block.times[known]
        now, then = (0, 0) if len(self.v) == 1 else (t, t + 1)
        discount = self.gamma if block.during is None else block.during[known]
        errors = block.paid[known] + discount * self.v[then, after[known]] - self.v[now, s]
        return SquaresByState(sums_by(s, np.square(errors), size), sums_by(s, size=size))


def known_successors(block: Block, v: FloatArray) -> tuple[IntArray, BoolArray]:
    """(m, H) where each step leads, the end included and -1 for unknown, and for which steps that is known.

    After the last step of all nothing may count, wherever it leads; `v` is (T + 1, S + 1) as in `Surprise`.
    """
    after = successors(block, v.shape[1] - 1)
    known = after >= 0
    if block.horizon == len(v) - 1 and not v[-1].any():
        known[:, -1] = block.lengths == block.horizon
    return after, known


def at_steps(v: FloatArray, after: FloatArray) -> FloatArray:
    """(T + 1, S + 1) values of (T, S) steps and of (S,) what follows the last one, with the end."""
    table = np.zeros((len(v) + 1, v.shape[1] + 1))
    table[:-1, :-1], table[-1, :-1] = v, after
    return table


def unseen_errors(
    squares: SquaresByState, occupancy: FloatArray, pi_e: FloatArray, visits: FloatArray
) -> FloatArray:
    """(S, A) what each pair adds to the root of v_u, from (S,) o(s), pi_e and n(s, a)."""
    overall = divide(squares.squares.sum(), squares.visits.sum())
    by_state = (squares.squares + overall) / (squares.visits + 1.0)
    return np.asarray(occupancy[:, None] * pi_e / (visits + 1.0) * np.sqrt(by_state)[:, None])
