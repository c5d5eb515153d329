"""The plain log that all references read, and its ratios, kept ratios and cumulative weights.

Nothing here or in the sibling files uses the library under test: the estimators are loops over tuples, so
that they can be read beside the formulas. Products and sums are plain, without protection of the range;
policies and rewards made of `fractions.Fraction` give exact results in the product estimators, which serves
as the oracle for ratios that overflow.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Policy = Sequence[Sequence[float]] | Array
Mask = list[list[bool]]
Drop = Set[int] | Mask | None
Rows = list[list[float]]

UNKNOWN = -1
ENDS = -2


@dataclass(frozen=True)
class Log:
    """Episodes of (state, action, reward).

    `terminated` has one flag an episode (None: all True). `next_states` has one state a step or is None; it
    is read only at the last step of a truncated episode, where -1 means unknown. Elsewhere the successor is
    the state of the next step, or the end.
    """

    episodes: Sequence[Sequence[tuple[int, int, float]]]
    terminated: Sequence[bool] | None = None
    next_states: Sequence[Sequence[int]] | None = None

    @property
    def n(self) -> int:
        return len(self.episodes)

    @property
    def horizon(self) -> int:
        return max(len(episode) for episode in self.episodes)

    def ended(self, i: int) -> bool:
        """Whether episode i terminated, as against being cut."""
        return True if self.terminated is None else bool(self.terminated[i])

    def successor(self, i: int, t: int) -> int:
        """The state after step t of episode i, or `ENDS`, or `UNKNOWN`."""
        if t + 1 < len(self.episodes[i]):
            return self.episodes[i][t + 1][0]
        if self.ended(i):
            return ENDS
        return UNKNOWN if self.next_states is None else int(self.next_states[i][t])


def dropped_steps(log: Log, drop: Drop) -> Mask:
    """A flag a step: dropped or not. `drop` is a set of states, or already such flags, or None."""
    if drop is None or isinstance(drop, Set):
        return [[drop is not None and s in drop for s, _, _ in episode] for episode in log.episodes]
    return [[bool(flag) for flag in row] for row in drop]


def ratios(log: Log, pi_e: Policy, pi_b: Policy) -> Rows:
    """rho_t = pi_e(a_t|s_t) / pi_b(a_t|s_t)."""
    return [[pi_e[s][a] / pi_b[s][a] for s, a, _ in episode] for episode in log.episodes]


def kept_ratios(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None) -> Rows:
    """k_t = 1 on a dropped step, else rho_t."""
    return [
        [1 if out else rho for rho, out in zip(row, flags, strict=True)]
        for row, flags in zip(ratios(log, pi_e, pi_b), dropped_steps(log, drop), strict=True)
    ]


def running_products(row: Sequence[float]) -> list[float]:
    """W_t = k_0 ... k_t."""
    out: list[float] = []
    weight: float = 1
    for k in row:
        weight *= k
        out.append(weight)
    return out


def cumulative(log: Log, pi_e: Policy, pi_b: Policy, drop: Drop = None) -> Rows:
    """W_it for t = 0..T-1: after its end an episode keeps its last weight."""
    rows = []
    for row in kept_ratios(log, pi_e, pi_b, drop):
        weights = running_products(row)
        rows.append(weights + [weights[-1]] * (log.horizon - len(weights)))
    return rows


def returns(log: Log, gamma: float = 1) -> list[float]:
    """G_i = sum_t gamma^t r_t."""
    return [sum(gamma**t * r for t, (_, _, r) in enumerate(episode)) for episode in log.episodes]


def ratio(numerator: float, denominator: float) -> float:
    """numerator / denominator with 0/0 := 0."""
    return numerator / denominator if denominator != 0 else 0
