"""Signals: nothing temporary stays, results are whole or absent, and the process ends by the signal."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from processes import children, wait_for_end, wait_until
from stream.folders import policies, table_of, write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")

# The command, which stops at a place and says so: parts are small, so that there are several.
COMMAND = """
import os, sys, time
from pathlib import Path
from deadweight import cli
from deadweight.tools import files
from deadweight.io import open, scratch, stream

where, notes = sys.argv[1], Path(sys.argv[2])
del sys.argv[1:3]
open.open_log.__wrapped__.__kwdefaults__["part_rows"] = 40

def at(place):
    if place == where and not (notes / "there").exists():
        (notes / "there").touch()
        while not (notes / "go on").exists():
            time.sleep(0.01)

def stopping(place, function):
    def stops(*arguments, **named):
        at(place)
        return function(*arguments, **named)
    return stops

passes = 0
progress = stream.Stream.progress
def watched(self, done):
    global passes
    passes += done == 0 and self._shelf is not None
    progress(self, done)
    if done == 2:
        at("any pass")
    if passes and done == 2:
        at(f"pass {passes}")

stream.Stream.progress = watched
scratch._Outlet.close = stopping("sorting", scratch._Outlet.close)
scratch.Shelf.keep = stopping("thread", scratch.Shelf.keep)
files.set_access = stopping("writing", files.set_access)
cli.main()
"""
EVALUATE = ("evaluate", "log", "--stream", "--report", "out/report.html")
COMPARE = ("compare", "log", "--stream", "--report", "out/report.html")
SORTING = ("evaluate", "scattered", "--stream", "--report", "out/report.html")
PIPED = ("doctor", "-", "--fix", "out/mended.parquet")


def its_name(value: object) -> str | None:
    return value.name if isinstance(value, signal.Signals) else None


INT, TERM, HUP, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL


@pytest.fixture(autouse=True)
def _no_signal_is_ignored() -> Iterator[None]:
    """Whoever started the tests, as with nohup or in the background, may ignore some: commands would too."""
    ignored = [number for number in (INT, TERM, HUP) if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with logs and a policy, and folders for notes, results and temporary files."""
    for folder in ("notes", "out", "temporary"):
        (tmp_path / folder).mkdir()
    for name, policy in zip(("target.npy", "other.npy"), policies(), strict=True):
        np.save(tmp_path / name, policy)
    table = table_of(200, propensities=True, truncated=True)
    write(tmp_path / "log", table)
    write(tmp_path / "scattered", table.take(np.random.default_rng(0).permutation(table.num_rows)))
    return tmp_path


@contextmanager
def started(
    here: Path, *arguments: str, place: str = "", notes: str = "notes"
) -> Iterator[subprocess.Popen[str]]:
    """A command in a session of its own."""
    for target in {"evaluate": ["target.npy"], "compare": ["a=target.npy", "b=other.npy"]}.get(
        arguments[0], []
    ):
        arguments = (*arguments, "--target", target)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, place, notes, *arguments],
        cwd=here,
        env={**os.environ, "TMPDIR": str(here / "temporary")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=600)


def stop(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal, as a terminal does to all processes or a scheduler to one; what it said at its end."""
    workers = children(process.pid)
    if number in (INT, HUP):
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=600)
    assert process.returncode == -number, said
    for worker in workers:
        wait_for_end(worker)
    return said


def wait_for(here: Path, process: subprocess.Popen[str], sign: str) -> None:
    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        return bool(list(here.glob(sign)))

    wait_until(is_there, sign)


def left(here: Path) -> list[str]:
    return sorted(
        str(path.relative_to(here)) for name in ("temporary", "out") for path in (here / name).iterdir()
    )


@pytest.mark.parametrize(
    ("number", "place", "command"),
    [
        (TERM, "pass 1", EVALUATE),
        (HUP, "pass 1", EVALUATE),
        (INT, "pass 1", EVALUATE),
        (TERM, "pass 3", (*EVALUATE, "--workers", "2")),
        (HUP, "pass 1", (*COMPARE, "--workers", "2")),
        (INT, "pass 1", (*EVALUATE, "--workers", "2")),
        (TERM, "pass 1", COMPARE),
        (TERM, "sorting", SORTING),
        (HUP, "pass 1", SORTING),
        (TERM, "writing", EVALUATE),
    ],
    ids=its_name,
)
def test_a_signal_leaves_nothing(number: int, place: str, command: tuple[str, ...], here: Path) -> None:
    with started(here, *command, place=place) as process:
        wait_for(here, process, "notes/there")
        assert list(here.glob("out/.report.html.*.part" if place == "writing" else "temporary/deadweight-*"))
        said = stop(process, number)
    assert left(here) == []
    assert said.endswith("Stopped.\n")
    assert "Traceback" not in said


@pytest.mark.ray
def test_a_signal_ends_work_on_a_cluster_in_the_same_way(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("DEADWEIGHT_RAY") != "1":
        pytest.importorskip("ray", reason="pip install 'deadweight[ray]'")
    sockets = tempfile.mkdtemp()  # whose names must be short
    monkeypatch.setenv("RAY_TMPDIR", sockets)
    with started(here, *SORTING, "--ray-address", "local", place="any pass") as process:
        wait_for(here, process, "notes/there")
        assert list(here.glob("temporary/deadweight-*"))
        said = stop(process, TERM)
    shutil.rmtree(sockets, ignore_errors=True)
    assert left(here) == []
    assert said.endswith("Stopped.\n")


def test_a_thread_that_does_not_come_back_is_not_waited_for(here: Path) -> None:
    with started(here, *EVALUATE, place="thread") as process:
        wait_for(here, process, "notes/there")
        stop(process, TERM)
    assert left(here) == []


@pytest.mark.parametrize("number", [TERM, HUP, INT], ids=its_name)
def test_a_signal_while_standard_input_is_kept(number: int, here: Path) -> None:
    with started(here, *PIPED) as process:
        assert process.stdin is not None
        process.stdin.write("episode,step,state,action,reward\n0,0,0,0,1\n")
        process.stdin.flush()
        wait_for(here, process, "temporary/deadweight-*/log.csv")
        assert stop(process, number) == "Stopped.\n"
    assert left(here) == []


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("pass 1", EVALUATE),
        ("pass 3", (*EVALUATE, "--workers", "2")),
        ("pass 1", (*COMPARE, "--workers", "2")),
        ("sorting", SORTING),
    ],
)
def test_what_a_kill_leaves_goes_with_the_next_command(
    place: str, command: tuple[str, ...], here: Path
) -> None:
    with started(here, *command, place=place) as process:
        wait_for(here, process, "notes/there")
        stop(process, KILL)
    assert len(left(here)) == 1, "a folder, and no result"
    with started(here, "--version") as following:
        following.communicate(timeout=600)
        assert following.returncode == 0
    assert left(here) == []


def test_a_signal_that_is_ignored_stays_ignored(here: Path) -> None:
    before = signal.signal(HUP, signal.SIG_IGN)  # as by nohup
    try:
        with started(here, *EVALUATE, place="pass 1") as process:
            wait_for(here, process, "notes/there")
            os.killpg(process.pid, HUP)
            (here / "notes" / "go on").touch()
            process.communicate(timeout=600)
            assert process.returncode == 0
    finally:
        signal.signal(HUP, before)
    assert left(here) == ["out/report.html"]


def test_two_commands_at_once_share_a_log_and_a_place(here: Path) -> None:
    (here / "notes, too").mkdir()
    with started(here, *EVALUATE, "--json", place="pass 1") as first:
        wait_for(here, first, "notes/there")
        with started(here, *EVALUATE, "--json", place="pass 3", notes="notes, too") as second:
            wait_for(here, second, "notes, too/there")
            assert len(list((here / "temporary").iterdir())) == 2
            for notes in ("notes", "notes, too"):
                (here / notes / "go on").touch()
            found = [process.communicate(timeout=600)[0] for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0]
    assert found[0] == found[1] != ""
    assert left(here) == ["out/report.html"]
