"""Weighting: the ratios of a log, and which of them are kept.

The prefix S of the paper is this file: the kept ratio k_t is 1 in a dropped state and rho_t elsewhere. Every
estimator is written with k_t and is its plain self when nothing is dropped. The full ratios are never
overwritten: incremental and density-ratio estimators need both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadweight.errors import SupportError, first_few
from deadweight.log.labels import plain
from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.fields import ExceptFirst, Field, Table
from deadweight.sums.keys import Key
from deadweight.sums.pairs import PolicyPair, quotient
from deadweight.sums.running import largest_log
from deadweight.sums.walks import Ratios
from deadweight.sums.weighted_block import WeightedBlock
from deadweight.typing import FloatArray


@dataclass(frozen=True, eq=False)
class RatioTable:
    """The ratio of every state and action.

    Attributes:
      values: (S * A,).
      n_actions: A.
      log_bound: a bound on abs(log) of the positive ones.
    """

    values: FloatArray
    n_actions: int
    log_bound: float

    def on(self, block: Block) -> FloatArray:
        """(m, H) the ratios of a block, 1 on padding."""
        ratios = block.look_up(self.values, block.pairs(self.n_actions))
        if block.alive is not None:
            ratios[~block.alive] = 1.0
        return ratios


class Weighting(Key):
    """Ratios of a policy pair with a drop applied. Weightings that keep the same ratios are equal.

    Args:
      pair: the two policies.
      drop: True where the ratio of a step is dropped; None drops none.
    """

    def __init__(self, pair: PolicyPair, drop: Field | None = None) -> None:
        self.pair = pair
        self.drop = drop if drop is not None and drop.any() else None
        super().__init__(self.pair, self.drop)

    def __reduce__(self) -> tuple[type[Weighting], tuple[PolicyPair, Field | None]]:
        return Weighting, (self.pair, self.drop)

    def keeping_first(self) -> Weighting:
        """The same weighting, except that first steps keep their ratios (as in the authors' DRSIS)."""
        return Weighting(self.pair, None if self.drop is None else ExceptFirst(self.drop))

    @property
    def undropped(self) -> Weighting:
        """The same policies with nothing dropped."""
        return self if self.drop is None else Weighting(self.pair)

    def on(self, block: Block) -> WeightedBlock:
        """The block with these ratios; equal weightings share it."""
        return block.once(self, self._weigh)

    def _weigh(self, block: Block) -> WeightedBlock:
        return WeightedBlock(block, self)

    @cached_property
    def table(self) -> RatioTable | None:
        """The kept ratios as a table; None where a step's ratio is not one of its state and action."""
        if self.drop is None or self._full_table is None:
            return self._full_table
        if not isinstance(self.drop, Table):
            return None
        rho = self._full_table.values.reshape(-1, self.pair.n_actions)
        kept = np.where(self.drop.values[:, None] & ~np.isnan(rho), 1.0, rho)
        return RatioTable(kept.ravel(), self.pair.n_actions, largest_log(kept))

    @cached_property
    def _full_table(self) -> RatioTable | None:
        rho = self.pair.ratios
        return None if rho is None else RatioTable(rho.ravel(), self.pair.n_actions, largest_log(rho))

    def quotients(self, block: Block) -> FloatArray:
        """(m, H) rho_t of policies that are not both tables, 1 on padding."""
        ratios = quotient(self.pair.evaluation.on(block), self.pair.behaviour.on(block))
        if block.alive is not None:
            ratios[~block.alive] = 1.0
        return ratios

    def for_kernel(self, log: Trajectories) -> Ratios:
        """Where the kernel finds the kept ratios of a log."""
        n_actions, table = self.pair.n_actions, self.table
        if table is not None:
            return Ratios(n_actions, table.values, table.log_bound)
        by_step = by_state = None
        if isinstance(self.drop, Table):
            by_state = self.drop.values
        elif self.drop is not None:
            by_step = self.drop.along(log)
        full = self._full_table
        if full is not None:
            return Ratios(n_actions, full.values, full.log_bound, dropped_steps=by_step)
        top_table, top_column = _table_or_column(self.pair.evaluation, log)
        bottom_table, bottom_column = _table_or_column(self.pair.behaviour, log)
        return Ratios(
            n_actions,
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
