"""The walks along lanes that some sums need, and how each result is read off them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.answers.lane_classes import NOTHING, both, is_simple, lane_classes
from deadweight.answers.lane_results import error_of_lane, groups_of_lane, size_of_lane, starts_of_lane
from deadweight.answers.lane_work import LaneWork, PlainWork
from deadweight.answers.laned import Laned, dropped_states, lane_values
from deadweight.estimators.corrected import MissingAdvantage
from deadweight.estimators.product import ProductSums, SelfNormalised
from deadweight.estimators.starts import StartFamily
from deadweight.sums.fields import Field, Table
from deadweight.sums.lanes import Lanes, LaneValues, Wanted
from deadweight.sums.summaries import Moments
from deadweight.sums.weighting import Weighting
from deadweight.typing import BoolArray

# Weights by step and place of all lanes of a walk have at most so many cells, 128 MiB.
MOST_CELLS = 1 << 24


@dataclass(frozen=True, eq=False)
class _Asked:
    """Something that is to be summed in a lane, and how its result is read off."""

    key: Any
    source: Any
    laned: Laned | None  # None: whole weights only
    dropped: BoolArray
    wanted: Wanted
    result: str  # "sums", "plain" (with moments of unnormalised terms), "starts" or "size"


class LanePlan:
    """The walks that some sums need.

    Args:
      wanted: what is to be summed; `rest` is what no lane can do.
      weightings: whose whole weights are to be summed; likewise `rest_weightings`.
      horizon: the longest episode; called only where it is needed, since it may take a pass.
    """

    def __init__(
        self, wanted: Iterable[Any], weightings: Iterable[tuple[Any, Weighting]], horizon: Callable[[], int]
    ) -> None:
        self.rest: list[Any] = []
        self.rest_weightings: list[tuple[Any, Weighting]] = []
        self.works: list[LaneWork] = []
        self.plain: list[PlainWork] = []
        self._asked: list[_Asked] = []
        self._delta: MissingAdvantage | None = None  # the first that was asked for
        self._where: list[tuple[int, int]] = []  # walk and lane of each that was asked for
        self._plain_of: dict[int, tuple[int, int]] = {}
        self._horizon = horizon
        for one in wanted:
            if not self._ask(one):
                self.rest.append(one)
        for key, weighting in weightings:
            self._ask_size(key, weighting)
        self._set_out()

    def _ask(self, one: Any) -> bool:
        family, result = one, "plain"
        if isinstance(one, SelfNormalised | StartFamily):
            family, result = one.family, "sums" if isinstance(one, SelfNormalised) else "starts"
        laned = Laned.of(family)
        if laned is None or not self._fits(laned) or getattr(one, "times", None) is not None:
            return False
        wanted = laned.wanted
        if result == "starts":
            folds = one.folds.count if one.folds is not None else 1
            by_pair = laned.robust is not None
            places = laned.dropped.size * (laned.family.weighting.pair.n_actions if by_pair else 1)
            if folds * self._horizon() * places * 64 > MOST_CELLS:
                return False
            wanted = Wanted(by_state=True, by_pair=by_pair)
        self._delta = self._delta or laned.delta
        self._asked.append(_Asked(one.key, one, laned, laned.dropped, wanted, result))
        return True

    def _ask_size(self, key: Any, weighting: Weighting) -> None:
        dropped = dropped_states(weighting)
        if dropped is None or not self._asked or self._asked[0].laned is None:
            self.rest_weightings.append((key, weighting))
        else:
            self._asked.append(_Asked(key, weighting, None, dropped, Wanted(), "size"))

    def _fits(self, laned: Laned) -> bool:
        """Whether it has policies, discount and advantages in common with what was asked for before."""
        first = next((asked.laned for asked in self._asked), None)
        if first is None:
            return True
        own, other = laned.delta, self._delta
        return (
            first.family.weighting.pair == laned.family.weighting.pair
            and first.family.gamma == laned.family.gamma
            and (own is None or other is None or own.delta is other.delta or own.delta == other.delta)
        )

    def _set_out(self) -> None:
        """Share the lanes out among walks."""
        if not self._asked:
            return
        if self._is_simple:
            self.rest = [asked.source for asked in self._asked if asked.laned is not None] + self.rest
            self.rest_weightings += [(a.key, a.source) for a in self._asked if a.laned is None]
            self._asked = []
            return
        groups: dict[Field | None, dict[bytes, Wanted]] = {}
        masks: dict[bytes, BoolArray] = {}
        home = next((q for asked in self._asked if (q := _whole_model(asked.laned)) is not None), None)
        place: dict[int, tuple[Field | None, bytes]] = {}
        # Those come last that need no values of their own: they may go along with others.
        for number, asked in sorted(enumerate(self._asked), key=lambda one: _is_free(one[1])):
            robust = None if asked.laned is None else asked.laned.robust
            group, mask = home if robust is None else robust.q, asked.dropped.tobytes()
            if _is_free(asked):
                group = next((q for q, some in groups.items() if _goes_along(asked, some.get(mask))), group)
            masks[mask] = asked.dropped
            lanes = groups.setdefault(group, {})
            lanes[mask] = both(lanes.get(mask, NOTHING), asked.wanted)
            place[number] = group, mask
        at: dict[tuple[Field | None, bytes], tuple[int, int]] = {}
        for group, lanes in groups.items():
            values = self._values(group)
            for wanted, some in lane_classes(lanes):
                dropped = Lanes(np.stack([masks[mask] for mask in some]))
                at.update({(group, mask): (len(self.works), lane) for lane, mask in enumerate(some)})
                self.works.append(self._work(dropped, values, wanted))
        self._where = [at[place[number]] for number in range(len(self._asked))]
        self._set_out_plain()

    @property
    def _is_simple(self) -> bool:
        masks = {asked.dropped.tobytes() for asked in self._asked}
        kinds = {kind for asked in self._asked if asked.laned is not None for kind in asked.laned.kinds}
        return is_simple(masks, kinds)

    def _set_out_plain(self) -> None:
        """Walks for those estimates that are plain means of terms."""
        terms: dict[int, list[tuple[int, int, tuple[str, ...]]]] = {}
        for number, asked in enumerate(self._asked):
            if asked.result == "plain" and asked.laned is not None:
                walk, lane = self._where[number]
                terms.setdefault(walk, []).append((number, lane, asked.laned.kinds))
        for walk, some in terms.items():
            lanes = tuple((lane, kinds) for _, lane, kinds in some)
            for row, (number, _, _) in enumerate(some):
                self._plain_of[number] = len(self.plain), row
            self.plain.append(PlainWork(self.works[walk], self._horizon(), lanes))

    def _work(self, lanes: Lanes, values: LaneValues, wanted: Wanted) -> LaneWork:
        first = next(asked.laned.family for asked in self._asked if asked.laned is not None)
        return LaneWork(Weighting(first.weighting.pair), lanes, values, wanted, first.gamma)

    def _values(self, group: Field | None) -> LaneValues:
        makers = [asked.laned for asked in self._asked if asked.laned is not None]
        delta = next((one.advantages for one in makers if one.delta is not None), None)
        robust = next(
            (one.robust for one in makers if one.robust is not None and one.robust.q == group), None
        )
        if robust is None:
            return LaneValues(delta)
        return lane_values(delta, robust)

    def results(self, found: Sequence[Any]) -> dict[Any, Any] | None:
        """What each that was asked for is, by key; None where a block was declined."""
        sums, plain = list(found[: len(self.works)]), found[len(self.works) :]
        if any(one.declined for one in sums):
            return None
        results: dict[Any, Any] = {}
        for number, asked in enumerate(self._asked):
            walk, lane = self._where[number]
            one = sums[walk]
            if asked.laned is None:
                results[asked.key] = size_of_lane(one, lane)
            elif asked.result == "starts":
                results[asked.key] = starts_of_lane(asked.laned, one, lane)
            else:
                moments = Moments(one.n, np.nan, np.nan)
                if number in self._plain_of:
                    made, row = self._plain_of[number]
                    moments = plain[made].row(row)
                groups = tuple(groups_of_lane(asked.laned, one, lane))
                results[asked.key] = ProductSums(groups, moments, error_of_lane(asked.laned, one, lane))
        return results


def _is_free(asked: _Asked) -> bool:
    """Whether it needs no values of its own: neither sums with them, nor weights by fold."""
    robust = None if asked.laned is None else asked.laned.robust
    return not asked.wanted.robust and (robust is None or isinstance(robust.q, Table))


def _goes_along(asked: _Asked, lane: Wanted | None) -> bool:
    """Whether a lane of another walk has the same drop, and the weights by place that are asked for."""
    if lane is None:
        return False
    return lane.by_state >= asked.wanted.by_state and lane.by_pair >= asked.wanted.by_pair


def _whole_model(laned: Laned | None) -> Table | None:
    """The action values of doubly robust terms by one model for all episodes; None where there are none."""
    q = None if laned is None or laned.robust is None else laned.robust.q
    return q if isinstance(q, Table) else None
