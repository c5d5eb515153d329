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
from deadweight.sums.blocks import Block, Field, Table, powers, stacked
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
        found: Laned | None = vars(family)["_laned"]
        return found

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


# --------------------------------------------------------------------------------------------------------
# In how few walks lanes are walked: those that want the same together, others where that costs less.

# What a walk costs besides its lanes, in units of one number of one lane.
READING = 16
# Plain weights under so few drops are quicker summed one after the other (`deadweight.sums.weighting`).
FEW_LANES = 2
NOTHING = Wanted()


def is_simple(masks: Set[bytes], kinds: Set[str]) -> bool:
    """Whether there are a drop or two without any values: along one lane another walk is quicker."""
    return len(masks) <= FEW_LANES and kinds <= {"whole", "steps"}


@lru_cache(maxsize=1024)
def both(one: Wanted, other: Wanted) -> Wanted:
    """What either wants; there are few kinds, and hundreds of lanes."""
    return one | other


def lane_classes(lanes: dict[bytes, Wanted]) -> list[tuple[Wanted, list[bytes]]]:
    """Lanes that want the same, in walks; two walks are one where that costs less."""
    classes: list[tuple[Wanted, list[bytes]]] = []
    for mask, wanted in lanes.items():
        same = next((some for which, some in classes if which == wanted), None)
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
        classes = [one for k, one in enumerate(classes) if k not in (i, j)] + [merged]
    return classes


def _cost(classes: Sequence[tuple[Wanted, list[bytes]]]) -> int:
    """Of one walk for the lanes of some classes."""
    wanted, lanes = NOTHING, 0
    for which, some in classes:
        wanted, lanes = both(wanted, which), lanes + len(some)
    each = 2 + wanted.steps + 2 * wanted.robust + wanted.lost + wanted.by_state + 2 * wanted.by_pair
    return READING + each * (-(-lanes // 4) * 4)


# --------------------------------------------------------------------------------------------------------
# What is done with a block along the lanes of one walk: sums, and moments of plain means.


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


# --------------------------------------------------------------------------------------------------------
# What the sums of one lane say of a family: its groups of terms, its weights, what moves a model.


def size_of_lane(found: LaneSums, lane: int) -> Kish:
    """Sums of whole weights and of their squares."""
    assert found.whole is not None
    weight = found.whole.weight[lane : lane + 1]
    shift = ColumnSums.in_units_of_one(found.n, weight, weight).shift
    return Kish(True, shift, weight, found.whole.squares[lane : lane + 1])


def error_of_lane(laned: Laned, found: LaneSums, lane: int) -> float | None:
    """The standard error of a self-normalised sum of whole episodes; others need a second pass.

    Without a drop it is left to that pass, by which a plain name has it: an empty drop changes no bit.
    """
    if laned.kinds != ("whole",) or found.whole is None or not laned.dropped.any():
        return None
    return float(found.whole.std_error(found.n)[lane])


def groups_of_lane(laned: Laned, found: LaneSums, lane: int) -> list[ColumnSums]:
    """The sums of each group of terms of a family."""
    n, groups = found.n, []
    weight = found.weight[:, lane]
    before = np.concatenate([[float(n)], weight])

    def sums(weights: FloatArray, weighted: FloatArray | None) -> ColumnSums:
        assert weighted is not None, "wanted by somebody"
        column = weighted[:, lane]
        if len(weights) > len(column):  # weights before a step go on one step past the end
            column = np.append(column, 0.0)
        return ColumnSums.in_units_of_one(n, weights, column)

    for kind in laned.kinds:
        if kind == "whole":
            assert found.whole is not None
            some = slice(lane, lane + 1)
            groups.append(ColumnSums.in_units_of_one(n, found.whole.weight[some], found.whole.weighted[some]))
        elif kind == "steps":
            groups.append(sums(weight, found.weighted))
        elif kind == "lost":
            groups.append(sums(before, found.lost))
        else:
            groups += [sums(weight, found.robust), sums(before, found.before)]
    return groups


def starts_of_lane(laned: Laned, found: LaneSums, lane: int) -> Starts:
    """The weights by step and place behind the influence of a model."""
    assert found.by_state is not None
    by_state = found.by_state[
        ..., lane
    ]  # (folds, T, S) of the walk, which may know more folds than its family
    one_model = laned.robust is not None and isinstance(laned.robust.q, Table)
    tables = []
    for kind in laned.kinds:
        if kind == "lost":
            tables.append(np.where(laned.dropped, by_state.sum(axis=0), 0.0))
        elif kind == "robust":
            assert found.by_pair is not None
            both = found.by_pair[..., lane], by_state
            tables += [one.sum(axis=0) if one_model else _side_by_side(one) for one in both]
    return Starts(tuple(StartSums(np.zeros(len(one), dtype=np.int64), one) for one in tables))


def _side_by_side(by_fold: FloatArray) -> FloatArray:
    """(T, folds * places), of (folds, T, places)."""
    return by_fold.transpose(1, 0, 2).reshape(by_fold.shape[1], -1)


# --------------------------------------------------------------------------------------------------------
# The walks along lanes that some sums need, and how each result is read off them.

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
