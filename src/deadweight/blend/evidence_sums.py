"""Sums behind the evidence of a blend: errors of the model by state, sizes of windows, joint influences."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from deadweight.estimators.windowed import ModelSteps
from deadweight.sums.blocks import Block
from deadweight.sums.reduction import numbered
from deadweight.sums.running import Running
from deadweight.sums.summaries import CoMoments, Kish, Pieces
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


@dataclass(frozen=True, eq=False)
class JointRows:
    """Joint moments of influences, and the influences themselves; merges."""

    joint: CoMoments
    rows: Pieces

    def merge(self, other: JointRows) -> JointRows:
        """Of the episodes of both."""
        return JointRows(self.joint.merge(other.joint), self.rows.merge(other.rows))


def joint_moments(values: FloatArray, block: Block) -> CoMoments:
    """Joint moments of the influences of a block."""
    return CoMoments.of(values)


def joint_rows(values: FloatArray, block: Block) -> JointRows:
    """The same with the influences."""
    return JointRows(CoMoments.of(values), numbered(block, values.copy()))
