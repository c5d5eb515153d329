"""The three commands with tiny settings, each in a process of its own that a test may kill.

The processes are forked from a clean one that has imported everything already: starting one takes no time.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deadweight_studies import automatic as automatic_drop
from deadweight_studies import coverage as interval_coverage
from deadweight_studies import headline as headline_study
from deadweight_studies.problems import StudyProblem, river

from deadweight.cli import main
from deadweight.sums import executors as worker_pool

COMMANDS = {
    "reproduce": ["reproduce", "table-1", "--runs", "1", "--workers", "1"],
    "study": ["study", "automatic", "--runs", "6"],
    "coverage": ["coverage", "--runs", "6"],
}
RECORDS = 12  # of each of them


@cache
def tiny_problems() -> dict[str, StudyProblem]:
    """Two problems with few states and episodes; one of them hides what matters."""
    cells = (
        StudyProblem("brook", river(3, horizon=4), 30),
        StudyProblem("hidden brook", river(4, horizon=4), 30, shown=np.array([0, 0, 1, 1])),
    )
    return {cell.name: cell for cell in cells}


@cache
def context() -> Any:
    """Whoever forks, with everything imported."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["studies.records.preloaded"])
    with pytest.MonkeyPatch.context() as patch:  # it must find this folder, and says nothing if it does not
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        forkserver.ensure_running()
    return found


def tiny_settings() -> None:
    """Few and small cells, and workers that need not import everything anew."""
    problems = tiny_problems()
    for module in (automatic_drop, interval_coverage):
        module.cells = lambda: problems  # type: ignore[assignment]
        module.STUDY = replace(module.STUDY, cells=lambda: problems)  # type: ignore[attr-defined]
    headline_study.STUDY = replace(headline_study.STUDY, cells=dict)
    interval_coverage.RESAMPLES = 20
    worker_pool.START = "fork"


def call(name: str, folder: Path) -> None:
    """The command in this process and a folder; what it prints goes to `said` and `remarked` there."""
    tiny_settings()
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    sys.argv = ["deadweight", *COMMANDS[name], "--out", "out"]
    with open("said", "w") as sys.stdout, open("remarked", "w") as sys.stderr:
        main()


def start(name: str, folder: Path) -> BaseProcess:
    process: BaseProcess = context().Process(target=call, args=(name, folder))
    process.start()
    return process


def finish(process: BaseProcess, folder: Path) -> None:
    process.join(600)
    assert process.exitcode == 0, (folder / "remarked").read_text()


def lines(folder: Path) -> int:
    """Whole lines in all stores of a folder."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))


def kill_when(process: BaseProcess, reached: Callable[[], bool]) -> None:
    """Kill it as soon as something is reached, unless it was finished first."""
    while process.is_alive() and not reached():
        time.sleep(0.001)
    process.kill()
    process.join()


def outcome(folder: Path) -> dict[str, bytes]:
    """All that a command leaves, and what it printed."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    del found["remarked"]
    return found
