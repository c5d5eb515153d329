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

from deadweight.answers.lanes import NOTHING, Laned, both, lane_classes, shared_walks, sum_of_kinds, values_of
from deadweight.estimators.influence import Influence
from deadweight.estimators.product import Normalised, ProductInfluence
from deadweight.estimators.windowed import WindowWalks
from deadweight.sums.blocks import Block
from deadweight.sums.lanes import LaneFactors, Lanes, LaneWalk, Wanted
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
      of_path: whether they are those of levels of a path.
    """

    influences: Sequence[Influence]
    summarise: Callable[[FloatArray, Block], Any]
    finish: Callable[[Any], None]
    of_path: bool = False


class Influences:
    """Several influences at once; travels to workers.

    Args:
      each: functions of a block, (m,) each, some of them sums of others.
      of_path: so many of them, the first, are of levels of a path.
    """

    def __init__(self, each: Sequence[Influence], of_path: int = 0) -> None:
        self._size = len(each)
        self._others: list[tuple[int, Influence]] = []
        self._windows: dict[WindowWalks, list[tuple[int, ProductInfluence]]] = {}
        in_lanes: list[tuple[int, ProductInfluence, Laned]] = []
        models: dict[Any, dict[int, list[ModelInfluence]]] = {}
        for number, influence in enumerate(each):
            for part in _parts(influence):
                laned = _laned(part, number < of_path)
                if laned is not None:
                    in_lanes.append((number, part, laned))
                elif (walks := _walks(part)) is not None:
                    self._windows.setdefault(walks, []).append((number, part))
                elif isinstance(part, ModelInfluence):
                    folds = 0 if part.folds is None else part.folds.count
                    alike = models.setdefault((part.layout.n_actions, folds), {})
                    alike.setdefault(number, []).append(part)
                else:
                    self._others.append((number, part))
        groups = shared_walks((place, laned) for place, (_, _, laned) in enumerate(in_lanes))
        self._walks = [
            _LaneInfluences(group) for places in groups for group in _by_kinds([in_lanes[k] for k in places])
        ]
        self._models = [(list(alike), JointInfluence(list(alike.values()))) for alike in models.values()]

    def __call__(self, block: Block) -> FloatArray:
        """(k, m) the influences of a block's episodes, each up to a constant."""
        influences = np.zeros((self._size, block.n))
        for walk in self._walks:
            walk.add_to(influences, block)
        for numbers, joint in self._models:
            influences[numbers] += joint(block)
        for walks, parts in self._windows.items():
            of_windows = walks.influences(block, [(_window(part), part.groups[0]) for _, part in parts])
            for row, (number, part) in enumerate(parts):
                influences[number] += part(block) if of_windows is None else of_windows[row]
        for number, other in self._others:
            influences[number] += other(block)
        return influences


def _parts(influence: Any) -> Iterator[Any]:
    inner = getattr(influence, "addends", None)
    if inner is None:
        yield influence
    else:
        for part in inner:
            yield from _parts(part)


def _laned(part: Any, of_path: bool) -> Laned | None:
    """The lane of a part; None where it is found by itself."""
    if not isinstance(part, ProductInfluence) or not all(group.in_range for group in part.groups):
        return None
    laned = Laned.of(part.family)
    return laned if laned is not None and laned.goes_in_lanes(of_path) else None


def _walks(part: Any) -> WindowWalks | None:
    """The walks of windowed weights that give an influence, those of other windows as well."""
    if not isinstance(part, ProductInfluence) or len(part.family.makers) > 1:
        return None
    walks = getattr(getattr(part.family.makers[0], "steps", None), "walks", None)
    return walks if isinstance(walks, WindowWalks) else None


def _window(part: ProductInfluence) -> int:
    window: int = getattr(part.family.makers[0], "window")  # noqa: B009 - of a maker that has walks
    return window


def _by_kinds(
    group: list[tuple[int, ProductInfluence, Laned]],
) -> list[list[tuple[int, ProductInfluence, Laned]]]:
    """Those that share a walk: lanes that need little are walked by themselves where that costs less."""
    lanes: dict[bytes, Wanted] = {}
    for _, _, laned in group:
        mask = laned.dropped.tobytes()
        lanes[mask] = both(lanes.get(mask, NOTHING), laned.wanted)
    return [
        [term for term in group if term[2].dropped.tobytes() in some]
        for some in (set(masks) for _, masks in lane_classes(lanes))
    ]


@dataclass(frozen=True, eq=False)
class _Term:
    """One influence in a lane: which row it is added to, and its kinds of terms."""

    number: int
    lane: int
    kinds: tuple[str, ...]
    whole: tuple[float, float]  # slope and pull of a whole-episode term


class _LaneInfluences:
    """One walk for several influences."""

    def __init__(self, group: Sequence[tuple[int, ProductInfluence, Laned]]) -> None:
        first = group[0][2].family
        self.weighting, self.gamma = Weighting(first.weighting.pair), first.gamma
        self.values = values_of([laned for _, _, laned in group])
        self.alone = [(number, part) for number, part, _ in group]
        lanes: dict[bytes, int] = {}
        self.terms = []
        for number, part, laned in group:
            lane = lanes.setdefault(laned.dropped.tobytes(), len(lanes))
            self.terms.append(_Term(number, lane, laned.kinds, _whole(part, laned)))
        self.lanes = Lanes(np.frombuffer(b"".join(lanes), dtype=bool).reshape(len(lanes), -1))
        self.factors = _Factors(len(lanes), max(len(g.pull) for _, part, _ in group for g in part.groups)).of(
            [(term, part) for term, (_, part, _) in zip(self.terms, group, strict=True)]
        )

    def add_to(self, total: FloatArray, block: Block) -> None:
        """Add the influences of a block's episodes to the rows of `total`."""
        walk = LaneWalk(block, self.weighting, self.lanes, self.values)
        sums = walk.influences(self.factors)
        if sums is None:
            for number, part in self.alone:
                total[number] += part(block)
            return
        kinds = {"steps": sums.steps, "robust": sums.robust, "lost": sums.lost}
        for term in self.terms:
            some = [kind for kind in term.kinds if kind != "whole"]
            if some:
                total[term.number] += sum_of_kinds(kinds, term.lane, some)
            if len(some) < len(term.kinds):
                slope, pull = term.whole
                total[term.number] += sums.final[:, term.lane] * (block.returns(self.gamma) * slope - pull)


def _whole(part: ProductInfluence, laned: Laned) -> tuple[float, float]:
    if "whole" not in laned.kinds:
        return 0.0, 0.0
    group = part.groups[laned.kinds.index("whole")]
    return float(group.slope[0]), float(group.pull[0])


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
