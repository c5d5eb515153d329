"""Weighting: the ratios of a log, and which of them are kept.

The prefix S of the paper is this file: the kept ratio k_t is 1 in a dropped state and rho_t elsewhere. Every
estimator is written with k_t and is its plain self when nothing is dropped. The full ratios are never
overwritten: incremental and density-ratio estimators need both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from functools import cached_property

import numpy as np

from deadweight.blocks import Block
from deadweight.errors import SupportError, first_few
from deadweight.labels import plain
from deadweight.pairs import PolicyPair
from deadweight.running import Running, largest_log, running_product
from deadweight.trajectories import Trajectories
from deadweight.typing import BoolArray, FloatArray
from deadweight.walks import Ratios, Walk, walk


class Weighting:
    """Ratios of a policy pair with a drop applied.

    Args:
      pair: the two policies.
      drop: (S,) boolean, the states whose ratios are dropped; or (steps,), one flag a step, with
        `per_step=True`; or None.
      keep_first: never drop the ratio of an episode's first step (as the authors' DRSIS does).
    """

    def __init__(
        self,
        pair: PolicyPair,
        drop: BoolArray | None = None,
        per_step: bool = False,
        keep_first: bool = False,
    ) -> None:
        self.pair = pair
        self.drop = drop if drop is not None and drop.any() else None
        self.per_step = per_step
        self.keep_first = keep_first

    def keeping_first(self) -> Weighting:
        """The same weighting, except that first steps keep their ratios."""
        return Weighting(self.pair, self.drop, self.per_step, keep_first=True)

    @cached_property
    def key(self) -> Hashable:
        """Weightings with equal keys keep the same ratios."""
        if self.drop is None:
            return id(self.pair)
        digest = hashlib.blake2b(self.drop.tobytes(), digest_size=16).hexdigest()
        return (id(self.pair), digest, self.per_step, self.keep_first)

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray, float] | None:
        """Full and kept ratio of every (s, a), flat, and a bound on abs(log) of the kept ones."""
        pi_e, pi_b = self.pair.pi_e, self.pair.pi_b
        if pi_e is None or pi_b is None:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            # Pairs with pi_b = 0 are never logged (`refuse_unsupported`); NaN keeps that promise visible.
            rho = np.where(pi_b > 0, pi_e / pi_b, np.nan)
        kept = rho
        if self.drop is not None and not self.per_step:
            kept = np.where(self.drop[:, None] & ~np.isnan(rho), 1.0, rho)
        return rho.ravel(), kept.ravel(), largest_log(kept)

    def full(self, block: Block) -> FloatArray:
        """(m, H) rho_t, 1 on padding."""
        return block.once((id(self.pair), "rho"), lambda: self._full(block))

    def _full(self, block: Block) -> FloatArray:
        if self._tables is not None:
            return self._from_table(self._tables[0], block)
        log, pair = block.log, self.pair
        top = _of_logged_actions(pair.pi_e, log.target_probs, block, pair.n_actions)
        bottom = _of_logged_actions(pair.pi_b, log.propensities, block, pair.n_actions)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(bottom > 0, top / bottom, np.nan)
        if block.alive is not None:
            ratios[~block.alive] = 1.0
        return ratios

    def dropped(self, block: Block) -> BoolArray | None:
        """(m, H) True where the ratio is dropped; None when none is."""
        if self.drop is None:
            return None
        return block.once((self.key, "dropped"), lambda: self._dropped(block))

    def _dropped(self, block: Block) -> BoolArray:
        assert self.drop is not None
        if self.per_step:
            marks = block.take(self.drop, False)
        else:
            marks = self.drop[block.states]
            if block.alive is not None:
                marks = marks & block.alive
        if self.keep_first:
            marks = marks.copy()
            marks[:, 0] = False
        return marks

    def kept(self, block: Block) -> FloatArray:
        """(m, H) k_t: rho_t, or 1 where the ratio is dropped; 1 on padding."""
        if self.drop is None:
            return self.full(block)
        return block.once(self._kept_key, lambda: self._kept(block))

    @property
    def _kept_key(self) -> Hashable:
        return (id(self.pair), "rho") if self.drop is None else (self.key, "kept")

    def _kept(self, block: Block) -> FloatArray:
        if self._tables is not None and not self.per_step and not self.keep_first:
            return self._from_table(self._tables[1], block)
        rho, marks = self.full(block), self.dropped(block)
        assert marks is not None
        return np.where(marks & ~np.isnan(rho), 1.0, rho)

    def _from_table(self, table: FloatArray, block: Block) -> FloatArray:
        ratios = block.look_up(table, block.pairs(self.pair.n_actions))
        if block.alive is not None:
            ratios[~block.alive] = 1.0
        return ratios

    def running(self, block: Block) -> Running:
        """Cumulative kept weights W_t, (m, H); after the end they keep their last value."""
        return block.once((self.key, "running"), lambda: self._running(block))

    def _running(self, block: Block) -> Running:
        bound = None if self._tables is None or self.per_step or self.keep_first else self._tables[2]
        if self._tables is None or bound is None or block.knows(self._kept_key):
            return running_product(self.kept(block), bound)
        # Nobody has asked for the ratios themselves: the products take their place in memory.
        return running_product(self._from_table(self._tables[1], block), bound, overwrite=True)

    def final(self, block: Block) -> Running:
        """(m, 1) whole weights B: those of a walk, if one was made."""
        return block.once((self.key, "final"), lambda: self.running(block).last.contiguous)

    def walk(self, block: Block, gamma: float) -> Walk | None:
        """All sums of one pass by the kernel; None where this block or these ratios are none for it."""
        if self.keep_first:
            return None
        made = block.once((self.key, "walk", gamma), lambda: walk(block, self.ratios(block), gamma))
        if made is not None:
            block.once((self.key, "final"), lambda: Running(made.final[:, None]))
            block.once(("returns", gamma), lambda: made.returns)
        return made

    def ratios(self, block: Block) -> Ratios:
        """Where the kernel finds the kept ratios of a block."""
        n_actions, drop = self.pair.n_actions, self.drop
        if self._tables is not None and not (drop is not None and self.per_step):
            return Ratios(n_actions, self._tables[1], self._tables[2])
        by_step, by_state = (drop, None) if self.per_step else (None, drop)
        if self._tables is not None:
            return Ratios(n_actions, self._tables[0], self._tables[2], dropped_steps=by_step)
        pi_e, pi_b = self.pair.pi_e, self.pair.pi_b
        return Ratios(
            n_actions,
            top_table=None if pi_e is None else pi_e.ravel(),
            bottom_table=None if pi_b is None else pi_b.ravel(),
            top_column=block.log.target_probs if pi_e is None else None,
            bottom_column=block.log.propensities if pi_b is None else None,
            dropped_steps=by_step,
            dropped_states=by_state,
        )


def refuse_unsupported(pair: PolicyPair, log: Trajectories) -> None:
    """Refuse a log with steps to which pi_b gives probability zero, and name them."""
    if pair.pi_b is None:
        return
    rows = np.flatnonzero(pair.pi_b[log.states, log.actions] == 0)
    if rows.size == 0:
        return
    row = int(rows[0])
    cells = {
        (plain(pair.state_labels[s]), plain(pair.action_labels[a]))
        for s, a in zip(log.states[rows], log.actions[rows], strict=True)
    }
    raise SupportError(
        f"pi_b gives probability 0 to action {plain(pair.action_labels[log.actions[row]])!r} in state "
        f"{plain(pair.state_labels[log.states[row]])!r}, which was logged in {log.where(row)} "
        f"({len(rows)} such steps; (state, action): {first_few(sorted(cells, key=str))}).",
        fix="Correct pi_b, or take the policy that was observed: pi_b=deadweight.estimate_behaviour(log).",
    )


def _of_logged_actions(
    policy: FloatArray | None, column: FloatArray | None, block: Block, n_actions: int
) -> FloatArray:
    if policy is not None:
        return block.look_up(policy.ravel(), block.pairs(n_actions))
    assert column is not None
    return block.take(column, 1.0)
