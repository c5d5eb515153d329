r"""Does it matter where in the log an episode stands? Neighbours that are alike, and returns that change.

Intervals take episodes as independent and of one kind. Several of one person, one after the other, are not
independent: the influences of neighbouring episodes on DM are correlated then,

.. math:: r_1 = \frac{\sum_i \phi_i \phi_{i+1}}{\sum_i \phi_i^2} > \frac{3.3}{\sqrt n}.

Where conditions change along the log, the means of ten consecutive blocks of returns differ by more than
chance (an analysis of variance). Where the old policy may have changed on the way its returns may as well;
influences on DM, which know what was done, take their place.

The order is that of the log. If it means nothing, there is nothing to be found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.answers.influences import Job
from deadweight.answers.plans import plan_of
from deadweight.basics.arithmetic import divide, sums_by
from deadweight.estimators.names import MODEL
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.sums.blocks import Block
from deadweight.sums.fields import Folds
from deadweight.sums.logged_slopes import Confounding
from deadweight.sums.summaries import Pieces
from deadweight.typing import FloatArray, IntArray

# A correlation of neighbours beyond so many standard errors (1 / sqrt(n)) is no chance.
ALIKE = 3.3
# Blocks whose means are compared, and the probability below which they differ.
BLOCKS, DRIFTED = 10, 1e-3
# With fewer episodes nothing is said.
FEWEST = 50
# So many episodes, the first of the log, show whether neighbours are alike; no more are kept.
MOST_KEPT = 1 << 20


@dataclass(frozen=True)
class LogOrder:
    """What the order of a log shows.

    Attributes:
      correlation: of neighbours' influences on DM.
      kept: episodes that it was found from.
      p_value: of the comparison of consecutive blocks.
    """

    correlation: float
    kept: int
    p_value: float

    @property
    def flags(self) -> list[str]:
        """What must be said of it."""
        alike = self.kept >= FEWEST and self.correlation > ALIKE / np.sqrt(self.kept)
        marks = {"maybe-clustered": alike, "drift": self.p_value < DRIFTED}
        return [flag for flag, found in marks.items() if found]


@dataclass(frozen=True, eq=False)
class ByBlock:
    """Number, means and squared deviations of some values, by consecutive block of the log; merges."""

    n: FloatArray  # (blocks,)
    mean: FloatArray  # (k, blocks)
    squares: FloatArray  # (k, blocks)

    @classmethod
    def of(cls, block_of: IntArray, values: FloatArray) -> ByBlock:
        """Of (k, m) values of episodes of these consecutive blocks."""
        n = sums_by(block_of, None, BLOCKS)
        mean = divide(np.stack([sums_by(block_of, row, BLOCKS) for row in values]), n)
        apart = np.square(values - mean[:, block_of])
        return cls(n, mean, np.stack([sums_by(block_of, row, BLOCKS) for row in apart]))

    def merge(self, other: ByBlock) -> ByBlock:
        """Of both together."""
        n, step = self.n + other.n, other.mean - self.mean
        mean = self.mean + divide(step * other.n, n)
        return ByBlock(n, mean, self.squares + other.squares + divide(np.square(step) * self.n * other.n, n))

    def p_value(self, row: int) -> float:
        """Of the hypothesis that all blocks have one mean; 1 where nothing varies."""
        from scipy.special import fdtrc

        total = float(self.n.sum())
        mean = float(self.mean[row] @ self.n) / total
        between = float(np.square(self.mean[row] - mean) @ self.n) / (BLOCKS - 1)
        within = float(self.squares[row].sum()) / (total - BLOCKS)
        return float(fdtrc(BLOCKS - 1, total - BLOCKS, between / within)) if within > 0.0 else 1.0


@dataclass(frozen=True, eq=False)
class Ordered:
    """What is summed: influences of the first episodes with their places, and all by block; merges."""

    first: Pieces
    by_block: ByBlock

    def merge(self, other: Ordered) -> Ordered:
        """Of the episodes of both."""
        return Ordered(self.first.merge(other.first), self.by_block.merge(other.by_block))


def order_job(answers: Answers) -> Job | None:
    """What is to be done in a second pass; None where it has been done, or there are too few episodes."""
    question = answers.question
    if LogOrder in question.sums or question.n < FEWEST:
        return None
    influence = answers.influence(plan_of(question, MODEL.variant(), NOTHING_DROPPED))
    summarise = _InOrder(Folds.of(1, question.sizes).first, question.n, question.gamma)
    return Job([influence], summarise, partial(_keep, question))


def order_flags(answers: Answers) -> list[str]:
    """What must be said of the order of the log, where somebody has looked at it."""
    found: LogOrder | None = answers.question.sums.get(LogOrder)
    return [] if found is None else found.flags


def _keep(question: Question, found: Ordered) -> None:
    kept = np.zeros(min(question.n, MOST_KEPT))
    for places, values in found.first.items:
        kept[places] = values
    kept -= kept.mean()
    squares = float(kept @ kept)
    alike = float(kept[1:] @ kept[:-1]) / squares if squares > 0.0 else 0.0
    p_value = found.by_block.p_value(int(_may_have_changed(question)))
    question.sums[LogOrder] = LogOrder(alike, len(kept), p_value)


def _may_have_changed(question: Question) -> bool:
    """Whether the old policy may have changed along the log: there are several, or it looked at more."""
    return question.made_by is not None or question.sums.get(Confounding) is not None


@dataclass(frozen=True, eq=False)
class _InOrder:
    """The sums of a block; travels to workers.

    Attributes:
      first: (parts,) the number, in the whole log, of each part's first episode.
      n: episodes of the log.
      gamma: discount of returns.
    """

    first: IntArray
    n: int
    gamma: float

    def __call__(self, values: FloatArray, block: Block) -> Ordered:
        """Of (1, m) influences of a block's episodes."""
        places = self.first[block.part] + block.first + block.rows
        kept = places < MOST_KEPT
        both = np.stack([block.returns(self.gamma), values[0]])
        return Ordered(
            Pieces(((places[kept], values[0][kept]),)), ByBlock.of(places * BLOCKS // self.n, both)
        )
