"""Which families can be summed in lanes.

A family of product terms with a drop of states is a lane of `deadweight.sums.lanes`; all lanes are walked
together, however many names and levels they belong to. Per-step drops, conventions for ended episodes other
than the default, and terms of the user's own are summed by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from deadweight.estimators.influence import StartFamily, Starts, StartSums
from deadweight.estimators.product import (
    DoublyRobust,
    MissingAdvantage,
    ProductFamily,
    ProductSums,
    SelfNormalised,
)
from deadweight.sums.blocks import Block, Table, powers, stacked
from deadweight.sums.lanes import LaneFactors, Lanes, LaneSums, LaneValues, LaneWalk, Wanted
from deadweight.sums.summaries import ColumnSums, Kish, Moments, RowMoments
from deadweight.sums.weighting import Weighting
from deadweight.tools.arithmetic import once
from deadweight.typing import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Laned:
    """A family whose terms can be summed in a lane.

    Attributes:
      kinds: of its makers: "whole", "steps", "lost" or "robust".
      dropped: (S,) the states that it drops.
      delta: the maker of its correction, if it has one.
      robust: the maker of its doubly robust terms, if it has any.
    """

    family: ProductFamily
    kinds: tuple[str, ...]
    dropped: BoolArray
    delta: MissingAdvantage | None
    robust: DoublyRobust | None

    @classmethod
    def of(cls, family: Any) -> Laned | None:
        """None where it must be summed by itself; found out once."""
        if not isinstance(family, ProductFamily):
            return None
        if "_laned" not in vars(family):
            vars(family)["_laned"] = cls._found(family)
        laned: Laned | None = vars(family)["_laned"]
        return laned

    @classmethod
    def _found(cls, family: ProductFamily) -> Laned | None:
        if family.finished != "absorb":
            return None
        kinds = tuple(getattr(maker, "lane", "") for maker in family.makers)
        dropped = dropped_states(family.weighting)
        if not all(kinds) or dropped is None:
            return None
        delta = next((maker for maker in family.makers if isinstance(maker, MissingAdvantage)), None)
        robust = next((maker for maker in family.makers if isinstance(maker, DoublyRobust)), None)
        if delta is not None and not (isinstance(delta.delta, Table) and delta.delta.by_time):
            return None
        if robust is not None and not robust.has_tables:
            return None
        return cls(family, kinds, dropped, delta, robust)

    @property
    def advantages(self) -> FloatArray | None:
        """(T, S) what a dropped step loses."""
        field = None if self.delta is None else self.delta.delta
        if not isinstance(field, Table):
            return None
        return field.values if field.by_time else field.values[None]  # the same at all steps

    @property
    def is_plain(self) -> bool:
        """Whether its terms need no values: along one lane the walk of its own weights is quicker.

        Nothing is lost where nothing is dropped: an empty drop changes no bit.
        """
        return not self.wanted.robust and not (self.wanted.lost and self.dropped.any())

    def goes_in_lanes(self, of_path: bool) -> bool:
        """Whether it is summed in lanes: plain weights only where they drop states and are levels of a path.

        This depends on the family alone and on what it is for, never on what else is summed, so that an
        estimate has the same bits alone and in a table.
        """
        return not self.is_plain or (of_path and bool(self.dropped.any()))

    @property
    def values(self) -> tuple[Any, ...]:
        """Policies and discount, and what it drops and corrects by; None for what it does not need."""
        q = None if self.robust is None else self.robust.q
        return (
            self.family.weighting.pair,
            self.family.gamma,
            None if self.delta is None else self.delta.delta,
            q,
        )

    @once
    def wanted(self) -> Wanted:
        """The sums of its terms."""
        return Wanted(*(kind in self.kinds for kind in ("steps", "robust", "lost")))


def dropped_states(weighting: Weighting) -> BoolArray | None:
    """(S,) the states that a weighting drops; None where it drops something else."""
    drop = weighting.drop
    if drop is None:
        return np.zeros(weighting.pair.n_states, dtype=bool)
    return drop.values if isinstance(drop, Table) and drop.values.ndim == 1 else None


def lane_values(delta: FloatArray | None, robust: DoublyRobust) -> LaneValues:
    """The values of doubly robust terms as tables of folds and steps."""
    (q, folds), (v, _) = stacked(robust.q), stacked(robust.v)
    if not robust.by_time:  # the same at all steps
        q, v = q[:, None], v[:, None]
    return LaneValues(delta, q, v, folds)


# --- In how few walks lanes are walked: those that want the same together, others where that costs less

# What a walk costs besides its lanes, in units of one number of one lane.
READING = 16
NOTHING = Wanted()


@lru_cache(maxsize=1024)
def both(wanted: Wanted, another: Wanted) -> Wanted:
    """What either wants; there are few kinds, and hundreds of lanes."""
    return wanted | another


def lane_classes(lanes: dict[bytes, Wanted]) -> list[tuple[Wanted, list[bytes]]]:
    """Lanes that want the same, in walks; two walks are one where that costs less."""
    classes: list[tuple[Wanted, list[bytes]]] = []
    for mask, wanted in lanes.items():
        same = next((masks for which, masks in classes if which == wanted), None)
        if same is None:
            classes.append((wanted, [mask]))
        else:
            same.append(mask)
    while len(classes) > 1:
        pairs = [(i, j) for i in range(len(classes)) for j in range(i)]
        saved = [
            _cost([classes[i]]) + _cost([classes[j]]) - _cost([classes[i], classes[j]]) for i, j in pairs
        ]
        best = int(np.argmax(saved))
        if saved[best] <= 0:
            break
        i, j = pairs[best]
        merged = (classes[i][0] | classes[j][0], classes[j][1] + classes[i][1])
        classes = [kind for k, kind in enumerate(classes) if k not in (i, j)] + [merged]
    return classes


def _cost(classes: Sequence[tuple[Wanted, list[bytes]]]) -> int:
    """Of one walk for the lanes of some classes."""
    wanted, lanes = NOTHING, 0
    for which, masks in classes:
        wanted, lanes = both(wanted, which), lanes + len(masks)
    each = 2 + wanted.steps + 2 * wanted.robust + wanted.lost + wanted.by_state + 2 * wanted.by_pair
    return READING + each * (-(-lanes // 4) * 4)


# --- What is done with a block along the lanes of one walk: sums, and moments of plain means


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
        sums = self.work.walk(block).influences(factors_for(self.work.wanted, slope, none))
        assert sums is not None, "the same products have been in range before"
        returns = block.returns(self.work.gamma)
        kinds = {"steps": sums.steps, "robust": sums.robust, "lost": sums.lost}
        kinds["whole"] = sums.final * returns[:, None]
        return RowMoments.of(np.stack([sum_of_kinds(kinds, lane, of_lane) for lane, of_lane in self.terms]))


def walked(walks: Sequence[LaneWork | PlainWork], block: Block) -> list[Any]:
    """The sums of a block, one for each walk; none of the plain ones where a block was declined."""
    sums: list[Any] = [work(block) for work in walks if isinstance(work, LaneWork)]
    declined = any(lane_sums.declined for lane_sums in sums)
    plain = [work for work in walks if isinstance(work, PlainWork)]
    return sums + [RowMoments.none(block.n) if declined else work(block) for work in plain]


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


def sum_of_kinds(by_kind: dict[str, FloatArray | None], lane: int, kinds: Sequence[str]) -> FloatArray:
    """(m,) the sum of some kinds of terms in one lane."""
    total: FloatArray | None = None
    for kind in kinds:
        part = by_kind[kind]
        assert part is not None, "wanted by somebody"
        total = part[:, lane] if total is None else total + part[:, lane]
    assert total is not None
    return total


# --- What the sums of one lane say of a family: its groups of terms, its weights, what moves a model


def size_of_lane(sums: LaneSums, lane: int) -> Kish:
    """Sums of whole weights and of their squares."""
    assert sums.whole is not None
    weight = sums.whole.weight[lane : lane + 1]
    shift = ColumnSums.in_units_of_one(sums.n, weight, weight).shift
    return Kish(True, shift, weight, sums.whole.squares[lane : lane + 1])


def error_of_lane(laned: Laned, sums: LaneSums, lane: int) -> float | None:
    """The standard error of a self-normalised sum of whole episodes; others need a second pass.

    Without a drop it is left to that pass, by which a plain name has it: an empty drop changes no bit.
    """
    if laned.kinds != ("whole",) or sums.whole is None or not laned.dropped.any():
        return None
    return float(sums.whole.std_error(sums.n)[lane])


def groups_of_lane(laned: Laned, lane_sums: LaneSums, lane: int) -> list[ColumnSums]:
    """The sums of each group of terms of a family."""
    n, groups = lane_sums.n, []
    weight = lane_sums.weight[:, lane]
    before = np.concatenate([[float(n)], weight])

    def sums(weights: FloatArray, weighted: FloatArray | None) -> ColumnSums:
        assert weighted is not None, "wanted by somebody"
        column = weighted[:, lane]
        if len(weights) > len(column):  # weights before a step go on one step past the end
            column = np.append(column, 0.0)
        return ColumnSums.in_units_of_one(n, weights, column)

    for kind in laned.kinds:
        if kind == "whole":
            assert lane_sums.whole is not None
            cell = slice(lane, lane + 1)
            groups.append(
                ColumnSums.in_units_of_one(n, lane_sums.whole.weight[cell], lane_sums.whole.weighted[cell])
            )
        elif kind == "steps":
            groups.append(sums(weight, lane_sums.weighted))
        elif kind == "lost":
            groups.append(sums(before, lane_sums.lost))
        else:
            groups += [sums(weight, lane_sums.robust), sums(before, lane_sums.before)]
    return groups


def starts_of_lane(laned: Laned, sums: LaneSums, lane: int) -> Starts:
    """The weights by step and place behind the influence of a model."""
    assert sums.by_state is not None
    by_state = sums.by_state[
        ..., lane
    ]  # (folds, T, S) of the walk, which may know more folds than its family
    one_model = laned.robust is not None and isinstance(laned.robust.q, Table)
    tables = []
    for kind in laned.kinds:
        if kind == "lost":
            tables.append(np.where(laned.dropped, by_state.sum(axis=0), 0.0))
        elif kind == "robust":
            assert sums.by_pair is not None
            both = sums.by_pair[..., lane], by_state
            tables += [table.sum(axis=0) if one_model else _side_by_side(table) for table in both]
    return Starts(tuple(StartSums(np.zeros(len(table), dtype=np.int64), table) for table in tables))


def _side_by_side(by_fold: FloatArray) -> FloatArray:
    """(T, folds * places), of (folds, T, places)."""
    return by_fold.transpose(1, 0, 2).reshape(by_fold.shape[1], -1)


# --- The walks along lanes that some sums need, and how each result is read off them

# Weights by step and place of all lanes of a walk have at most so many cells, 128 MiB.
MOST_CELLS = 1 << 24


def shared_walks(families: Iterable[tuple[int, Laned]]) -> list[list[int]]:
    """Numbers of families that share walks: those whose values do not differ.

    Models of folds are walked by themselves: what is summed by fold would add up in another order.
    """
    walks: list[tuple[tuple[Any, ...], list[int]]] = []
    for number, laned in sorted(families, key=lambda pair: sum(value is None for value in pair[1].values)):
        needed = laned.values
        for place, (values, numbers) in enumerate(walks):
            if _share(needed, values):
                joined = tuple(a if b is None else b for a, b in zip(needed, values, strict=True))
                walks[place] = joined, [*numbers, number]
                break
        else:
            walks.append((needed, [number]))
    return [numbers for _, numbers in walks]


def _share(needed: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    by_fold = [not (values[-1] is None or isinstance(values[-1], Table)) for values in (needed, others)]
    agree = (a is None or b is None or a is b or a == b for a, b in zip(needed, others, strict=True))
    return by_fold[0] == by_fold[1] and all(agree)


@dataclass(frozen=True, eq=False)
class _InLane:
    """One of the sums of a walk.

    Attributes:
      key: under which the sums are kept.
      laned: the family; None for the size of whole weights.
      dropped: (S,) the states that its lane drops.
      wanted: what is summed of the lane.
      result: "sums", "plain" (with moments of unnormalised terms), "starts" or "size".
    """

    key: Any
    laned: Laned | None
    dropped: BoolArray
    wanted: Wanted
    result: str


class LanePlan:
    """The walks that some sums need.

    Args:
      wanted: what is to be summed; `rest` is what no lane can do.
      weightings: whose whole weights are to be summed; likewise `rest_weightings`.
      of_path: keys of sums and of whole weights that are levels of a path.
      horizon: the longest episode; called only where it is needed, since it may take a pass.
    """

    def __init__(
        self,
        wanted: Iterable[Any],
        weightings: Iterable[tuple[Any, Weighting]],
        of_path: Set[Any],
        horizon: Callable[[], int],
    ) -> None:
        self.rest: list[Any] = []
        self.rest_weightings: list[tuple[Any, Weighting]] = []
        self.works: list[LaneWork] = []
        self.plain: list[PlainWork] = []
        self._walks: list[list[tuple[_InLane, int]]] = []  # of each walk its sums, with their lanes
        self._plain_of: dict[Any, tuple[int, int]] = {}  # walk of plain means, and row
        self._horizon = horizon
        sums = [self._in_lane(summed, summed.key in of_path) for summed in wanted]
        laned = [(number, each.laned) for number, each in enumerate(sums) if each is not None and each.laned]
        groups = [[each for n in numbers if (each := sums[n]) is not None] for numbers in shared_walks(laned)]
        for key, weighting in weightings:
            self._add_size(key, weighting, groups, key in of_path)
        for group in groups:
            self._set_out(group)

    def _in_lane(self, summed: Any, of_path: bool) -> _InLane | None:
        """How something is summed in a lane; None where it is not, and goes to the rest."""
        family, result = summed, "plain"
        if isinstance(summed, SelfNormalised | StartFamily):
            family, result = summed.family, "sums" if isinstance(summed, SelfNormalised) else "starts"
        laned = Laned.of(family)
        if laned is not None and laned.goes_in_lanes(of_path) and getattr(summed, "times", None) is None:
            wanted = laned.wanted if result != "starts" else self._starts(summed, laned)
            if wanted is not None:
                return _InLane(summed.key, laned, laned.dropped, wanted, result)
        self.rest.append(summed)
        return None

    def _starts(self, summed: StartFamily, laned: Laned) -> Wanted | None:
        """Weights by step and place; None where they would be too many."""
        folds = summed.folds.count if summed.folds is not None else 1
        by_pair = laned.robust is not None
        places = laned.dropped.size * (laned.family.weighting.pair.n_actions if by_pair else 1)
        too_many = folds * self._horizon() * places * 64 > MOST_CELLS
        return None if too_many else Wanted(by_state=True, by_pair=by_pair)

    def _add_size(self, key: Any, weighting: Weighting, groups: list[list[_InLane]], of_path: bool) -> None:
        """Put whole weights of a level to a lane with the same drop, if there is one."""
        dropped = dropped_states(weighting) if of_path else None
        for group in groups:
            laned = group[0].laned
            if (
                dropped is not None
                and dropped.any()
                and laned
                and laned.family.weighting.pair == weighting.pair
            ):
                group.append(_InLane(key, None, dropped, NOTHING, "size"))
                return
        self.rest_weightings.append((key, weighting))

    def _set_out(self, group: list[_InLane]) -> None:
        """Share the sums of one group out among walks."""
        lanes: dict[bytes, Wanted] = {}
        for each in group:
            mask = each.dropped.tobytes()
            lanes[mask] = both(lanes.get(mask, NOTHING), each.wanted)
        families = [each.laned for each in group if each.laned is not None]
        first, values = families[0].family, values_of(families)
        for wanted, masks in lane_classes(lanes):
            rows = np.frombuffer(b"".join(masks), dtype=bool).reshape(len(masks), -1)
            self.works.append(
                LaneWork(Weighting(first.weighting.pair), Lanes(rows), values, wanted, first.gamma)
            )
            lane_of = {mask: lane for lane, mask in enumerate(masks)}
            in_walk = [(each, lane_of[mask]) for each in group if (mask := each.dropped.tobytes()) in lane_of]
            self._walks.append(in_walk)
            plain = [(each, lane) for each, lane in in_walk if each.result == "plain"]
            if plain:
                terms = tuple((lane, each.laned.kinds) for each, lane in plain if each.laned is not None)
                self._plain_of |= {each.key: (len(self.plain), row) for row, (each, _) in enumerate(plain)}
                self.plain.append(PlainWork(self.works[-1], self._horizon(), terms))

    def results(self, of_works: Sequence[Any]) -> dict[Any, Any] | None:
        """The sums by key; None where a block was declined."""
        walks, plain = list(of_works[: len(self.works)]), of_works[len(self.works) :]
        if any(sums.declined for sums in walks):
            return None
        results: dict[Any, Any] = {}
        for sums, in_walk in zip(walks, self._walks, strict=True):
            for each, lane in in_walk:
                if each.laned is None:
                    results[each.key] = size_of_lane(sums, lane)
                elif each.result == "starts":
                    results[each.key] = starts_of_lane(each.laned, sums, lane)
                else:
                    moments = Moments(sums.n, np.nan, np.nan)
                    if each.key in self._plain_of:
                        number, row = self._plain_of[each.key]
                        moments = plain[number].row(row)
                    groups = tuple(groups_of_lane(each.laned, sums, lane))
                    results[each.key] = ProductSums(groups, moments, error_of_lane(each.laned, sums, lane))
        return results


def values_of(families: Sequence[Laned]) -> LaneValues:
    """The tables that the lanes of one walk need."""
    advantages = next((laned.advantages for laned in families if laned.delta is not None), None)
    robust = next((laned.robust for laned in families if laned.robust is not None), None)
    return LaneValues(advantages) if robust is None else lane_values(advantages, robust)
