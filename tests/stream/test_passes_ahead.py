"""Whoever watches is told which pass this is and how many there will be, and that is how many there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stream.folders import policies, table_of, write

import deadweight as dw
from deadweight.io.open import open_log
from deadweight.io.stream import open_stream
from deadweight.question import question as core
from deadweight.tools import progress as news
from deadweight.tools.progress import Pass, Progress, expect_passes

ASKED: list[dict[str, Any]] = [
    {},
    {"interval": None},
    {"background": False},
    {"estimators": ["BEHAVIOUR"], "background": False},
    {"estimators": ["WIS", "WPDIS"], "interval": None},
    {"estimators": ["WIS", "WPDIS"], "background": False},
    {"estimators": ["WDR", "PDIS"], "background": False, "also": ["influence"]},
    {"estimators": ["DM"], "background": False, "interval": "student-t"},
]
# What their background shows depends on how much is dropped, and that on the log.
GROWING: list[dict[str, Any]] = [
    {"drop": "q-gap:0.1"},
    {"drop": [0, 1], "also": ["ess_steps", "influence"]},
    {"estimators": ["BLEND", "WDR"], "baseline": 0.5},
    {"estimators": ["C-WSPDIS"]},
    {"estimators": ["MIS"], "interval": None, "background": False},  # asks in its pass how episodes end
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
@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("kind", ["memory", "flags", "cut"])
def test_the_first_word_is_true_of_the_last_pass(
    kind: str, asked: dict[str, Any], folders: dict[str, Path]
) -> None:
    seen = told_of(opened(kind, folders), **asked)
    if kind != "memory" and asked.get("interval") == "student-t":
        assert seen[0].passes is None, "whether the horizon takes a pass is not foreseen"
        return
    made = seen[-1].number
    assert {one.passes for one in seen} == {made}
    assert [one.number for one in seen if one.rows == one.of] == list(range(1, made + 1))
    assert seen[-1].seconds_left == 0.0


@pytest.mark.filterwarnings("ignore:Assumption")
@pytest.mark.parametrize("asked", GROWING, ids=str)
@pytest.mark.parametrize("kind", ["memory", "flags", "cut"])
def test_what_the_log_decides_adds_to_the_passes(
    kind: str, asked: dict[str, Any], folders: dict[str, Path]
) -> None:
    seen = told_of(opened(kind, folders), **asked)
    passes = [one.passes or 0 for one in seen]
    assert passes == sorted(passes)
    assert passes[-1] == seen[-1].number


@pytest.mark.filterwarnings("ignore:Assumption")
def test_where_nobody_can_tell_nothing_is_said(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = dw.read(folders["flags"])
    assert told_of(log, estimators=["WIS"], interval="bootstrap")[0].passes is None
    monkeypatch.setattr(core, "MOST_VALUES", 10)  # no model: the default table is another
    seen = told_of(open_stream(folders["flags"], part_rows=300))
    assert seen[-1].passes is None


def test_opening_a_log_is_told_before_the_passes(folders: dict[str, Path]) -> None:
    seen: list[Progress] = []
    with dw.progress(seen.append), open_log(folders["flags"], part_rows=300) as log:
        dw.evaluate(log, *policies(), ["WIS"], interval=None)
    assert [str(one) for one in seen if one.rows == one.of] == [
        f"checking files: {log.n_steps} of {log.n_steps} rows",
        f"pass 1 of 1, summing: {log.n_steps} of {log.n_steps} rows",
    ]


def test_the_time_left_is_that_of_the_passes_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(news.time, "monotonic", lambda: clock[0])
    seen: list[Progress] = []
    with dw.progress(seen.append):
        expect_passes(3)
        first = Pass(100)
        clock[0] = 10.0
        first.done(50)
        first.done(50)
        second = Pass(100)
        clock[0] = 30.0
        second.done(100)
    assert [(one.passes, one.seconds_left) for one in seen] == [(3, 50.0), (3, 20.0), (4, 30.0)]
    assert [one.title for one in seen[1:]] == ["pass 1 of 3, summing", "pass 2 of 4, summing"]
