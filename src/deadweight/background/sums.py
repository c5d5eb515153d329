"""The one pass behind a background: weights before and after dropping, returns, lengths, rewards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deadweight.diagnostics.weights import WeightSums, weight_sums
from deadweight.question.core import Question
from deadweight.question.drops import NOTHING_DROPPED, Drop
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Kish
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Episodes:
    """Returns and lengths of some episodes, and their smallest and largest reward."""

    returns: FloatArray
    lengths: IntArray
    lowest: float
    highest: float

    @classmethod
    def of(cls, gamma: float, block: Block) -> Episodes:
        """Of a block."""
        rewards, alive = block.rewards, True if block.alive is None else block.alive
        lowest = float(np.min(rewards, where=alive, initial=np.inf))
        highest = float(np.max(rewards, where=alive, initial=-np.inf))
        return cls(block.returns(gamma), block.lengths, lowest, highest)

    def merge(self, other: Episodes) -> Episodes:
        """Of the episodes of both."""
        return Episodes(
            np.concatenate([self.returns, other.returns]),
            np.concatenate([self.lengths, other.lengths]),
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )


@dataclass(frozen=True, eq=False)
class LogSums:
    """What the pass found: of the episodes, of plain weights and, where anything is dropped, of kept ones."""

    episodes: Episodes
    weights: list[tuple[WeightSums, Kish]]


def log_sums(question: Question, drop: Drop) -> LogSums:
    """The pass over the log of a question; `drop` is that of the headline."""
    weightings = [NOTHING_DROPPED.weighting(question.pair)]
    kept = drop.weighting(question.pair)
    if kept.drop is not None:
        weightings.append(kept)
    summarise = partial(_block_sums, weightings, question.gamma)
    episodes, *weights = reduce_log(question.parts, summarise, question.workers)
    return LogSums(episodes, list(zip(weights[::2], weights[1::2], strict=True)))


def _block_sums(weightings: list[Weighting], gamma: float, block: Block) -> list[Any]:
    sums: list[Any] = [Episodes.of(gamma, block)]
    for weighting in weightings:
        sums += weight_sums(weighting, block)
    return sums
