r"""Walks: what the compiled kernel finds on its way along the episodes of a block, in one pass.

Importance sampling of whole episodes and of steps needs few sums: for each episode its whole weight B, its
return G and :math:`\sum_t \gamma^t W_t r_t`; for each step :math:`\sum_i W_t` and :math:`\sum_i W_t r_t`.
The kernel reads them off the flat columns of the log, without an (m, H) matrix. It works in plain doubles and
declines a block whose products leave their range; such a block is left to numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.sums import kernel
from deadweight.sums.blocks import Block, discounts
from deadweight.sums.running import SAFE_LOG
from deadweight.typing import AnyArray, BoolArray, FloatArray

ANY_STRIDE = 1 << 30


@dataclass(frozen=True, eq=False)
class Ratios:
    """Where the kernel finds the kept ratio of a step.

    In `table` by state and action; or as the quotient of `top` and `bottom`, each a table or a column. A drop
    that the table does not hold yet is one flag for each step or a state.

    Attributes:
      n_actions: columns of the tables, which are flat.
      log_bound: a bound on abs(log(ratio)) over the positive ones of `table`; None: look at each.
    """

    n_actions: int
    table: FloatArray | None = None
    log_bound: float | None = None
    top_table: FloatArray | None = None
    bottom_table: FloatArray | None = None
    top_column: FloatArray | None = None
    bottom_column: FloatArray | None = None
    dropped_steps: BoolArray | None = None
    dropped_states: BoolArray | None = None

    @property
    def stride(self) -> int:
        """Steps after which a product within exp(+-SAFE_LOG) is still within the square of that."""
        if self.log_bound is None or self.log_bound > SAFE_LOG:
            return 1
        return ANY_STRIDE if self.log_bound == 0 else min(ANY_STRIDE, int(SAFE_LOG / self.log_bound))

    @property
    def arrays(self) -> tuple[AnyArray | None, ...]:
        """All of them, in the order in which the kernel takes them."""
        tables = (self.table, self.top_table, self.bottom_table)
        return (*tables, self.top_column, self.bottom_column, self.dropped_steps, self.dropped_states)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the kernel is told of the ratios."""
        return (*self.arrays, self.n_actions, self.stride)


@dataclass(frozen=True, eq=False)
class Walk:
    """What one pass along the episodes of a block gives; its weights are plain doubles."""

    columns: tuple[AnyArray, ...]  # of the block's log, and its episodes
    ratios: Ratios
    final: FloatArray  # (m,) B
    returns: FloatArray  # (m,) G
    plain: FloatArray  # (m,) sum over t of gamma**t W_t r_t
    weight: FloatArray  # (H,) sum over i of W_t, with the last weights of ended episodes
    weighted: FloatArray  # (H,) sum over i of W_t r_t

    def influence(self, slope: FloatArray, pull: FloatArray) -> FloatArray:
        """(m,) sum over t of W_t (r_t slope_t - pull_t); an ended episode has r = 0 and its last weight.

        Args:
          slope, pull: (T,), T >= H.
        """
        after = np.append(np.cumsum(pull[::-1])[::-1], 0.0)
        found = np.empty(len(self.final))
        assert kernel.KERNEL is not None
        done = kernel.KERNEL.influences(self.columns, self.ratios.arguments, (slope, pull, after), found)
        assert done, "the same products have been in range before"
        return found


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


def step_sizes(block: Block, ratios: Ratios) -> tuple[FloatArray, FloatArray] | None:
    """(H,) sums over i of W_t and of its square; ended episodes keep their last weight. None as in `walk`."""
    columns = _columns(block, ratios)
    if kernel.KERNEL is None or columns is None:
        return None
    weight, squares = np.zeros((2, block.horizon))
    scratch = np.zeros((2, block.horizon + 1))
    done = kernel.KERNEL.step_sizes(columns, ratios.arguments, (weight, squares, *scratch))
    return (weight, squares) if done else None


def _columns(block: Block, ratios: Ratios) -> tuple[AnyArray, ...] | None:
    """What the kernel is told of a block; None where it cannot read it, or these ratios leave its range."""
    log = block.log
    columns = (log.states, log.actions, log.rewards, log.offsets, block.rows)
    readable = all(map(kernel.readable, (*columns, *ratios.arrays)))
    return columns if readable and (ratios.log_bound or 0.0) <= SAFE_LOG else None
