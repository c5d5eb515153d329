"""Sums behind the evidence of a blend: errors of the model by state, sizes of weights, joint influences."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from deadweight.estimators.windowed import ModelSteps
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import numbered
from deadweight.sums.running import Running
from deadweight.sums.summaries import CoMoments, Kish, Pieces
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray
from deadweight.values.hardly_seen import SquaresByState, Surprise


class WalkedSurprise(Surprise):
    """The errors of the model's state values by the kernel, on a walk that is made for the windows anyway."""

    def __init__(self, model: Hashable, steps: ModelSteps) -> None:
        super().__init__(model, steps.v, steps.gamma)
        self.steps = steps

    def summarise(self, block: Block) -> SquaresByState:
        """Of the steps of a block whose successor is known."""
        walk = self.steps.walks.on(block)
        return super().summarise(block) if walk is None else SquaresByState(walk.surprise, walk.visits)


class WindowSizes:
    """Effective sample sizes of windowed weights, step by step."""

    def __init__(self, steps: ModelSteps, window: int) -> None:
        self.weighting, self.steps, self.window = steps.weighting, steps, window

    @property
    def key(self) -> Hashable:
        """One for each model and window."""
        return ("window-sizes", self.steps, self.window)

    def summarise(self, block: Block) -> Kish:
        """Of the steps of a block whose successor is known."""
        walk = self.steps.walks.on(block)
        if walk is not None:
            return walk.sizes(self.window)
        weights = self.steps.weights(self.weighting.on(block), self.window)
        return Kish.of(Running(weights), self.steps.errors(block).known)


@dataclass(frozen=True)
class Squares:
    """The sum of the squared weights of LIN over so many steps; merges."""

    squares: float
    steps: int

    def merge(self, other: Squares) -> Squares:
        """Of the episodes of both."""
        return Squares(self.squares + other.squares, self.steps + other.steps)


@dataclass(frozen=True, eq=False)
class LinearSizes:
    """The sums behind the effective episodes of LIN."""

    weighting: Weighting

    @property
    def key(self) -> Hashable:
        """One for each weighting."""
        return ("linear-sizes", self.weighting)

    def summarise(self, block: Block) -> Squares:
        """Of a block."""
        # After the end of an episode its last weight stands on padding, and does not count.
        alive = np.arange(block.horizon) < block.lengths[:, None]
        squares = np.square(self.weighting.on(block).summed.values)
        return Squares(float(np.sum(squares, where=alive)), int(block.lengths.sum()))


@dataclass(frozen=True, eq=False)
class Joint:
    """Joint moments of influences, up to the third, and where wanted the influences themselves; merges.

    Attributes:
      moments: up to the second.
      thirds: (k, k, k) sums of the products of three deviations.
      rows: numbered by episode; None where nobody wants them.
    """

    moments: CoMoments
    thirds: FloatArray
    rows: Pieces | None = None

    @classmethod
    def of(cls, values: FloatArray, rows: Pieces | None = None) -> Joint:
        """Of (k, m) values of m episodes."""
        moments = CoMoments.of(values)
        deviations = values - moments.mean[:, None]
        k = len(values)
        pairs = (deviations[:, None] * deviations[None]).reshape(k * k, -1)
        return cls(moments, (pairs @ deviations.T).reshape(k, k, k), rows)

    def merge(self, other: Joint) -> Joint:
        """Of the episodes of both."""
        a, b, n = self.moments, other.moments, self.moments.n + other.moments.n
        step = b.mean - a.mean
        crossed = np.multiply.outer(step, (a.n * b.products - b.n * a.products) / n)
        crossed = crossed + crossed.transpose(1, 0, 2) + crossed.transpose(1, 2, 0)
        cube = np.multiply.outer(np.multiply.outer(step, step), step)
        between = a.n * b.n * (a.n - b.n) / float(n) ** 2 * cube
        rows = None if self.rows is None or other.rows is None else self.rows.merge(other.rows)
        return Joint(a.merge(b), self.thirds + other.thirds + crossed + between, rows)


def joint_moments(values: FloatArray, block: Block) -> Joint:
    """Joint moments of the influences of a block."""
    return Joint.of(values)


def joint_rows(values: FloatArray, block: Block) -> Joint:
    """The same with the influences."""
    return Joint.of(values, numbered(block, values.copy()))
