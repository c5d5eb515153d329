"""Who may read a file that takes the place of another, or holds what another one holds: nobody new."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ALL, OWNER = 0o777, 0o600
ACCESS_LIST = "system.posix_acl_access"


def set_access(handle: int, mode: int, replaced: Path | None = None, like: Sequence[Path] = ()) -> None:
    """Give a file its owner, its group and its mode.

    Args:
      handle: of the file.
      mode: what it has if nothing speaks against it.
      replaced: the file whose place it takes, with its owner and group where that is allowed.
      like: files that hold what it holds.
    """
    mode &= ALL
    if replaced is not None:
        _set_owner(handle, replaced.stat())
    if replaced is not None or like:
        _drop_access_list(handle)  # the folder's
    group = os.fstat(handle).st_gid
    if replaced is not None:
        mode &= _widest(replaced, group)
    for model in like:
        mode &= _widest(model, group) | OWNER
    if sys.platform != "win32":
        with contextlib.suppress(OSError):  # where a file system knows no modes, it stays as it was begun
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
            with contextlib.suppress(OSError):
                os.fchown(handle, owner, there.st_gid)
                return


def _has_access_list(path: Path) -> bool:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return bool(os.getxattr(path, ACCESS_LIST))
    return False


def _drop_access_list(handle: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.removexattr(handle, ACCESS_LIST)
