"""What is done with a block along the lanes of one walk: sums, and moments of plain means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.sums.blocks import Block, powers
from deadweight.sums.lanes import LaneFactors, Lanes, LaneSums, LaneValues, LaneWalk, Wanted
from deadweight.sums.summaries import RowMoments
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray


@dataclass(frozen=True, eq=False)
class LaneWork:
    """One walk: lanes that want the same; travels to workers."""

    weighting: Weighting
    lanes: Lanes
    values: LaneValues
    wanted: Wanted
    gamma: float

    def __call__(self, block: Block) -> LaneSums:
        """The sums of a block."""
        return self.walk(block).sums(self.gamma, self.wanted)

    def walk(self, block: Block) -> LaneWalk:
        """The walk itself."""
        return LaneWalk(block, self.weighting, self.lanes, self.values)


@dataclass(frozen=True, eq=False)
class PlainWork:
    """Moments of unnormalised estimates, for which no second pass is needed; travels to workers."""

    work: LaneWork
    horizon: int
    terms: tuple[tuple[int, tuple[str, ...]], ...]  # lane and kinds of each estimate

    def __call__(self, block: Block) -> RowMoments:
        """Of the episodes of a block whose walk was not declined."""
        lanes = len(self.work.lanes)
        slope = np.repeat(powers(self.work.gamma, self.horizon)[:, None], lanes, axis=1)
        none = np.zeros_like(slope)
        found = self.work.walk(block).influences(factors_for(self.work.wanted, slope, none))
        assert found is not None, "the same products have been in range before"
        returns = block.returns(self.work.gamma)
        kinds = {"steps": found.steps, "robust": found.robust, "lost": found.lost}
        kinds["whole"] = found.final * returns[:, None]
        return RowMoments.of(np.stack([sum_of_kinds(kinds, lane, some) for lane, some in self.terms]))


def walked(walks: Sequence[LaneWork | PlainWork], block: Block) -> list[Any]:
    """The sums of a block, one for each walk; none of the plain ones where a block was declined."""
    found: list[Any] = [work(block) for work in walks if isinstance(work, LaneWork)]
    declined = any(one.declined for one in found)
    plain = [work for work in walks if isinstance(work, PlainWork)]
    return found + [RowMoments.none(block.n) if declined else work(block) for work in plain]


def factors_for(wanted: Wanted, slope: FloatArray, pull: FloatArray) -> LaneFactors:
    """The same slope and pull for all terms that are wanted."""
    return LaneFactors(
        slope,
        slope,
        pull if wanted.steps else None,
        pull if wanted.robust else None,
        pull if wanted.robust else None,
        pull if wanted.lost else None,
    )


def sum_of_kinds(found: dict[str, FloatArray | None], lane: int, kinds: Sequence[str]) -> FloatArray:
    """(m,) the sum of some kinds of terms in one lane."""
    total: FloatArray | None = None
    for kind in kinds:
        part = found[kind]
        assert part is not None, "wanted by somebody"
        total = part[:, lane] if total is None else total + part[:, lane]
    assert total is not None
    return total
