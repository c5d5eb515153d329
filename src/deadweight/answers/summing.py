"""All that was summed of a question, by key, and the one fold that sums what is not there yet."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadweight.answers.lane_classes import FEW_LANES
from deadweight.answers.lane_plan import LanePlan
from deadweight.answers.lane_work import LaneWork, PlainWork, walked
from deadweight.basics.progress import unforeseen_passes
from deadweight.estimators.family import Summed
from deadweight.estimators.product import ProductFamily, SelfNormalised
from deadweight.question.core import Question
from deadweight.sums import kernel
from deadweight.sums.blocks import BLOCK_CELLS, SMALL_CELLS, WALKED_CELLS, Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Kish
from deadweight.sums.weighting import Weighting


class Summing:
    """The sums of one question; all that was summed of it is there for all."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._sums = question.sums

    def found(self, one: Summed) -> Any:
        """The sums of something that has been summed."""
        inner = one.family.key if isinstance(one, SelfNormalised) else one.key
        return self._sums[inner] if inner in self._sums else self._sums[one.key]

    def sum(self, families: Iterable[Summed], weightings: Iterable[Weighting] = ()) -> None:
        """One fold for all sums that are not there yet."""
        wanted = {family.key: family for family in families if family.key not in self._sums}
        for key, family in list(wanted.items()):
            inner = family.family.key if isinstance(family, SelfNormalised) else None
            if inner is not None and (inner in wanted or inner in self._sums):
                del wanted[key]  # the sums with moments will do
        sizes = {ess_key(w): w for w in weightings if ess_key(w) not in self._sums}
        if not wanted and not sizes:
            return
        found = None
        few = len(wanted) + len(sizes) <= FEW_LANES and all(map(_is_walked, wanted.values()))
        plan = None if few else LanePlan(wanted.values(), sizes.items(), self._horizon)
        if plan is not None and plan.works:
            found = self._fold(plan.rest, dict(plan.rest_weightings), plan)
        if found is None:
            with unforeseen_passes(plan is not None and bool(plan.works)):  # a block was declined
                found = self._fold(list(wanted.values()), sizes, None)
            assert found is not None
        self._sums.update(found)

    def _horizon(self) -> int:
        """The longest episode; of a stored log that nobody knows yet it is found with the counts."""
        if self.question.parts.known is None:
            _ = self.question.counts
        return self.question.horizon

    def _cells(self, families: Sequence[Summed]) -> int:
        """The size of a block; it depends on what is summed and on the log, never on who sums."""
        parts = self.question.parts
        if kernel.KERNEL is None or not parts.has_rows or parts[0].discounting is not None:
            return BLOCK_CELLS
        return WALKED_CELLS if all(map(_is_walked, families)) else BLOCK_CELLS

    def _fold(
        self, families: Sequence[Summed], sizes: Mapping[Hashable, Weighting], plan: LanePlan | None
    ) -> dict[Hashable, Any] | None:
        """Sums by key, by way of lanes as far as the plan goes; None where a block was declined there."""
        works: tuple[LaneWork | PlainWork, ...] = () if plan is None else (*plan.works, *plan.plain)
        summarise = BlockSums(tuple(families), tuple(sizes.values()), works)
        cells = self._cells(families) if plan is None else SMALL_CELLS  # much is summed beside lanes
        found = reduce_log(self.question.parts, summarise, self.question.workers, cells)
        alone = len(families) + len(sizes)
        keys = [*(family.key for family in families), *sizes]
        of_lanes = {} if plan is None else plan.results(found[alone:])
        return None if of_lanes is None else {**dict(zip(keys, found[:alone], strict=True)), **of_lanes}


@dataclass(frozen=True, eq=False)
class BlockSums:
    """The sums of a block: of families and whole weights one by one, and of walks along many lanes."""

    families: tuple[Summed, ...]
    weightings: tuple[Weighting, ...]
    walks: tuple[LaneWork | PlainWork, ...]

    def __call__(self, block: Block) -> list[Any]:
        """All of them."""
        sums: list[Any] = [family.summarise(block) for family in self.families]
        sums += [Kish.of(weighting.on(block).final) for weighting in self.weightings]
        return sums + walked(self.walks, block)


def _is_walked(one: Summed) -> bool:
    """Whether it is summed on walks by itself, where there is a kernel."""
    family = one.family if isinstance(one, SelfNormalised) else one
    return isinstance(family, ProductFamily) and family.is_walked


def ess_key(weighting: Weighting) -> Hashable:
    """The key of the whole weights of some kept ratios."""
    return ("ess", weighting)
