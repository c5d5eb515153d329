"""Temporary folders: where the user says or not at all, for this user alone, and gone with their process.

They hold what was decoded of a log. A folder goes when it is closed, let go of, or when the process ends by
itself. A process that is killed leaves its folders; the next one finds and removes them. It knows them by a
lock, which the system gives back however a process ended: process numbers would not tell, since they are used
again, and are others inside a container. Locks may not be seen by other machines that share a folder, so the
name says which machine made it, and what another machine left is left to that machine.
"""

from __future__ import annotations

import atexit
import errno
import os
import platform
import re
import shutil
import sys
import tempfile
import weakref
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

from deadweight.errors import OutputError

# What says where, in the order in which Python asks; and where it would go without a word.
VARIABLES = ("TMPDIR", "TEMP", "TMP")
UNASKED = ("/tmp", "/var/tmp", "/usr/tmp")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NAME = re.compile("deadweight-([0-9a-f]{8})-([0-9a-f]{8})-[0-9a-f]{16}")
UNKNOWN = "0" * 8
# Whoever still writes into a folder that is removed finds it gone soon.
ATTEMPTS = 100

_held: dict[str, tuple[int, int | None]] = {}
"""Paths of folders that are there: the process that made them, and its lock."""


class NoRoom(OutputError):
    """A temporary folder that could not be made for lack of space, or of any place; some can do without."""


class TemporaryFolder:
    """A folder at `path`, until `close` or for as long as somebody holds this object.

    Raises:
      NoRoom: the disk is full.
      OutputError: the folder that the user named for temporary files takes none.
    """

    def __init__(self) -> None:
        self.path = Path(_made())
        self._finalizer = weakref.finalize(self, _remove, str(self.path), os.getpid())

    def close(self) -> None:
        """Remove it; a process that was forked leaves it to the one that made it."""
        self._finalizer()


def remove_all() -> None:
    """Remove all that this process has made, in use or not: it is about to end."""
    for path, (process, _) in list(_held.items()):
        _remove(path, process)


def sweep(folder: str | None = None) -> None:
    """Remove what dead processes of this user and this machine have left; None looks where it would be."""
    with suppress(OSError):
        with os.scandir(_place()[1] if folder is None else folder) as entries:
            left = [entry.path for entry in entries if _is_from_here(entry.name) and entry.path not in _held]
        for path in left:
            _remove_if_dead(path)


def _place() -> tuple[str, str]:
    """What names the folder for temporary files, "" if nothing does, and its path.

    `tempfile.gettempdir` goes elsewhere, without a word, where the folder that was named takes no files.
    """
    chosen = tempfile.tempdir  # by the program, or by Python when it was first asked
    if chosen is not None and os.fsdecode(chosen) not in _unasked():
        return "tempfile.tempdir", os.path.abspath(os.fsdecode(chosen))
    for variable in VARIABLES:
        if os.environ.get(variable):
            return variable, os.path.abspath(os.environ[variable])
    return "", tempfile.gettempdir()


def _unasked() -> tuple[str, ...]:
    """Where Python goes by itself."""
    with suppress(OSError):
        return (*UNASKED, os.getcwd())
    return UNASKED


def _made() -> str:
    """The path of a new folder that is held."""
    variable, folder, path = "", "", ""
    try:
        variable, folder = _place()
        sweep(folder)
        while True:
            path = os.path.join(folder, f"deadweight-{_machine()}-{_running_system()}-{os.urandom(8).hex()}")
            _held[path] = os.getpid(), None  # before it is there: a signal may come at any time
            os.mkdir(path, 0o700)
            with suppress(BlockingIOError, FileNotFoundError):  # taken for dead, before it was held
                _held[path] = os.getpid(), _hold(path)
                return path
            del _held[path]
    except OSError as error:
        _remove(path, os.getpid())
        raise no_folder(variable, folder, error) from None


def no_folder(variable: str, folder: str, error: OSError) -> OutputError:
    """The error for a folder for temporary files that takes none, and what named it."""
    if error.errno in NO_ROOM:
        return NoRoom(
            f"There is no room in {folder!r} for temporary files: {error.strerror}.",
            fix="Free some space or name another folder (TMPDIR=...).",
        )
    if not variable:
        return NoRoom(
            f"No folder for temporary files can be written to: {error.strerror or error}.",
            fix="Name one (TMPDIR=...).",
        )
    return OutputError(
        f"{variable} must name a folder that can be written to, for temporary files; found {folder!r}: "
        f"{error.strerror}.",
        fix=f"Make it, or name another one ({variable}=...). Nothing is written anywhere else.",
    )


def _remove(path: str, process: int) -> None:
    """Remove a folder that a process has made, if it is this one."""
    if process != os.getpid():
        return
    for _ in range(ATTEMPTS):
        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            break
    _, lock = _held.pop(path, (process, None))
    if lock is not None:
        os.close(lock)


@cache
def _machine() -> str:
    """The name of this machine, or of the container, in eight letters."""
    return _short(platform.node())


@cache
def _running_system() -> str:
    """What the system has been called since it was started, by all its containers; where it says so."""
    try:
        return _short(Path("/proc/sys/kernel/random/boot_id").read_text())
    except OSError:
        return UNKNOWN


def _short(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()


def _is_from_here(name: str) -> bool:
    """Whether the name of a folder is one of ours, and its lock is seen here if it is held."""
    parts = NAME.fullmatch(name)
    if parts is None:
        return False
    return parts[1] == _machine() or (parts[2] == _running_system() != UNKNOWN)


atexit.register(remove_all)

if sys.platform == "win32":

    def _hold(path: str) -> int | None:
        return None  # folders cannot be locked, and none is taken for dead

    def _remove_if_dead(path: str) -> None:
        return

else:
    import fcntl

    FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

    def _hold(path: str) -> int | None:
        """Lock a folder; None where it cannot be locked, and so is never taken for dead."""
        handle = os.open(path, FOLDER)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.stat(path)  # it may have been taken for dead, and removed, just before
        except (BlockingIOError, FileNotFoundError):
            os.close(handle)
            raise
        except OSError:  # a file system without locks
            os.close(handle)
            return None
        return handle

    def _remove_if_dead(path: str) -> None:
        """Remove a folder of this user that nobody holds; whoever else sweeps leaves it meanwhile."""
        with suppress(OSError):
            handle = os.open(path, FOLDER)
            try:
                if os.fstat(handle).st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(handle)
