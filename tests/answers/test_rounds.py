"""Rounds: tasks that ask at the same time share a pass, the earliest kind of request first."""

from __future__ import annotations

from typing import Any

import numpy as np

import deadweight as dw
from deadweight.answers.intervals import ReturnExtent
from deadweight.answers.rounds import (
    Counts,
    Job,
    OfInfluences,
    Request,
    Summing,
    Sums,
    Task,
    carry_out,
    together,
)
from deadweight.question.question import Question, ask
from deadweight.sums.blocks import Block
from deadweight.sums.ends import RewardTiming
from deadweight.sums.summaries import Total

LIFT = dw.domains.stochastic_lift(7)


def question() -> Question:
    return ask(LIFT.sample(50, seed=0), LIFT.pi_e, LIFT.pi_b)


def best_return(asked: Question) -> float:
    log = asked.parts[0]
    return float(np.add.reduceat(log.rewards, log.offsets[:-1]).max())


def passes_of(asked: Question, *tasks: Task[Any]) -> tuple[int, list[Any]]:
    seen: list[Any] = []
    with dw.progress(seen.append):
        results = carry_out(asked, *tasks)
    return len({now.number for now in seen}), results


def episodes(values: np.ndarray, block: Block) -> Total:
    return Total(float(block.n))


def summed(asked: Question) -> Task[float]:
    extent = ReturnExtent(asked.gamma)
    yield Sums([extent])
    found = Summing(asked).found(extent)
    return float(found.highest)


def counted_first(asked: Question) -> Task[int]:
    yield Counts()
    yield Sums([RewardTiming()])
    kept: list[Total] = []
    yield OfInfluences([Job([], episodes, kept.append)])
    return int(kept[0].value)


def last(asked: Question) -> Task[str]:
    kept: list[Total] = []
    yield OfInfluences([None, Job([], episodes, kept.append)])
    return f"{kept[0].value:g} episodes"


def nothing(asked: Question) -> Task[str]:
    return "asked for nothing"
    yield  # type: ignore[unreachable]


def test_tasks_share_three_passes() -> None:
    asked = question()
    number, results = passes_of(asked, summed(asked), counted_first(asked), last(asked), nothing(asked))
    assert number == 3
    assert results == [best_return(asked), 50, "50 episodes", "asked for nothing"]


def test_each_by_itself_takes_the_passes_that_it_needs() -> None:
    alone = [passes_of(asked, task(asked))[0] for task in (summed, last, nothing) for asked in [question()]]
    assert alone == [1, 1, 0]


def test_what_is_there_is_not_summed_again() -> None:
    asked = question()
    assert passes_of(asked, summed(asked))[0] == 1
    assert passes_of(asked, summed(asked), summed(asked))[0] == 0


def test_the_earliest_kind_is_served_first() -> None:
    asked = question()
    order: list[type[Request]] = []
    task = together(last(asked), counted_first(asked), summed(asked))
    for request in task:
        order.append(type(request))
        request.serve(asked)
    assert order == [Counts, Sums, OfInfluences]


def test_tasks_within_tasks_ask_together() -> None:
    asked = question()

    def outer() -> Task[list[Any]]:
        yield Counts()
        results = yield from together(summed(asked), last(asked))
        return results

    number, results = passes_of(asked, outer(), counted_first(asked))
    assert number == 3
    assert results[0] == [best_return(asked), "50 episodes"]
