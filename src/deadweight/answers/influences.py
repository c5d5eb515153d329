"""The influences of many estimates on the episodes of a block, those that are alike in one walk.

An influence is a sum of parts: of the terms of an estimate, and of the models that it uses. Parts of terms
that are lanes of one walk (`laned`) are found together, so are those of models; what is left is called one by
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.answers.lanes import NOTHING, Laned, both, is_simple, lane_classes, lane_values, sum_of_kinds
from deadweight.estimators.influence import Influence
from deadweight.estimators.product import Normalised, ProductInfluence
from deadweight.estimators.windowed import WindowWalks
from deadweight.sums.blocks import Block
from deadweight.sums.lanes import LaneFactors, Lanes, LaneValues, LaneWalk, Wanted
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray
from deadweight.values.model_influence import JointInfluence, ModelInfluence


@dataclass(frozen=True, eq=False)
class Job:
    """What somebody needs of a second pass.

    Attributes:
      influences: of a block's episodes on some estimates.
      summarise: what to sum of them, given their values, (k, m), and the block; travels to workers.
      finish: what is done with the sums of the whole log.
    """

    influences: Sequence[Influence]
    summarise: Callable[[FloatArray, Block], Any]
    finish: Callable[[Any], None]


class Influences:
    """Several influences at once; travels to workers.

    Args:
      each: functions of a block, (m,) each, some of them sums of others.
    """

    def __init__(self, each: Sequence[Influence]) -> None:
        self._size = len(each)
        self._others: list[tuple[int, Influence]] = []
        self._windows: dict[WindowWalks, list[tuple[int, ProductInfluence]]] = {}
        lanes: dict[Any, list[tuple[int, ProductInfluence, Laned]]] = {}
        models: dict[Any, dict[int, list[ModelInfluence]]] = {}
        for number, influence in enumerate(each):
            for part in _parts(influence):
                laned = _laned(part)
                if laned is not None:
                    lanes.setdefault(_group(laned), []).append((number, part, laned))
                elif (walks := _walks(part)) is not None:
                    self._windows.setdefault(walks, []).append((number, part))
                elif isinstance(part, ModelInfluence):
                    folds = 0 if part.folds is None else part.folds.count
                    alike = models.setdefault((part.layout.n_actions, folds), {})
                    alike.setdefault(number, []).append(part)
                else:
                    self._others.append((number, part))
        self._walks = []
        for group in _shared(lanes):
            for some in _by_kinds(group):
                if _is_simple(some):
                    self._others += [(number, part) for number, part, _ in some]
                else:
                    self._walks.append(_LaneInfluences(some))
        self._models = [(list(some), JointInfluence(list(some.values()))) for some in models.values()]

    def __call__(self, block: Block) -> FloatArray:
        """(k, m) the influences of a block's episodes, each up to a constant."""
        found = np.zeros((self._size, block.n))
        for walk in self._walks:
            walk.add_to(found, block)
        for numbers, joint in self._models:
            found[numbers] += joint(block)
        for walks, some in self._windows.items():
            of_windows = walks.influences(block, [(_window(part), part.groups[0]) for _, part in some])
            for row, (number, part) in enumerate(some):
                found[number] += part(block) if of_windows is None else of_windows[row]
        for number, other in self._others:
            found[number] += other(block)
        return found


def _parts(influence: Any) -> Iterator[Any]:
    inner = getattr(influence, "addends", None)
    if inner is None:
        yield influence
    else:
        for one in inner:
            yield from _parts(one)


def _laned(part: Any) -> Laned | None:
    if not isinstance(part, ProductInfluence) or not all(group.in_range for group in part.groups):
        return None
    return Laned.of(part.family)


def _walks(part: Any) -> WindowWalks | None:
    """The walks of windowed weights that give an influence, those of other windows as well."""
    if not isinstance(part, ProductInfluence) or len(part.family.makers) > 1:
        return None
    walks = getattr(getattr(part.family.makers[0], "steps", None), "walks", None)
    return walks if isinstance(walks, WindowWalks) else None


def _window(part: ProductInfluence) -> int:
    window: int = getattr(part.family.makers[0], "window")  # noqa: B009 - of a maker that has walks
    return window


def _group(laned: Laned) -> tuple[Any, ...]:
    """What must be equal in one walk."""
    family, q = laned.family, None if laned.robust is None else laned.robust.q
    return family.weighting.pair, family.gamma, None if laned.delta is None else laned.delta.delta, q


def _shared(groups: dict[Any, list[Any]]) -> list[list[Any]]:
    """Groups of one walk each: those join whose values do not differ."""
    merged: list[tuple[tuple[Any, ...], list[Any]]] = []
    for key, some in sorted(groups.items(), key=lambda item: sum(one is None for one in item[0][2:])):
        place = next((k for k, (other, _) in enumerate(merged) if _can_join(key, other)), None)
        if place is None:
            merged.append((key, list(some)))
        else:
            other, kept = merged[place]
            joined = tuple(a if b is None else b for a, b in zip(key, other, strict=True))
            merged[place] = joined, kept + some
    return [some for _, some in merged]


def _by_kinds(
    group: list[tuple[int, ProductInfluence, Laned]],
) -> list[list[tuple[int, ProductInfluence, Laned]]]:
    """Those that share a walk: lanes that need little are walked by themselves where that costs less."""
    lanes: dict[bytes, Wanted] = {}
    for _, _, laned in group:
        mask = laned.dropped.tobytes()
        lanes[mask] = both(lanes.get(mask, NOTHING), laned.wanted)
    return [
        [one for one in group if one[2].dropped.tobytes() in some]
        for some in (set(masks) for _, masks in lane_classes(lanes))
    ]


def _is_simple(some: Sequence[tuple[int, ProductInfluence, Laned]]) -> bool:
    """Whether the walks of the terms themselves are quicker."""
    return is_simple(
        {laned.dropped.tobytes() for _, _, laned in some}, {kind for _, _, one in some for kind in one.kinds}
    )


def _can_join(key: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    alike = (a is None or b is None or a == b for a, b in zip(key[2:], other[2:], strict=True))
    return key[:2] == other[:2] and all(alike)


@dataclass(frozen=True, eq=False)
class _Term:
    """One influence in a lane: which row it is added to, and its kinds of terms."""

    number: int
    lane: int
    kinds: tuple[str, ...]
    whole: tuple[float, float]  # slope and pull of a whole-episode term


class _LaneInfluences:
    """One walk for several influences."""

    def __init__(self, some: Sequence[tuple[int, ProductInfluence, Laned]]) -> None:
        first = some[0][2].family
        self.weighting, self.gamma = Weighting(first.weighting.pair), first.gamma
        self.values = _values([laned for _, _, laned in some])
        self.alone = [(number, part) for number, part, _ in some]
        lanes: dict[bytes, int] = {}
        self.terms = []
        for number, part, laned in some:
            lane = lanes.setdefault(laned.dropped.tobytes(), len(lanes))
            self.terms.append(_Term(number, lane, laned.kinds, _whole(part, laned)))
        self.lanes = Lanes(np.frombuffer(b"".join(lanes), dtype=bool).reshape(len(lanes), -1))
        self.factors = _Factors(len(lanes), max(len(g.pull) for _, part, _ in some for g in part.groups)).of(
            [(term, part) for term, (_, part, _) in zip(self.terms, some, strict=True)]
        )

    def add_to(self, total: FloatArray, block: Block) -> None:
        """Add the influences of a block's episodes to the rows of `total`."""
        walk = LaneWalk(block, self.weighting, self.lanes, self.values)
        found = walk.influences(self.factors)
        if found is None:
            for number, part in self.alone:
                total[number] += part(block)
            return
        kinds = {"steps": found.steps, "robust": found.robust, "lost": found.lost}
        for term in self.terms:
            some = [kind for kind in term.kinds if kind != "whole"]
            if some:
                total[term.number] += sum_of_kinds(kinds, term.lane, some)
            if len(some) < len(term.kinds):
                slope, pull = term.whole
                total[term.number] += found.final[:, term.lane] * (block.returns(self.gamma) * slope - pull)


def _whole(part: ProductInfluence, laned: Laned) -> tuple[float, float]:
    if "whole" not in laned.kinds:
        return 0.0, 0.0
    group = part.groups[laned.kinds.index("whole")]
    return float(group.slope[0]), float(group.pull[0])


def _values(some: Sequence[Laned]) -> LaneValues:
    advantages = next((one.advantages for one in some if one.delta is not None), None)
    robust = next((one.robust for one in some if one.robust is not None), None)
    if robust is None:
        return LaneValues(advantages)
    return lane_values(advantages, robust)


class _Factors:
    """Slopes and pulls of all lanes, filled group by group."""

    def __init__(self, lanes: int, steps: int) -> None:
        self._shape = (steps, lanes)
        self._tables: dict[str, FloatArray] = {}

    def of(self, terms: Sequence[tuple[_Term, ProductInfluence]]) -> LaneFactors:
        for term, part in terms:
            groups = iter(part.groups)
            for kind in term.kinds:
                if kind == "whole":
                    next(groups)
                elif kind == "steps":
                    self._set(term.lane, next(groups), "slope", "pull")
                elif kind == "lost":
                    self._set(term.lane, next(groups), "slope_before", "pull_lost")
                else:
                    self._set(term.lane, next(groups), "slope", "pull_robust")
                    self._set(term.lane, next(groups), "slope_before", "pull_before")
        return LaneFactors(**self._tables)

    def _set(self, lane: int, group: Normalised, slope: str, pull: str) -> None:
        for name, column in ((slope, group.slope), (pull, group.pull)):
            table = self._tables.setdefault(name, np.zeros(self._shape))
            table[: len(column), lane] = column
