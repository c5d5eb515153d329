"""2,000 damaged files and strange options: only exit codes 0, 1, 2, 4, no traceback, nothing above 2 GB."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli import fuzz

CASES, BATCH = 2_000, 250
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_no_case_goes_wrong(first: int) -> None:
    """In a process of its own, whose memory is bounded and measured."""
    found = subprocess.run(
        [sys.executable, fuzz.__file__, str(first), str(BATCH)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-5_000:] + found.stderr[-2_000:]
    assert f"case {first + BATCH - 1}\n" in found.stdout, "not all cases were run"


def test_a_case_is_the_same_every_time(tmp_path: Path) -> None:
    """What is printed of a failure brings it back; and the cases reach every exit code."""
    import numpy as np

    made = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        given = fuzz.arguments(folder, np.random.default_rng([12, 4]))
        made.append((given[0], given[2:4:2], {file.name: file.read_bytes() for file in folder.iterdir()}))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("code", "out", "err", "words"),
    [
        (3, "", "", "exit code 3"),
        (2, "", "Error: x\nTraceback (most recent call last)", "a traceback"),
        (0, "\x1b[31m", "", "on the terminal"),
        (2, "", "", "0 messages"),
        (2, '{"schema": 3}', "Error: x", "another JSON"),
        (0, '{"estimates": 1}', "", "another JSON"),
    ],
)
def test_a_wrong_answer_is_seen(code: int, out: str, err: str, words: str) -> None:
    assert words in fuzz._judged(code, ["evaluate", "--json"], out, err)
