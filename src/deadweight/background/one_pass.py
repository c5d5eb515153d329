"""The one pass behind a background: weights before and after dropping, returns, lengths, rewards."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.diagnostics.weights import WeightSums, weight_sums
from deadweight.estimators.family import Summed
from deadweight.question.core import Question
from deadweight.question.drops import Drop
from deadweight.sums.blocks import Block
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
        rewards, alive = block.paid, True if block.alive is None else block.alive
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
    weightings: list[Weighting]


@dataclass(frozen=True, eq=False)
class _OfLog:
    """What a background sums of a log besides weights."""

    gamma: float

    @property
    def key(self) -> Hashable:
        """One for each discount."""
        return ("background", self.gamma)

    def summarise(self, block: Block) -> Episodes:
        """Of a block."""
        return Episodes.of(self.gamma, block)


@dataclass(frozen=True, eq=False)
class _OfWeights:
    """What a background sums of weights."""

    weighting: Weighting

    @property
    def key(self) -> Hashable:
        """One for each weighting."""
        return ("background", self.weighting)

    def summarise(self, block: Block) -> Side:
        """Of a block."""
        return Side(tuple(weight_sums(self.weighting, block)))


@dataclass(frozen=True, eq=False)
class Side:
    """Several sums side by side; they merge."""

    sums: tuple[Any, ...]

    def merge(self, other: Side) -> Side:
        """Each with its like."""
        return Side(tuple(a.merge(b) for a, b in zip(self.sums, other.sums, strict=True)))


def background_sums(question: Question, drop: Drop) -> list[Summed]:
    """What is to be summed; `drop` is that of the headline."""
    return [_OfLog(question.gamma), *map(_OfWeights, _weightings(question, drop))]


def _weightings(question: Question, drop: Drop) -> list[Weighting]:
    kept = drop.weighting(question.pair)
    return [kept.undropped, *([] if kept.drop is None else [kept])]


def log_sums(question: Question, drop: Drop) -> LogSums:
    """The sums of a question; made in a pass of their own where they are not there yet."""
    wanted, answers = background_sums(question, drop), Answers(question, ())
    answers.sum(wanted)
    episodes, *weights = (answers.found(one) for one in wanted)
    return LogSums(episodes, [one.sums for one in weights], _weightings(question, drop))
