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
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from deadweight.answers.influences import Influences, Job
from deadweight.answers.lanes import LanePlan, LaneWork, PlainWork, walked
from deadweight.estimators.product import ProductFamily, SelfNormalised, Summed
from deadweight.question.question import Question
from deadweight.sums.blocks import SMALL_CELLS, Block
from deadweight.sums.reduction import reduce_log
from deadweight.sums.summaries import Kish
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray

T = TypeVar("T")


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
