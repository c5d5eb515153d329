"""Processes of tests: what they have started, and waiting for what they do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 300.0  # seconds; other work may have the processor


def children(pid: int) -> list[int]:
    """Processes started by a process, where the system tells."""
    listing = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listing.read_text().split()] if listing.exists() else []


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Wait for something; an error if it takes too long."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.01)


def wait_for_end(pid: int) -> None:
    """Wait until a process is gone, or waits to be buried."""
    wait_until(lambda: _has_ended(pid), f"for the end of process {pid}")


def _has_ended(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True
