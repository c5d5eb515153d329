"""Rounds: whatever needs the log asks for it, and one pass serves all who ask at the same time.

A task is a generator that yields requests, such as `Sums` or `OfInfluences`, and goes on when they have been
served. Tasks that run `together` ask together: of what they wait for the earliest kind is served first
(counts, then sums, then influences), for all of them in one pass. So the estimates of a table, the mix, every
check of the log and what a report shows say in their own place what they need, and none knows the others:

    def late_rewards(answers):
        yield Sums([RewardTiming()])
        return answers.found(RewardTiming()).is_late

    late, errors = carry_out(question, late_rewards(answers), answers.std_errors())

Sums stay with the question, by key: a request for what is there already costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from deadweight.answers.lanes import (
    NOTHING,
    Laned,
    LanePlan,
    LaneWork,
    PlainWork,
    both,
    lane_classes,
    shared_walks,
    sum_of_kinds,
    values_of,
    walked,
)
from deadweight.estimators.influence import Influence
from deadweight.estimators.product import Normalised, ProductFamily, ProductInfluence, SelfNormalised, Summed
from deadweight.estimators.windowed import WindowWalks
from deadweight.question.question import Question
from deadweight.sums.blocks import SMALL_CELLS, Block
from deadweight.sums.lanes import LaneFactors, Lanes, LaneWalk, Wanted
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Kish
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray
from deadweight.values.model_influence import JointInfluence, ModelInfluence

T = TypeVar("T")


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


class Request(ABC):
    """What a task waits for.

    Attributes:
      order: of several kinds, that with the least is served first.
    """

    order: ClassVar[int]

    @abstractmethod
    def joined(self, others: Iterable[Self]) -> Self:
        """The request that serves this one and others of its kind."""

    @abstractmethod
    def serve(self, question: Question) -> None:
        """Make what is not there yet, by one pass."""


Task = Generator[Request, None, T]


@dataclass(frozen=True)
class Counts(Request):
    """The transition counts of a question, which a model is fitted to."""

    order: ClassVar[int] = 0

    def joined(self, others: Iterable[Self]) -> Self:
        """The counts are the same for all."""
        return self

    def serve(self, question: Question) -> None:
        """Count the log, unless the model is given, or states have no labels."""
        if question.options.model is None and question.parts.has_states:
            question.facts.counts(question.shape)


@dataclass(frozen=True)
class Sums(Request):
    """Sums over the episodes, and those of the whole weights of some kept ratios.

    `of_path`: keys of those that are levels of a path, of which there are many.
    """

    order: ClassVar[int] = 1
    wanted: Sequence[Summed]
    weightings: Sequence[Weighting] = ()
    of_path: Set[Hashable] = frozenset()

    def joined(self, others: Iterable[Self]) -> Self:
        """All of them."""
        every = [self, *others]
        return type(self)(
            [summed for sums in every for summed in sums.wanted],
            [weighting for sums in every for weighting in sums.weightings],
            frozenset().union(*(sums.of_path for sums in every)),
        )

    def serve(self, question: Question) -> None:
        """Sum what is not there yet."""
        Summing(question).sum(self.wanted, self.weightings, self.of_path)


@dataclass(frozen=True)
class OfInfluences(Request):
    """What is to be done with the influences of episodes on some estimates; None asks for nothing."""

    order: ClassVar[int] = 2
    jobs: Sequence[Job | None]

    def joined(self, others: Iterable[Self]) -> Self:
        """All of them."""
        return type(self)([job for asked in (self, *others) for job in asked.jobs])

    def serve(self, question: Question) -> None:
        """All jobs in one pass."""
        jobs = sorted((job for job in self.jobs if job is not None), key=lambda job: not job.of_path)
        if not jobs:
            return
        of_path = sum(len(job.influences) for job in jobs if job.of_path)
        ends = np.cumsum([0, *(len(job.influences) for job in jobs)]).tolist()
        rows = [(slice(lo, hi), job.summarise) for (lo, hi), job in zip(pairwise(ends), jobs, strict=True)]
        work = _JobsOfBlock(
            Influences([each for job in jobs for each in job.influences], of_path), tuple(rows)
        )
        sums = reduce_log(question.parts, work, question.workers, SMALL_CELLS)
        for job, of_job in zip(jobs, sums, strict=True):
            job.finish(of_job)


@dataclass(frozen=True, eq=False)
class _JobsOfBlock:
    """The sums of all jobs over a block; travels to workers."""

    influences: Influences
    jobs: tuple[tuple[slice, Callable[[FloatArray, Block], Any]], ...]

    def __call__(self, block: Block) -> list[Any]:
        values = self.influences(block)
        return [summarise(values[rows], block) for rows, summarise in self.jobs]


def together(*tasks: Task[Any]) -> Task[list[Any]]:
    """One task of several; its result is the list of theirs."""
    results: list[Any] = [None] * len(tasks)
    waiting: dict[int, Request] = {}

    def go_on(number: int) -> None:
        try:
            waiting[number] = next(tasks[number])
        except StopIteration as done:
            results[number] = done.value

    for number in range(len(tasks)):
        go_on(number)
    while waiting:
        order = min(request.order for request in waiting.values())
        served = {number: waiting.pop(number) for number in [*waiting] if waiting[number].order == order}
        first, *others = served.values()
        yield first.joined(others)
        for number in served:
            go_on(number)
    return results


def carry_out(question: Question, *tasks: Task[Any]) -> list[Any]:
    """The results of tasks about one question, which share their passes over its log."""
    every = together(*tasks)
    while True:
        try:
            request = next(every)
        except StopIteration as done:
            results: list[Any] = done.value
            return results
        request.serve(question)


class Summing:
    """The sums of one question; all that was summed of it is there for all."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._sums = question.sums

    def found(self, summed: Summed) -> Any:
        """The sums of something that has been summed."""
        inner = summed.family.key if isinstance(summed, SelfNormalised) else summed.key
        return self._sums[inner] if inner in self._sums else self._sums[summed.key]

    def sum(
        self,
        families: Iterable[Summed],
        weightings: Iterable[Weighting] = (),
        of_path: Set[Hashable] = frozenset(),
    ) -> None:
        """One fold for all sums that are not there yet.

        Blocks are small whatever is summed: how a sum is made depends on its family, never on its company.
        """
        wanted = {family.key: family for family in families if family.key not in self._sums}
        for key, family in list(wanted.items()):
            inner = family.family.key if isinstance(family, SelfNormalised) else None
            if inner is not None and (inner in wanted or inner in self._sums):
                del wanted[key]  # the sums with moments will do
        sizes = {ess_key(w): w for w in weightings if ess_key(w) not in self._sums}
        if not wanted and not sizes:
            return
        sums = None
        if not (all(map(_is_walked_alone, wanted.values())) and of_path.isdisjoint(sizes)):
            plan = LanePlan(wanted.values(), sizes.items(), of_path, self._horizon)
            sums = self._fold(plan.rest, dict(plan.rest_weightings), plan)
        if sums is None:  # nothing goes in lanes, or a block was declined there
            sums = self._fold(list(wanted.values()), sizes, None)
            assert sums is not None
        self._sums.update(sums)

    def _horizon(self) -> int:
        """The longest episode; of a stored log that nobody knows yet it is found with the counts."""
        self.question.learn_sizes()
        return self.question.horizon

    def _fold(
        self, families: Sequence[Summed], sizes: Mapping[Hashable, Weighting], plan: LanePlan | None
    ) -> dict[Hashable, Any] | None:
        """Sums by key, by way of lanes as far as the plan goes; None where a block was declined there."""
        works: tuple[LaneWork | PlainWork, ...] = () if plan is None else (*plan.works, *plan.plain)
        summarise = BlockSums(tuple(families), tuple(sizes.values()), works)
        sums = reduce_log(self.question.parts, summarise, self.question.workers, SMALL_CELLS)
        alone = len(families) + len(sizes)
        keys = [*(family.key for family in families), *sizes]
        of_lanes = {} if plan is None else plan.results(sums[alone:])
        return None if of_lanes is None else {**dict(zip(keys, sums[:alone], strict=True)), **of_lanes}


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
        return sums + walked(self.walks, block) if self.walks else sums


def _is_walked_alone(summed: Summed) -> bool:
    """Whether it would be no lane: its weights are those of all ratios, and it needs no values."""
    family = summed.family if isinstance(summed, SelfNormalised) else summed
    return isinstance(family, ProductFamily) and family.is_walked and family.weighting.drop is None


def ess_key(weighting: Weighting) -> Hashable:
    """The key of the whole weights of some kept ratios."""
    return ("ess", weighting)


# --- Influences of many estimates ---------------------------------------------------------------------------
#
# An influence is a sum of parts: of the terms of an estimate, and of the models that it uses. Parts of terms
# that are lanes of one walk are found together, so are those of models; what is left is called one by one.


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
        # Plain weights have walks of their own, as their normalisers have: see `Laned.goes_in_lanes`.
        in_lanes: list[tuple[int, ProductInfluence, Laned]] = []
        plain: list[tuple[int, ProductInfluence, Laned]] = []
        models: dict[Any, dict[int, list[ModelInfluence]]] = {}
        for number, influence in enumerate(each):
            for part in _parts(influence):
                laned = _laned(part)
                if laned is not None:
                    (in_lanes if laned.goes_in_lanes(number < of_path) else plain).append(
                        (number, part, laned)
                    )
                elif (walks := _walks(part)) is not None:
                    self._windows.setdefault(walks, []).append((number, part))
                elif isinstance(part, ModelInfluence):
                    folds = 0 if part.folds is None else part.folds.count
                    alike = models.setdefault((part.layout.n_actions, folds), {})
                    alike.setdefault(number, []).append(part)
                else:
                    self._others.append((number, part))
        self._walks = [
            _LaneInfluences(walk)
            for laned_parts in (in_lanes, plain)
            for places in shared_walks((place, part[2]) for place, part in enumerate(laned_parts))
            for walk in _by_kinds([laned_parts[place] for place in places])
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
        for number, influence in self._others:
            influences[number] += influence(block)
        return influences


def _parts(influence: Any) -> Iterator[Any]:
    inner = getattr(influence, "addends", None)
    if inner is None:
        yield influence
    else:
        for part in inner:
            yield from _parts(part)


def _laned(part: Any) -> Laned | None:
    """The lane of a part; None where it is found by itself."""
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


def _by_kinds(
    group: list[tuple[int, ProductInfluence, Laned]],
) -> list[list[tuple[int, ProductInfluence, Laned]]]:
    """Those that share a walk: lanes that need little are walked by themselves where that costs less."""
    lanes: dict[bytes, Wanted] = {}
    for _, _, laned in group:
        mask = laned.dropped.tobytes()
        lanes[mask] = both(lanes.get(mask, NOTHING), laned.wanted)
    return [
        [term for term in group if term[2].dropped.tobytes() in of_walk]
        for of_walk in (set(masks) for _, masks in lane_classes(lanes))
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
            by_step = [kind for kind in term.kinds if kind != "whole"]
            if by_step:
                total[term.number] += sum_of_kinds(kinds, term.lane, by_step)
            if len(by_step) < len(term.kinds):
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
