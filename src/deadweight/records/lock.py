"""A lock on a folder, held for the moment of an append or a rewrite.

The system gives it back when a process ends, however it ended: a lock cannot be left behind. Where a file
system knows no locks, work goes on without: two processes could then lose each other's latest records, which
would be made again, but checksums still keep a wrong one from being read.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deadweight.errors import OutputError

NAME = ".lock"
PATIENCE = 60.0  # seconds; whoever holds the lock needs milliseconds
BUSY = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """No other process is inside a `locked` of this folder; raises `OSError` if the folder takes no file."""
    handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        _wait_for(handle, folder)
        yield
    finally:
        os.close(handle)  # which gives the lock back


def _wait_for(handle: int, folder: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            _take(handle)
            return
        except OSError as error:
            if error.errno not in BUSY:
                return  # no locks here
        if time.monotonic() > end:
            raise OutputError(
                f"Another process has held the lock on '{folder}' for {PATIENCE:.0f} seconds.",
                fix="Let it go on or end it, or choose another folder with --out. Finished runs are kept.",
            )
        time.sleep(0.005)


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
