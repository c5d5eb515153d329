"""`python -m deadweight` is the command."""

from __future__ import annotations

import subprocess
import sys

import deadweight


def test_python_m_runs_the_command() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "deadweight", "--version"], capture_output=True, text=True, check=True
    )
    assert deadweight.__version__ in found.stdout
