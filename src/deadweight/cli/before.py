"""What is checked before any work: names, options, and whether results can be written where they go.

Reading a log and fitting a model take minutes on large data; a misspelt estimator or a folder that does not
exist must not come to light afterwards.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from deadweight.errors import OptionError, OutputError
from deadweight.io.policy_files import require_file
from deadweight.io.sizes import unreadable

NEW = ".deadweight.{}.tmp"


def check_file(path: Path, option: str = "--report", read: Sequence[Path | None] = ()) -> None:
    """Refuse a file that could not be written, by making one beside it, or that is one of those `read`."""
    found = unreadable(path)
    try:
        if any(not found and other and not unreadable(other) and path.samefile(other) for other in read):
            raise OutputError(f"{option} {str(path)!r} would replace the input.", fix="Name another file.")
        if found and found != "no such file":
            raise OutputError(f"{option} {str(path)!r} could not be written: {found}.", fix="Name a file.")
        if not found and path.is_dir():
            raise OutputError(
                f"{option} {str(path)!r} could not be written: it is a folder.", fix="Name a file in it."
            )
        # As long a name as that of the temporary file which later becomes this one.
        _try(path.with_name(f".{path.name}" + NEW.format(os.getpid())))
    except (OSError, ValueError) as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(
            f"{option} {str(path)!r} could not be written: {getattr(error, 'strerror', None) or error}.",
            fix="Name a file in a folder that exists and may be written to.",
        ) from None


def check_behaviour(choice: str) -> None:
    """Refuse a behaviour policy that is not there."""
    if choice not in ("column", "counts"):
        require_file(Path(choice).expanduser())


def check_number(value: float, option: str) -> None:
    """Refuse what is not a finite number."""
    if not math.isfinite(value):
        raise OptionError(f"{option} must be a finite number; found {value}.")


def _try(path: Path) -> None:
    try:
        path.write_bytes(b"")
    finally:
        with suppress(OSError, ValueError):
            path.unlink(missing_ok=True)
