"""The pool of worker processes: every task once, none too far ahead, deaths and failures told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deadweight.errors import EstimationError
from deadweight.sums import executors as worker_pool
from deadweight.sums.executors import Failure, Pool, WorkerDied, opened


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    monkeypatch.setattr(worker_pool, "START", "fork")  # nothing here has threads, and it starts at once
    made = Pool(2)
    yield made
    made.close()


def square(task: int) -> int:
    return task * task


def wait_for_a_later_one(task: tuple[int, int, Path]) -> int:
    """The first task is done only when a later one has begun."""
    number, later, place = task
    if number == later:
        place.write_text("")
    waited = time.monotonic()
    while number == 0 and not place.exists() and time.monotonic() - waited < 300:
        time.sleep(0.01)
    return number


def fail_at_three(task: int) -> int:
    if task == 3:
        raise ValueError("three")
    return task


def die_once(place: Path) -> str:
    if not place.exists():
        place.write_text("")
        os._exit(7)
    return "done"


def die(task: int) -> None:
    os._exit(7)


def test_every_task_once_and_as_they_come(pool: Pool, tmp_path: Path) -> None:
    tasks = [(number, 19, tmp_path / "last") for number in range(20)]
    found = [number for number, _ in pool.run(wait_for_a_later_one, tasks)]
    assert sorted(found) == list(range(20))
    assert found.index(0) >= 18, "nobody waits for the slow one"
    assert sorted(pool.run(square, [5, 6])) == [(0, 25), (1, 36)], "the workers are there for more"


def test_tasks_are_taken_only_so_far_ahead(pool: Pool, tmp_path: Path) -> None:
    taken: list[int] = []
    tasks = (taken.append(task) or (task, 4, tmp_path / "fifth") for task in range(20))
    found = []
    for number, _ in pool.run(wait_for_a_later_one, tasks, ahead=5):
        found.append(number)
        assert 0 in found or max(taken) < 5
    assert found.index(0) >= 3, "the others do not wait for it"
    assert sorted(found) == list(range(20))


def test_a_failure_comes_as_a_result(pool: Pool) -> None:
    found = dict(pool.run(fail_at_three, range(5)))
    assert isinstance(found[3], Failure)
    with pytest.raises(ValueError, match="three"):
        opened(found[3])


def test_a_task_whose_worker_dies_is_tried_again(pool: Pool, tmp_path: Path) -> None:
    assert list(pool.run(die_once, [tmp_path / "mark"], retries=1)) == [(0, "done")]
    with pytest.raises(WorkerDied) as caught:
        list(pool.run(die, [0], retries=2))
    assert (caught.value.number, caught.value.exit_code) == (0, 7)
    assert pool.members == []


def test_what_cannot_travel_is_refused_before_anybody_starts(pool: Pool) -> None:
    with pytest.raises(EstimationError, match="cannot be given this work"):
        list(pool.run(lambda task: task, [0]))
    assert pool.members == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nobody forks here")
def test_a_forked_process_leaves_the_workers_of_its_parent(pool: Pool) -> None:
    assert list(pool.run(square, [5])) == [(0, 25)]
    before = list(pool.members)
    child = os.fork()
    if not child:
        try:
            pool.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(pool.run(square, [6])) == [(0, 36)]
    assert pool.members == before
    assert all(worker.process.is_alive() for worker in before)
