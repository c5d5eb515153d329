r"""Windowed weights (Win_k): the model's value, corrected by errors that only the latest k ratios weigh.

.. math:: \hat G = \mathrm{DM} + \sum_t \gamma^t p_t \frac{\sum_i w_{it} \delta_{it}}{\sum_i w_{it}}, \qquad
   w_{it} = \mu_b(s_{ib}) \, \rho_{ib} \cdots \rho_{it}, \quad b = \max(0, t - k + 1)

where delta = r + gamma V_{t+1}(s') - Q_t(s, a) is the model's error at a step, mu_t(s) the ratio of the
state's probabilities at step t under pi_e and pi_b, and p_t the share of episodes that pi_e keeps going so
long, both in the fitted model. With a right model all of it is a small correction; with a wrong one, errors
of rewards and of the next few transitions are found, at a variance that does not grow with the length of the
episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.estimators.influence import StartSums
from deadweight.estimators.product import Cells, Normalised, ProductFamily, QUse, Terms
from deadweight.mdp.tabular import occupancies
from deadweight.question.question import Question
from deadweight.sums import kernel
from deadweight.sums.blocks import Block, Field, readable
from deadweight.sums.summaries import NOTHING, ColumnSums, Kish, Running
from deadweight.sums.weighting import WeightedBlock, Weighting
from deadweight.tools.arithmetic import divide
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.model_influence import at_steps, known_successors

SHORTEST, LONGEST = 2, 3


@dataclass(frozen=True, eq=False)
class WindowWalk:
    """The sums of one walk of the kernel along a block, of K windows and H steps, and some for a blend.

    `Windowed` has its part in numpy as well, which takes a block where there is no kernel.
    """

    n: int  # episodes
    weight: FloatArray  # (K, H) sums of w
    weighted: FloatArray  # (K, H) of w times p delta
    squares: FloatArray  # (K, H) of w^2
    counted: FloatArray  # (H,) steps whose successor is known
    surprise: FloatArray  # (S,) squared errors of state values
    visits: FloatArray  # (S,) steps whose successor is known
    by_pair: FloatArray  # (K, H, S * A) sums of w p
    by_next: FloatArray  # (K, H, S) sums of w p by successor

    def column_sums(self, window: int) -> ColumnSums:
        """Sums of each step."""
        weight = self.weight[window - SHORTEST]
        shift = np.where(weight == 0, NOTHING, 0)
        return ColumnSums(self.n, False, shift, weight, self.weighted[window - SHORTEST], self.counted)

    def start_sums(self, window: int) -> tuple[StartSums, StartSums]:
        """Weights by step and pair, and by step and successor."""
        none = np.zeros(len(self.counted), dtype=np.int64)
        k = window - SHORTEST
        return StartSums(none, self.by_pair[k]), StartSums(none, self.by_next[k])

    def sizes(self, window: int) -> Kish:
        """Sums of weights and of their squares."""
        weight = self.weight[window - SHORTEST]
        shift = np.where(weight == 0, NOTHING, 0)
        return Kish(False, shift, weight, self.squares[window - SHORTEST])


@dataclass(frozen=True, eq=False)
class WindowWalks:
    """The walks of a model along blocks, each made once."""

    steps: ModelSteps

    def on(self, block: Block) -> WindowWalk | None:
        """The walk along a block; None where there is no kernel, or it declines the log."""
        return block.once(self, self._walk)

    def _walk(self, block: Block) -> WindowWalk | None:
        arguments = self._arguments(block)
        if arguments is None or kernel.KERNEL is None:
            return None
        horizon, n_states, n_actions = self.steps.q.shape
        count = LONGEST - SHORTEST + 1
        shapes: list[tuple[int, ...]] = [(count, horizon)] * 3 + [(horizon,), (n_states,), (n_states,)]
        shapes += [(horizon, n_states * n_actions, count), (horizon, n_states, count)]
        tables = [np.zeros(shape) for shape in shapes]
        if not kernel.KERNEL.window_sums(*arguments, count, tuple(table.reshape(-1) for table in tables)):
            return None
        h = block.horizon
        weight, weighted, squares = (table[:, :h] for table in tables[:3])
        by_pair, by_next = (np.ascontiguousarray(table[:h].transpose(2, 0, 1)) for table in tables[6:])
        counted, surprise, visits = tables[3][:h], tables[4], tables[5]
        return WindowWalk(block.n, weight, weighted, squares, counted, surprise, visits, by_pair, by_next)

    def influences(self, block: Block, on: Sequence[tuple[int, Normalised]]) -> FloatArray | None:
        """(k, m) influences of the episodes on the sums of some windows, up to constants."""
        arguments = self._arguments(block)
        if arguments is None or kernel.KERNEL is None:
            return None
        count = max(window for window, _ in on) - SHORTEST + 1
        slope, pull = np.zeros((2, count, len(self.steps.alive)))
        for window, sums in on:
            slope[window - SHORTEST, : len(sums.slope)] = sums.slope
            pull[window - SHORTEST, : len(sums.pull)] = sums.pull
        influences, factors = np.zeros((count, block.n)), (slope.reshape(-1), pull.reshape(-1))
        done = kernel.KERNEL.window_influences(*arguments, count, factors, influences.reshape(-1))
        return influences[[window - SHORTEST for window, _ in on]] if done else None

    def _arguments(self, block: Block) -> tuple[Any, ...] | None:
        steps, log = self.steps, block.log
        if kernel.KERNEL is None or log.discounting is not None:
            return None
        ratios = steps.weighting.for_kernel(log)
        columns = block.columns
        tables = (steps.q, steps.v, steps.ratios, steps.alive)
        if not all(map(readable, (*columns, *log.ends, *ratios.arrays[:5], *tables))):
            return None
        sources = (*ratios.arrays[:5], ratios.n_actions, steps.q.shape[1])
        values = (*(table.reshape(-1) for table in tables), steps.gamma, steps.nothing_after)
        return columns, log.ends, sources, values


@dataclass(frozen=True, eq=False)
class Errors:
    """The model's errors on a block, and where its steps lead."""

    delta: FloatArray  # (m, H) 0 where the log does not say where a step leads
    known: BoolArray  # (m, H) where it does
    after: IntArray  # (m, H) where each step leads, the end included, -1 for unknown and on padding


def latest(rho: FloatArray, window: int) -> FloatArray:
    """(m, H) the product of the latest `window` ratios of each step, of fewer near the start."""
    weights = rho.copy()
    for back in range(1, min(window, rho.shape[1])):
        weights[:, back:] *= rho[:, :-back]
    return weights


class ModelSteps:
    """Values, state ratios and the share of episodes that go on, by the model, at the steps of a log."""

    def __init__(self, question: Question) -> None:
        values = question.values
        pi_e = question.pi_e("Win_k")
        self.q, self.pi_e, self.gamma = values.q.values, pi_e, question.gamma
        # Row t + 1 has the values after step t, and a last column those of the end.
        self.v = at_steps(values.v.values, values.after[0])
        self.nothing_after = not values.after[0].any()
        self.d_e = question.reached
        d_b = occupancies(question.chain, question.pi_b, question.horizon)
        self.ratios: FloatArray = divide(self.d_e, d_b)
        self.alive: FloatArray = self.d_e.sum(axis=1)
        self.weighting = Weighting(question.pair)
        self.walks = WindowWalks(self)

    def errors(self, block: Block) -> Errors:
        """The errors on a block; computed once."""
        return block.once(self, self._errors)

    def _errors(self, block: Block) -> Errors:
        after, known = known_successors(block, self.v)
        values = self.q[block.times, block.states, block.actions]
        discount = self.gamma if block.during is None else block.during
        delta = block.paid + discount * self.v[block.times + 1, after] - values
        return Errors(np.where(known, delta, 0.0), known, after)

    def weights(self, block: WeightedBlock, window: int) -> FloatArray:
        """(m, H) mu_b(s_b) times the latest `window` ratios."""
        rho, steps = block.full, block.steps
        ratios = self.ratios[steps.times, steps.states]
        weights = latest(rho, window)
        first = min(window, block.horizon)
        weights[:, first:] *= ratios[:, 1 : block.horizon - window + 1]
        weights[:, :first] *= ratios[:, :1]
        if steps.standing is not None:  # a step whose outcome is known stands for those whose was cut off
            weights *= steps.standing[1]
        return weights


@dataclass(frozen=True)
class Windowed:
    """Terms of Win_k without DM: (w_t, p_t delta_t) for each step whose successor is known."""

    steps: ModelSteps  # what the model says
    window: int  # k
    n_groups = 1

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step; an episode leaves the normaliser with its end."""
        errors = self.steps.errors(block.steps)
        weights = self.steps.weights(block, self.window)
        values = errors.delta * self.steps.alive[: block.horizon]
        if block.steps.before is not None:
            # By the durations alone: the rows that a row stands for are in the weights.
            standing = block.steps.standing
            values = values * (block.steps.before if standing is None else block.steps.before / standing[0])
        return [Terms(Running(weights), values, counted=errors.known)]

    def summed(self, block: Block) -> ColumnSums | None:
        """The sums of its terms by the kernel; None where it does not take the block."""
        walk = self.steps.walks.on(block)
        return None if walk is None else walk.column_sums(self.window)

    def start_sums(self, block: Block) -> tuple[StartSums, StartSums] | None:
        """The sums of its uses, by the kernel."""
        walk = self.steps.walks.on(block)
        return None if walk is None else walk.start_sums(self.window)

    def influence(self, block: Block, on: Normalised) -> FloatArray | None:
        """(m,) the influence of the episodes on its sum, by the kernel."""
        influences = self.steps.walks.influences(block, [(self.window, on)])
        return None if influences is None else influences[0]

    @property
    def uses(self) -> tuple[QUse, QUse]:
        """Minus Q_t of the step, and V_{t+1} of its successor."""
        return QUse(0), QUse(0, self.steps.pi_e, later=True)

    def used(self, block: WeightedBlock) -> tuple[Cells, Cells]:
        """The steps whose successor is known, and those of them that lead to a state."""
        steps = self.steps
        errors = steps.errors(block.steps)
        after = errors.after
        goes_on = (after >= 0) & (after < steps.v.shape[1] - 1)
        cells = steps.weights(block, self.window) * steps.alive[: block.horizon]
        if block.steps.standing is not None:  # which the weights hold already
            cells /= block.steps.standing[0]
        weights = Running(cells)
        pairs = block.steps.pairs(steps.pi_e.shape[1])
        return Cells(weights, pairs, errors.known), Cells(weights, np.where(goes_on, after, 0), goes_on)


def model_steps(question: Question) -> ModelSteps:
    """The values and ratios of a question's model at the steps of its log; made once."""
    return question.made_once((ModelSteps,), lambda: ModelSteps(question))


def windowed(question: Question, steps: ModelSteps, window: int) -> ProductFamily:
    """Win_k without DM, to be finished self-normalised."""
    return ProductFamily([Windowed(steps, window)], Weighting(question.pair), question.gamma, "leave")


@dataclass(frozen=True, eq=False)
class RowWindow:
    r"""Terms (w_t, p_t delta_t) of each step where states are rows.

    .. math:: \mathrm{DM} + \sum_t \gamma^t p_t \frac{\sum_i w_{it} \delta_{it}}{\sum_i w_{it}}, \qquad
       w_{it} = \rho_{i, t - k + 1} \cdots \rho_{it}

    As Win_k, but without the ratio of the state's probabilities under both policies, which nobody knows of
    features, and with the share of the log's episodes that go on in place of the model's. With a right model
    the errors have mean zero under any weights. With a wrong one this is no estimate of the value, but it
    moves: that the last few actions matter in a way that the model does not see shows here first.
    """

    q: Field  # of the actions taken, by models that have not seen them
    v: Field  # of the rows, by the same models
    going: FloatArray  # (T,) the share of episodes that have a step t
    window: int  # k
    n_groups = 1

    def __call__(self, block: WeightedBlock, gamma: float, finished: str) -> list[Terms]:
        """One term a step; an episode leaves the normaliser with its end."""
        steps, rho = block.steps, block.full
        alive = np.ones(rho.shape, dtype=bool) if steps.alive is None else steps.alive
        weights = latest(rho, self.window)
        after: FloatArray = np.zeros(rho.shape)
        after[:, :-1] = np.where(alive[:, 1:], self.v.on(steps)[:, 1:], 0.0)
        discount = gamma if steps.during is None else steps.during
        errors = steps.paid + discount * after - self.q.on(steps)
        values = np.where(alive, errors, 0.0) * self.going[: block.horizon]
        if steps.before is not None:
            values = values * steps.before
        return [Terms(Running(weights), values, counted=alive)]


def row_window(question: Question, window: int) -> ProductFamily:
    """The correction of a window, to be finished self-normalised."""
    log, values = question.parts[0], question.values
    going: FloatArray = (log.lengths[None] > np.arange(question.horizon)[:, None]).mean(axis=1)
    terms = RowWindow(values.q, values.v, going, window)
    return ProductFamily([terms], Weighting(question.pair), question.gamma, "leave")


def value_of_starts(question: Question) -> float:
    """Mean value of the first rows, by models that have not seen them."""
    log = question.parts[0]
    return float(question.values.v.along(log)[log.offsets[:-1]].mean())
