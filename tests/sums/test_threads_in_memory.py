"""A long log in memory is summed by two threads without being told, with the bits of one."""

from __future__ import annotations

from threading import Barrier

import numpy as np
import pytest

import deadweight as dw
from deadweight.sums import reduction
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import Total


@pytest.fixture
def log() -> dw.Trajectories:
    problem = dw.domains.stochastic_lift(7)
    return problem.sample(400, seed=3)


def test_two_blocks_are_under_way_at_once(log: dw.Trajectories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduction, "LONG_LOG", 1)
    monkeypatch.setattr(reduction, "processors", lambda: 2)
    both, waited = Barrier(2), []

    def summarise(block: Block) -> list[Total]:
        if len(waited) < 2:  # a block by itself would wait in vain
            waited.append(block.first)
            both.wait(timeout=30)
        return [Total(float(block.rewards.sum()))]

    (found,) = reduction.reduce_log([log], summarise, cells=200)
    assert float(found.value) == pytest.approx(log.rewards.sum())


def test_a_short_log_and_a_single_processor_have_one(
    log: dw.Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("no thread is needed")

    monkeypatch.setattr(reduction, "ThreadPoolExecutor", refused)
    reduction.reduce_log([log], _rewards)
    monkeypatch.setattr(reduction, "LONG_LOG", 1)
    monkeypatch.setattr(reduction, "processors", lambda: 1)
    reduction.reduce_log([log], _rewards)


def test_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = dw.domains.stochastic_lift(7)
    log = problem.sample(2_000, seed=4)
    alone = dw.evaluate(log, problem.pi_e, problem.pi_b)
    monkeypatch.setattr(reduction, "LONG_LOG", 1)
    monkeypatch.setattr(reduction, "processors", lambda: 2)
    assert dw.evaluate(log, problem.pi_e, problem.pi_b).to_dict() == alone.to_dict()


def _rewards(block: Block) -> list[Total]:
    return [Total(float(np.sum(block.rewards)))]
