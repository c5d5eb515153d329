"""Files that are there as a whole or not at all: written under another name, then renamed.

Whoever reads such a file while it is being written, or after the writer was killed, finds the old one or the
new one. What reaches the caller is the `OSError` of the disk; `writing` makes one message of it.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deadweight.errors import OutputError


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, bring it to the disk, and rename it."""
    _sweep(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all; line ends stay as they are."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


def _sweep(path: Path) -> None:
    """Remove what processes that were killed in the middle of writing this file left beside it."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        pid = leftover.name.split(".")[-2]
        if os.name == "posix" and pid.isdecimal() and not _is_running(int(pid)):
            with contextlib.suppress(OSError):
                leftover.unlink()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # asks only
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Bring a new name to the disk, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


OF_RUNS = "Free some space or choose another folder with --out. Finished runs are kept."


@contextlib.contextmanager
def writing(path: Path, fix: str = OF_RUNS) -> Iterator[None]:
    """Make the folder of a file, and of any failure of the disk one message that names the place.

    `fix` is what to do about it: a command that has no --out names the option that it has.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise OutputError(
            f"'{path}' could not be written: {error.strerror or error}.",
            fix=fix,
        ) from None


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to before any work is done."""
    probe = folder / "writable"
    with writing(probe):
        write_whole(probe, lambda temporary: temporary.write_bytes(b"x" * 4096))
    with contextlib.suppress(OSError):
        probe.unlink()
