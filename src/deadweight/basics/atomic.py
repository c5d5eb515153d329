"""Files that are there as a whole or not at all: written under another name, then renamed.

Whoever reads such a file while it is being written, or after the writer was killed, finds the old one or the
new one. A link stays, and what it leads to is replaced. Nobody may read the new file who could not read the
old one, nor any of it before it is whole. Devices and pipes are not replaced but written to. What reaches the
caller is the `OSError` of the disk; `writing` makes one message of it.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from deadweight.basics.access import set_access
from deadweight.errors import OutputError

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# Without waiting for a reader, and without becoming the terminal of anything.
THROUGH = os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
LONGEST = 50
"""Letters of a name that its temporary name begins with: that may be no longer than names may be."""
PROBED = 4096


def write_whole(path: Path, write: Callable[[BinaryIO], Any], like: Sequence[Path] = ()) -> None:
    """Let `write` fill a new file beside what `path` leads to, bring it to the disk, and rename it.

    Args:
      path: what is to be there. A device or a pipe gets the bytes when there are all of them.
      write: is given a file of bytes.
      like: files that hold what is written now: nobody gets to read it who could not read these.
    """
    place = _Place.of(path)
    if not place.is_replaced:
        content = BytesIO()
        write(content)
        _write_through(place, content.getvalue())
        return
    _sweep(place.path)
    mode = _mode_of_a_new(place.path) if place.there is None else place.there.st_mode
    temporary, handle = _begun(place.path)
    try:
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                write(file)
            set_access(handle, mode, None if place.there is None else place.path, like)
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.replace(place.path)
        _sync_folder(place.path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, like: Sequence[Path] = ()) -> None:
    """Write a text file, whole or not at all; line ends stay as they are."""
    content = text.encode()
    write_whole(path, lambda file: file.write(content), like)


def probe(path: Path) -> None:
    """Raise the `OSError` of `write_whole`, as far as it can be known before there is anything to write."""
    place = _Place.of(path)
    if not place.is_replaced:
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return
    _sweep(place.path)
    temporary, handle = _begun(place.path)
    try:
        os.write(handle, b"x" * PROBED)
        os.fsync(handle)
    finally:
        os.close(handle)
        temporary.unlink()


def is_printed(path: Path) -> bool:
    """Whether what is written there would stand among what is printed, outside a terminal."""
    place = _Place.of(path)
    return place.stream is sys.stdout and place.there is not None and not stat.S_ISCHR(place.there.st_mode)


@dataclass(frozen=True)
class _Place:
    """Where a file is written.

    Attributes:
      path: where links lead.
      there: what is there now.
      stream: standard output or error, where it is what is there. A file in the place of theirs would take
        away what is printed.
    """

    path: Path
    there: os.stat_result | None = None
    stream: Any = None

    @classmethod
    def of(cls, path: Path) -> _Place:
        """The place that a path leads to; an error where nothing can be written."""
        try:
            there = path.stat()
        except FileNotFoundError:
            return cls(Path(os.path.realpath(path)))
        if stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        if stat.S_ISBLK(there.st_mode) or stat.S_ISSOCK(there.st_mode):
            raise OSError(errno.EINVAL, "it is a disk or a socket, not a file")
        stream = _standard_stream(there)
        is_file = stat.S_ISREG(there.st_mode) and stream is None
        return cls(Path(os.path.realpath(path)) if is_file else path, there, stream)

    @property
    def is_replaced(self) -> bool:
        """Whether another file takes the place of what is there."""
        return self.there is None or (stat.S_ISREG(self.there.st_mode) and self.stream is None)


def _standard_stream(there: os.stat_result) -> Any:
    for handle, stream in ((1, sys.stdout), (2, sys.stderr)):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), there):
                return stream
    return None


def _write_through(place: _Place, content: bytes) -> None:
    if place.stream is not None:
        place.stream.flush()
        handle = os.dup(1 if place.stream is sys.stdout else 2)
    else:
        try:
            handle = os.open(place.path, THROUGH)
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise OSError(errno.ENXIO, "nobody reads from this pipe") from None
            raise
        os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _begun(path: Path, mode: int = 0o600) -> tuple[Path, int]:
    """A new file beside a path, for nobody else to read: its own path, and its handle."""
    name = f".{path.name[:LONGEST]}.{os.getpid()}.{secrets.token_hex(8)}.part"
    temporary = path.with_name(name)
    return temporary, os.open(temporary, NEW, mode)


def _mode_of_a_new(path: Path) -> int:
    """What umask and folder make of it, by a file without content: it may be seen by anybody."""
    temporary, handle = _begun(path, 0o666)
    try:
        return os.fstat(handle).st_mode
    finally:
        os.close(handle)
        temporary.unlink()


def _sweep(path: Path) -> None:
    """Remove what processes of ours that were killed in the middle of writing this file left beside it."""
    if os.name != "posix":
        return
    name = path.name[:LONGEST]
    for leftover in path.parent.glob(f".{glob.escape(name)}.*.part"):
        parts = re.fullmatch(r"\.(\d+)\.[0-9a-f]{16}\.part", leftover.name[len(name) + 1 :], re.ASCII)
        if parts is not None and not _is_running(int(parts[1])):
            with contextlib.suppress(OSError):
                there = leftover.lstat()
                if stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid():
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
    with writing(folder / "any"):
        probe(folder / "any")
