r"""Weighting: the ratios of a log, and which of them are kept.

The prefix S of the paper is this file: the kept ratio k_t is 1 in a dropped state and rho_t elsewhere. Every
estimator is written with k_t and is its plain self when nothing is dropped. The full ratios are never
overwritten: incremental and density-ratio estimators need both. The terms of an estimator are made of a
`WeightedBlock`: whatever is asked of it is computed once and shared by all estimators with its weighting.

Importance sampling of whole episodes and of steps needs few sums: for each episode its whole weight B, its
return G and :math:`\sum_t \gamma^t W_t r_t`; for each step :math:`\sum_i W_t` and :math:`\sum_i W_t r_t`. The
compiled kernel reads them off the flat columns of the log in one `Walk`, without an (m, H) matrix. It works
in plain doubles and declines a block whose products leave their range; such a block is left to numpy.

Products are taken linearly, which is several times faster than sums of logarithms and gives exactly 1 when
pi_e = pi_b. Where a product could leave the range of doubles, it is carried as value * 2**exponent, with a
new exponent every few steps. The test is on what the product reaches on its way, or could: an excursion that
comes back is caught as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deadweight.errors import SupportError, first_few
from deadweight.log.labels import plain
from deadweight.log.trajectories import Trajectories
from deadweight.sums import kernel
from deadweight.sums.blocks import Block, ExceptFirst, Field, Table, discounts, readable
from deadweight.sums.pairs import PolicyPair, quotient
from deadweight.sums.summaries import NOTHING, Kish, Running
from deadweight.tools.arithmetic import Key
from deadweight.typing import AnyArray, BoolArray, FloatArray

# Products are safe up to exp(+-300): their squares, and squares times returns, are still doubles.
SAFE_LOG = 300.0
ANY_STRIDE = 1 << 30


@dataclass(frozen=True, eq=False)
class Ratios:
    """The arrays in which the kernel finds the kept ratio of a step.

    In `table` by state and action; or as the quotient of `top` and `bottom`, each a table or a column. A drop
    that the table does not hold yet is one flag for each step or a state.
    """

    n_actions: int  # columns of the tables, which are flat
    table: FloatArray | None = None
    log_bound: float | None = None  # on abs(log(ratio)) over the positive ones of `table`; None: look at each
    top_table: FloatArray | None = None
    bottom_table: FloatArray | None = None
    top_column: FloatArray | None = None
    bottom_column: FloatArray | None = None
    dropped_steps: BoolArray | None = None
    dropped_states: BoolArray | None = None

    @property
    def stride(self) -> int:
        """Number of steps in which a product within exp(+-SAFE_LOG) stays within the square of that."""
        if self.log_bound is None or self.log_bound > SAFE_LOG:
            return 1
        return ANY_STRIDE if self.log_bound == 0 else min(ANY_STRIDE, int(SAFE_LOG / self.log_bound))

    @property
    def arrays(self) -> tuple[AnyArray | None, ...]:
        """The arrays in the order in which the kernel takes them."""
        tables = (self.table, self.top_table, self.bottom_table)
        return (*tables, self.top_column, self.bottom_column, self.dropped_steps, self.dropped_states)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the kernel that describe the ratios."""
        return (*self.arrays, self.n_actions, self.stride)


@dataclass(frozen=True, eq=False)
class Walk:
    """The sums of one pass of the kernel along the episodes of a block; its weights are plain doubles."""

    columns: tuple[AnyArray, ...]  # of the block's log, and its episodes
    ratios: Ratios
    final: FloatArray  # (m,) B
    returns: FloatArray  # (m,) G
    plain: FloatArray  # (m,) sum over t of gamma**t W_t r_t
    weight: FloatArray  # (H,) sum over i of W_t, with the last weights of ended episodes
    weighted: FloatArray  # (H,) sum over i of W_t r_t

    def influence(self, slope: FloatArray, pull: FloatArray) -> FloatArray:
        """(m,) sum over t of W_t (r_t slope_t - pull_t), of (T,) factors, T >= H.

        An ended episode has r = 0 and its last weight.
        """
        after = np.append(np.cumsum(pull[::-1])[::-1], 0.0)
        influence = np.empty(len(self.final))
        assert kernel.KERNEL is not None
        done = kernel.KERNEL.influences(self.columns, self.ratios.arguments, (slope, pull, after), influence)
        assert done, "the same products have been in range before"
        return influence


def walk(block: Block, ratios: Ratios, gamma: float) -> Walk | None:
    """The walk along a block; None where there is no kernel, or it declines the block."""
    columns = _columns(block, ratios)
    if kernel.KERNEL is None or columns is None:
        return None
    m, horizon = block.n, block.horizon
    final, returns, plain = np.empty(m), np.empty(m), np.empty(m)
    weight, weighted, scratch = np.zeros(horizon), np.zeros(horizon), np.zeros(4 * (horizon + 1))
    results = (final, returns, plain, weight, weighted)
    discount = discounts(gamma, horizon)
    if not kernel.KERNEL.sums(columns, ratios.arguments, discount, results, scratch):
        return None
    return Walk(columns, ratios, *results)


def _columns(block: Block, ratios: Ratios) -> tuple[AnyArray, ...] | None:
    """The kernel's view of a block; None where it cannot read it, or these ratios leave its range."""
    columns = block.columns
    fits = all(map(readable, (*columns, *ratios.arrays))) and (ratios.log_bound or 0.0) <= SAFE_LOG
    return columns if fits else None


class WeightedBlock:
    """m episodes of at most H steps, the block `steps`, with the ratios of a weighting."""

    def __init__(self, steps: Block, weighting: Weighting) -> None:
        self.steps, self.weighting = steps, weighting
        self._walks: dict[float, Walk | None] = {}

    @property
    def n(self) -> int:
        """Number of episodes, m."""
        return self.steps.n

    @property
    def horizon(self) -> int:
        """H, the longest of them."""
        return self.steps.horizon

    @property
    def alive(self) -> BoolArray | None:
        """(m, H) False on padding; None when there is none."""
        return self.steps.alive

    @property
    def rewards(self) -> FloatArray:
        """(m, H), 0 on padding."""
        return self.steps.rewards

    def members(self, finished: str, lagged: bool = False) -> BoolArray | None:
        """(m, H) who is in a per-step normaliser, see `Block.members`."""
        return self.steps.members(finished, lagged)

    @cached_property
    def full(self) -> FloatArray:
        """(m, H) rho_t, 1 on padding, whatever is dropped."""
        plain = self.weighting.undropped
        return self.kept if self.weighting == plain else plain.on(self.steps).kept

    @cached_property
    def dropped(self) -> BoolArray | None:
        """(m, H) True where the ratio is dropped; None when none is."""
        drop = self.weighting.drop
        return None if drop is None else drop.on(self.steps)

    @cached_property
    def kept(self) -> FloatArray:
        """(m, H) k_t: rho_t, or 1 where the ratio is dropped; 1 on padding."""
        table = self.weighting.table
        if table is not None:
            return table.on(self.steps)
        marks = self.dropped
        if marks is None:
            return self.weighting.quotients(self.steps)
        rho = self.full
        return np.where(marks & ~np.isnan(rho), 1.0, rho)

    @cached_property
    def running(self) -> Running:
        """(m, H) cumulative kept weights W_t; after the end they keep their last value."""
        table = self.weighting.table
        if table is None:
            return running_product(self.kept)
        if "kept" in vars(self):
            return running_product(self.kept, table.log_bound)
        # The products take the place of the ratios in memory. Few need both; they look the ratios up again.
        return running_product(table.on(self.steps), table.log_bound, overwrite=True)

    @cached_property
    def summed(self) -> Running:
        """(m, H) cumulative weights to first order, 1 + sum over u <= t of (k_u - 1)."""
        weights = np.cumsum(self.kept - 1.0, axis=1)
        weights += 1.0
        return Running(weights)

    @cached_property
    def final(self) -> Running:
        """(m, 1) whole weights B, from a walk where one can be made, else from the running products."""
        walked = next((walk for walk in self._walks.values() if walk is not None), None)
        if walked is None and "running" not in vars(self):
            walked = self.walk(1.0)
        return self.running.last.contiguous if walked is None else Running(walked.final[:, None])

    def step_sizes(self, finished: str) -> Kish:
        """Sums of the weights of each step and of their squares, for effective sample sizes."""
        members = self.members(finished)
        walked = self._walked_step_sizes() if members is None else None
        return Kish.of(self.running, members) if walked is None else walked

    def _walked_step_sizes(self) -> Kish | None:
        """The sums by the kernel, where ended episodes keep their last weight; None as in `walk`."""
        ratios, horizon = self.weighting.for_kernel(self.steps.log), self.horizon
        columns = _columns(self.steps, ratios)
        if kernel.KERNEL is None or columns is None:
            return None
        weight, squares = np.zeros((2, horizon))
        results = (weight, squares, *np.zeros((2, horizon + 1)))
        if not kernel.KERNEL.step_sizes(columns, ratios.arguments, results):
            return None
        return Kish(True, np.where(weight == 0, NOTHING, 0), weight, squares)

    def returns(self, gamma: float) -> FloatArray:
        """(m,) discounted return of each episode."""
        return self.steps.returns(gamma)

    def walk(self, gamma: float) -> Walk | None:
        """All sums of one pass by the kernel; None where it takes neither this block nor these ratios."""
        if gamma not in self._walks:
            sums = self._walks[gamma] = walk(self.steps, self.weighting.for_kernel(self.steps.log), gamma)
            if sums is not None:
                self.steps.walked_returns.setdefault(gamma, sums.returns)
        return self._walks[gamma]


@dataclass(frozen=True, eq=False)
class RatioTable:
    """The ratio of every state and action."""

    values: FloatArray  # (S * A,)
    n_actions: int  # A
    log_bound: float  # a bound on abs(log) of the positive ones

    def on(self, block: Block) -> FloatArray:
        """(m, H) the ratios of a block, 1 on padding."""
        ratios = block.look_up(self.values, block.pairs(self.n_actions))
        if block.alive is not None:
            ratios[~block.alive] = 1.0
        return ratios


class Weighting(Key):
    """Ratios of a policy pair with a drop applied, True where the ratio of a step is dropped.

    Weightings that keep the same ratios are equal.
    """

    def __init__(self, pair: PolicyPair, drop: Field | None = None) -> None:
        self.pair = pair
        self.drop = drop if drop is not None and drop.any() else None
        super().__init__(self.pair, self.drop)

    def __reduce__(self) -> tuple[type[Weighting], tuple[PolicyPair, Field | None]]:
        return Weighting, (self.pair, self.drop)

    def keeping_first(self) -> Weighting:
        """The weighting in which first steps keep their ratios (as in the authors' DRSIS)."""
        return Weighting(self.pair, None if self.drop is None else ExceptFirst(self.drop))

    @property
    def undropped(self) -> Weighting:
        """The weighting of these policies with nothing dropped."""
        return self if self.drop is None else Weighting(self.pair)

    def on(self, block: Block) -> WeightedBlock:
        """The block with these ratios; equal weightings share it."""
        return block.once(self, lambda block: WeightedBlock(block, self))

    @cached_property
    def table(self) -> RatioTable | None:
        """The kept ratios as a table; None where a step's ratio is not one of its state and action."""
        if self.drop is None or self._full_table is None:
            return self._full_table
        if not isinstance(self.drop, Table):
            return None
        rho = self._full_table.values.reshape(-1, self._full_table.n_actions)
        kept = np.where(self.drop.values[:, None] & ~np.isnan(rho), 1.0, rho)
        return RatioTable(kept.ravel(), self._full_table.n_actions, largest_log(kept))

    @cached_property
    def _full_table(self) -> RatioTable | None:
        rho = self.pair.ratios
        return None if rho is None else RatioTable(rho.ravel(), rho.shape[1], largest_log(rho))

    def quotients(self, block: Block) -> FloatArray:
        """(m, H) rho_t of policies that are not both tables, 1 on padding."""
        ratios = quotient(self.pair.evaluation.on(block), self.pair.behaviour.on(block))
        if block.alive is not None:
            ratios[~block.alive] = 1.0
        return ratios

    def for_kernel(self, log: Trajectories) -> Ratios:
        """The kept ratios of a log as the kernel finds them."""
        if self.table is not None:
            return Ratios(self.table.n_actions, self.table.values, self.table.log_bound)
        by_step = by_state = None
        if isinstance(self.drop, Table):
            by_state = self.drop.values
        elif self.drop is not None:
            by_step = self.drop.along(log)
        full = self._full_table
        if full is not None:
            return Ratios(full.n_actions, full.values, full.log_bound, dropped_steps=by_step)
        top_table, top_column = _table_or_column(self.pair.evaluation, log)
        bottom_table, bottom_column = _table_or_column(self.pair.behaviour, log)
        return Ratios(
            self.pair.n_actions,
            top_table=top_table,
            bottom_table=bottom_table,
            top_column=top_column,
            bottom_column=bottom_column,
            dropped_steps=by_step,
            dropped_states=by_state,
        )


def _table_or_column(policy: Field, log: Trajectories) -> tuple[FloatArray, None] | tuple[None, FloatArray]:
    """A policy as the kernel takes it: a flat table, or a column of the log."""
    return (policy.values.ravel(), None) if isinstance(policy, Table) else (None, policy.along(log))


def running_product(ratios: FloatArray, log_bound: float | None = None, overwrite: bool = False) -> Running:
    """Running products of each row.

    Args:
      ratios: (m, H), none negative; NaN passes through.
      log_bound: a bound on abs(log(ratio)) over the positive ratios, when one is known.
      overwrite: the products may take the place of the ratios.
    """
    horizon = ratios.shape[1]
    bound = largest_log(ratios) if log_bound is None else log_bound
    if bound * horizon <= SAFE_LOG:
        return Running(_product(ratios, ratios if overwrite else None))
    # What the products do reach is cheaper to see than what they could, and every few steps are enough: in
    # between they cannot go further than the other half of the way. Zeros and NaN need a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        products = _product(ratios)
    seen = products[:, :: max(1, int(SAFE_LOG / 2 / bound))]
    if seen.min() >= np.exp(-SAFE_LOG / 2) and seen.max() <= np.exp(SAFE_LOG / 2) and bound <= SAFE_LOG / 2:
        return Running(products)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(ratios > 0, np.abs(np.log(ratios)), 0.0)
    if logs.sum(axis=1).max() <= SAFE_LOG:
        return Running(products)
    return _scaled_product(ratios, max(1, int(SAFE_LOG / logs.max())))


def largest_log(ratios: FloatArray) -> float:
    """max abs(log(ratio)) over the positive ratios; 0 when there are none."""
    positive = ratios[ratios > 0]
    if positive.size == 0:
        return 0.0
    return float(max(abs(np.log(positive.max())), abs(np.log(positive.min()))))


def _product(ratios: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Running products of each row, whichever way the matrix lies in memory; `out` may be the ratios."""
    if not ratios.flags.f_contiguous or ratios.shape[0] == 1:
        return np.multiply.accumulate(ratios, axis=1, out=out)
    products = np.empty_like(ratios) if out is None else out
    columns = list(products.T)
    columns[0][:] = ratios[:, 0]
    for before, ratio, after in zip(columns, ratios.T[1:], columns[1:], strict=False):
        np.multiply(before, ratio, out=after)
    return products


def _scaled_product(ratios: FloatArray, stride: int) -> Running:
    """Running products with a new exponent every `stride` steps."""
    values = np.empty_like(ratios)
    exponents = np.empty(ratios.shape, dtype=np.int64)
    mantissa, exponent = np.ones(len(ratios)), np.zeros(len(ratios), dtype=np.int64)
    for lo in range(0, ratios.shape[1], stride):
        part = _product(ratios[:, lo : lo + stride]) * mantissa[:, None]
        values[:, lo : lo + stride] = part
        exponents[:, lo : lo + stride] = exponent[:, None]
        mantissa, extra = np.frexp(part[:, -1])
        exponent = exponent + extra
        if stride == 1:  # a single ratio may be as large as the whole safe range
            values[:, lo], exponents[:, lo] = mantissa, exponent
    return Running(values, exponents)


def refuse_unsupported(pair: PolicyPair, log: Trajectories) -> None:
    """Refuse a log with steps to which pi_b gives probability zero, and name them."""
    if pair.pi_b is None:
        return
    rows = np.flatnonzero(pair.pi_b[log.states, log.actions] == 0)
    if rows.size == 0:
        return
    row = int(rows[0])
    if not log.has_states:
        raise SupportError(
            f"pi_b gives probability 0 to action {plain(pair.action_labels[log.actions[row]])!r}, which was "
            f"logged in {log.where(row)} ({len(rows)} such steps).",
            fix="A logged action has a positive behaviour probability: correct pi_b, the old policy.",
        )
    cells = {
        (plain(pair.state_labels[s]), plain(pair.action_labels[a]))
        for s, a in zip(log.states[rows], log.actions[rows], strict=True)
    }
    raise SupportError(
        f"pi_b gives probability 0 to action {plain(pair.action_labels[log.actions[row]])!r} in state "
        f"{plain(pair.state_labels[log.states[row]])!r}, which was logged in {log.where(row)} "
        f"({len(rows)} such steps; (state, action): {first_few(sorted(cells, key=str))}).",
        fix="Correct pi_b, the old policy, or take the one that was observed: --behaviour counts (in Python "
        "pi_b=deadweight.estimate_behaviour(log)).",
    )
