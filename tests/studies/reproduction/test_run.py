"""The runner: the same bytes from one worker and from two; workers do not outlive it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import children, wait_for_end

COMMAND = [sys.executable, "-c", "from deadweight.cli import main; main()", "reproduce", "table-1"]


def start(out: Path, workers: int, runs: int = 2) -> subprocess.Popen[bytes]:
    arguments = ["--runs", str(runs), "--workers", str(workers), "--out", str(out)]
    return subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> bytes:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err.decode()
    return out


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    finish(start(folder, workers=2))
    return contents(folder)


def test_the_number_of_workers_does_not_matter(uninterrupted, tmp_path):
    finish(start(tmp_path, workers=1))
    assert contents(tmp_path) == uninterrupted
    assert set(uninterrupted) >= {"table-1.csv", "table-1.md", "table-1.tex", "ledger.md", "ledger.csv"}


def test_workers_end_with_the_process_that_started_them(tmp_path):
    process = start(tmp_path, workers=2, runs=1000)  # so many that it cannot be done before it is killed
    records = tmp_path / "rows" / "published" / "deterministic-lift.jsonl"
    while not (records.exists() and records.read_bytes().count(b"\n")):
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.01)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGKILL
    for worker in workers:
        wait_for_end(worker)
