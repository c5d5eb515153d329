"""Files that are there as a whole or not at all: written under another name, then renamed.

Whoever reads such a file while it is being written, or after the writer was killed, finds the old one or the
new one. A link stays, and what it leads to is replaced. Nobody may read the new file who could not read the
old one, nor any of it before it is whole. Devices and pipes are not replaced but written to. What reaches the
caller is the `OSError` of the disk; `writing` makes one message of it.

Temporary folders are where the user says or not at all, for this user alone, and gone with their process.
They hold what was decoded of a log. A folder goes when it is closed, let go of, or when the process ends by
itself. A process that is killed leaves its folders; the next one finds and removes them. It knows them by a
lock, which the system gives back however a process ended: process numbers would not tell, since they are
used again, and are others inside a container. Locks may not be seen by other machines that share a folder,
so the name says which machine made it, and what another machine left is left to that machine.
"""

from __future__ import annotations

import atexit
import errno
import glob
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from deadweight.errors import OutputError

ALL, OWNER = 0o777, 0o600
ACCESS_LIST = "system.posix_acl_access"
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# Without waiting for a reader, and without becoming the terminal of anything.
THROUGH = os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
# Letters of a name that its temporary name begins with: that may be no longer than names may be.
LONGEST = 50
PROBED = 4096


def set_access(handle: int, mode: int, replaced: Path | None = None, like: Sequence[Path] = ()) -> None:
    """Give a file its owner, its group and its mode, so that nobody new may read it.

    Args:
      handle: of the file.
      mode: what it has if nothing speaks against it.
      replaced: the file whose place it takes, with its owner and group where that is allowed.
      like: files that hold what it holds.
    """
    mode &= ALL
    if replaced is not None:
        _set_owner(handle, replaced.stat())
    if (replaced is not None or like) and sys.platform == "linux":
        with suppress(OSError):
            os.removexattr(handle, ACCESS_LIST)  # the folder's
    group = os.fstat(handle).st_gid
    if replaced is not None:
        mode &= _widest(replaced, group)
    for model in like:
        mode &= _widest(model, group) | OWNER
    if sys.platform != "win32":
        with suppress(OSError):  # where a file system knows no modes, it stays as it was begun
            os.fchmod(handle, mode)


def _widest(model: Path, group: int) -> int:
    """The widest mode of a file of a group that lets nobody do more with it than with `model`.

    Where the group is another, or its bits say what a list of users may do, a group has the rights that both
    group and others have; and others have no more, since members of the old group are now among them.
    """
    there = model.stat()
    mode = there.st_mode & ALL
    if there.st_gid == group and not _has_access_list(model):
        return mode
    common = mode >> 3 & mode & 0o7
    return mode & 0o700 | common << 3 | common


def _set_owner(handle: int, there: os.stat_result) -> None:
    """Give a file the owner and group of another, or at least its group, where that is allowed."""
    if sys.platform != "win32":
        for owner in (there.st_uid, -1):
            with suppress(OSError):
                os.fchown(handle, owner, there.st_gid)
                return


def _has_access_list(path: Path) -> bool:
    if sys.platform == "linux":
        with suppress(OSError):
            return bool(os.getxattr(path, ACCESS_LIST))
    return False


def write_whole(path: Path, write: Callable[[BinaryIO], Any], like: Sequence[Path] = ()) -> None:
    """Let `write` fill a new file of bytes beside what `path` leads to, bring it to the disk, and rename it.

    A device or a pipe gets the bytes when there are all of them. `like` are files that hold what is written
    now: nobody gets to read it who could not read these.
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
        with suppress(OSError):
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
    """Where a file is written. One in the place of a standard stream would take away what is printed."""

    path: Path  # where links lead
    there: os.stat_result | None = None  # what is there now
    stream: Any = None  # standard output or error, where that is what is there

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
        with suppress(OSError):
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
    """The mode that umask and folder give a new file, by one without content: anybody may see that."""
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
            with suppress(OSError):
                there = leftover.lstat()
                if stat.S_ISREG(there.st_mode) and there.st_uid == os.geteuid():
                    leftover.unlink()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # asks only
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _sync_folder(folder: Path) -> None:
    """Bring a new name to the disk, where folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing(
    path: Path, fix: str = "Free some space or choose another folder with --out. Finished runs are kept."
) -> Iterator[None]:
    """Make the folder of a file, and of any failure of the disk one message that names the place.

    `fix` is what to do about it: a command that has no --out names the option that it has.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise OutputError(f"'{path}' could not be written: {error.strerror or error}.", fix=fix) from None


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to before any work is done."""
    with writing(folder / "any"):
        probe(folder / "any")


# --- Temporary folders.

# What says where, in the order in which Python asks; and where it would go without a word.
VARIABLES = ("TMPDIR", "TEMP", "TMP")
UNASKED: tuple[str, ...] = ("/tmp", "/var/tmp", "/usr/tmp")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NAME = re.compile("deadweight-([0-9a-f]{8})-([0-9a-f]{8})-[0-9a-f]{16}")
UNKNOWN = "0" * 8
# Whoever still writes into a folder that is removed finds it gone soon.
ATTEMPTS = 100

# Paths of folders that are there: the process that made them, and its lock.
_held: dict[str, tuple[int, int | None]] = {}


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
    """The variable that names the folder for temporary files, or "", and the folder's path.

    `tempfile.gettempdir` goes elsewhere, without a word, where the folder that was named takes no files.
    """
    unasked = UNASKED
    with suppress(OSError):
        unasked += (os.getcwd(),)
    chosen = tempfile.tempdir  # by the program, or by Python when it was first asked
    if chosen is not None and os.fsdecode(chosen) not in unasked:
        return "tempfile.tempdir", os.path.abspath(os.fsdecode(chosen))
    for variable in VARIABLES:
        if os.environ.get(variable):
            return variable, os.path.abspath(os.environ[variable])
    return "", tempfile.gettempdir()


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
    """The name of the running system, the same for all its containers, where it has one."""
    try:
        return _short(Path("/proc/sys/kernel/random/boot_id").read_text())
    except OSError:
        return UNKNOWN


def _short(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()


def _is_from_here(name: str) -> bool:
    """Whether a folder's name is one of ours, and its lock is seen here if it is held."""
    parts = NAME.fullmatch(name)
    return parts is not None and (parts[1] == _machine() or parts[2] == _running_system() != UNKNOWN)


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
