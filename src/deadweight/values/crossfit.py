"""Cross-fitting: folds of episodes, and models that have not seen one of them.

An episode's fold follows from its number in the whole log, so that folds do not depend on how the log is cut
into blocks and parts. One pass counts all folds; the model that has not seen a fold is that of the others'
counts together.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from deadweight.log.trajectories import Trajectories
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.model import COUNT_CELLS, Counts, count_by_fold, successors

FOLDS = 5  # where nobody says how many


@dataclass(frozen=True, eq=False)
class FoldCounts:
    """The counts of each fold of some episodes; merges.

    How many episodes come before a part is known only after the pass, so each part counts as if it were the
    first. Put behind others, its folds are turned by their number.

    Attributes:
      part: the part of the log that these episodes come from, or the last of several.
      n: number of episodes.
      own: the counts of each fold.
    """

    part: int
    n: int
    own: tuple[Counts, ...]

    def merge(self, other: FoldCounts) -> FoldCounts:
        """Both together; the parts of `other` come after, unless it is more of the same one."""
        turn = 0 if other.part == self.part else self.n
        own = tuple(
            counts.merge(other.own[(fold - turn) % len(self.own)]) for fold, counts in enumerate(self.own)
        )
        return FoldCounts(other.part, self.n + other.n, own)


def counts_by_fold(
    parts: Sequence[Trajectories], folds: int, n_states: int, n_actions: int, workers: int = 1
) -> FoldCounts:
    """The counts of each of so many folds, in one pass that need not know how many episodes there are."""
    summarise = partial(_count_folds, folds, n_states, n_actions)
    counts: FoldCounts = reduce_log(parts, summarise, workers, COUNT_CELLS, by_ends=True)[0]
    return counts


def without_each(own: Sequence[Counts]) -> list[Counts]:
    """For each fold the counts of all episodes but its own."""
    return [
        reduce(Counts.merge, (counts for k, counts in enumerate(own) if k != left_out))
        for left_out in range(len(own))
    ]


def together(own: Sequence[Counts]) -> Counts:
    """The counts of all folds."""
    return reduce(Counts.merge, own)


def _count_folds(folds: int, n_states: int, n_actions: int, block: Block) -> list[FoldCounts]:
    fold_of: IntArray = (block.first + block.rows) % folds
    return [FoldCounts(block.part, block.n, tuple(count_by_fold(n_states, n_actions, block, fold_of, folds)))]


# --------------------------------------------------------------------------------------------------------
# What pairs that were hardly seen could do to the value of a fitted model.
#
# An influence function tells the noise of what is in the log, and a pair (s, a) that was seen once has none:
# its reward and its successor are fitted exactly. What such pairs leave open is
#
# .. math:: v_u = \sum_{s,a} \left( \frac{o(s) \, \pi_e(a|s)}{n(s,a) + 1} \right)^2 g_s^2, \qquad
#    o(s) = \sum_t \gamma^t \Pr_e(s_t = s)
#
# with g_s^2 the mean square of r + gamma V_{t+1}(s') - V_t(s) over the visits of s, shrunk by one visit
# towards that of all states. It falls with the square of the visits: in a long log it is next to nothing. The
# standard error of DM has it once. The interval of BLEND (`blend.mixing`) adds it by itself to a covariance
# of influences, in which DM does not bring it along.


@dataclass(frozen=True, eq=False)
class SquaresByState:
    """Squared errors of the model's state values, and steps, by state; merges."""

    squares: FloatArray  # (S,)
    visits: FloatArray  # (S,)

    def merge(self, other: SquaresByState) -> SquaresByState:
        """Both together."""
        return SquaresByState(self.squares + other.squares, self.visits + other.visits)


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
        """Of the steps of a block whose successor is known."""
        size = self.v.shape[1] - 1
        after, known = known_successors(block, self.v)
        s, t = block.states[known], block.times[known]
        now, then = (0, 0) if len(self.v) == 1 else (t, t + 1)
        discount = self.gamma if block.during is None else block.during[known]
        errors = block.paid[known] + discount * self.v[then, after[known]] - self.v[now, s]
        return SquaresByState(sums_by(s, np.square(errors), size), sums_by(s, size=size))


def known_successors(block: Block, v: FloatArray) -> tuple[IntArray, BoolArray]:
    """(m, H) where each step leads, the end included and -1 for unknown, and for which steps that is known.

    After the last step of all nothing may count, wherever it leads.

    Args:
      block: the episodes.
      v: (T + 1, S + 1) as in `Surprise`.
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
    """(S, A) what each pair adds to the root of v_u.

    Args:
      squares: the model's errors, of all the log.
      occupancy: (S,) o(s).
      pi_e: (S, A).
      visits: (S, A) n(s, a).
    """
    overall = divide(squares.squares.sum(), squares.visits.sum())
    by_state = (squares.squares + overall) / (squares.visits + 1.0)
    found: FloatArray = occupancy[:, None] * pi_e / (visits + 1.0) * np.sqrt(by_state)[:, None]
    return found
