"""Whoever watches is told which pass this is and how far it has come; tasks share their passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stream.folders import policies, table_of, write

import deadweight as dw
from deadweight.io.open import open_log
from deadweight.io.stream import open_stream
from deadweight.tools import progress as news
from deadweight.tools.progress import Pass, Progress

# What is asked for, and how many passes it takes over a log in memory.
ASKED: list[tuple[dict[str, Any], int]] = [
    ({}, 5),
    ({"interval": None}, 4),
    ({"background": False}, 5),
    ({"estimators": ["BEHAVIOUR"], "background": False}, 1),
    ({"estimators": ["WIS", "WPDIS"], "interval": None}, 1),
    ({"estimators": ["WIS", "WPDIS"], "background": False, "interval": "student-t"}, 3),
    ({"estimators": ["WDR", "PDIS"], "background": False, "interval": "student-t"}, 3),
    ({"estimators": ["BLEND", "WPDIS"], "background": False}, 4),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A log with flags that say how episodes end, and one in which that takes a pass to find out."""
    home = tmp_path_factory.mktemp("logs")
    flags = write(home / "flags", table_of(90, truncated=True), group_rows=150)
    cut = write(home / "cut", table_of(90, fixed=True), group_rows=150)
    return {"flags": flags, "cut": cut}


def opened(kind: str, folders: dict[str, Path]) -> Any:
    return dw.read(folders["flags"]) if kind == "memory" else open_stream(folders[kind], part_rows=300)


def told_of(log: Any, **asked: Any) -> list[Progress]:
    seen: list[Progress] = []
    with dw.progress(seen.append):
        dw.evaluate(log, *policies(), **asked)
    return seen


@pytest.mark.filterwarnings("ignore:Assumption")
@pytest.mark.parametrize(("asked", "passes"), ASKED, ids=str)
@pytest.mark.parametrize("kind", ["memory", "flags", "cut"])
def test_all_tasks_share_their_passes(
    kind: str, asked: dict[str, Any], passes: int, folders: dict[str, Path]
) -> None:
    seen = told_of(opened(kind, folders), **asked)
    done = [now.number for now in seen if now.rows == now.of]
    assert done == list(range(1, len(done) + 1))
    if kind == "memory":
        assert done[-1] == passes
    else:  # at most one more, which finds out how episodes end or how long they are
        assert done[-1] - passes in (0, 1)


def test_opening_a_log_is_told_before_the_passes(folders: dict[str, Path]) -> None:
    seen: list[Progress] = []
    with dw.progress(seen.append), open_log(folders["flags"], part_rows=300) as log:
        dw.evaluate(log, *policies(), ["WIS"], interval=None)
    assert [str(now) for now in seen if now.rows == now.of] == [
        f"checking files: {log.n_steps} of {log.n_steps} rows",
        f"pass 1, summing: {log.n_steps} of {log.n_steps} rows",
    ]


def test_the_time_left_is_that_of_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(news.time, "monotonic", lambda: clock[0])
    seen: list[Progress] = []
    with dw.progress(seen.append):
        first = Pass(100)
        clock[0] = 10.0
        first.done(25)
        first.done(75)
        second = Pass(100)
        clock[0] = 30.0
        second.done(50)
    assert [now.seconds_left for now in seen] == [30.0, 0.0, 20.0]
    assert [now.title for now in seen] == ["pass 1, summing", "pass 1, summing", "pass 2, summing"]
