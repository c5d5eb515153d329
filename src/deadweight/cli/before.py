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

from deadweight.errors import OptionError, OutputError, did_you_mean
from deadweight.io.policy_files import require_file
from deadweight.io.sizes import unreadable

BEHAVIOURS = ("column", "counts", "learned")
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
    if choice in (*BEHAVIOURS, "observed"):
        return
    meant = did_you_mean(choice, BEHAVIOURS) if choice.isalpha() else ""
    if meant and unreadable(Path(choice).expanduser()):
        raise OptionError(
            f"--behaviour takes {', '.join(BEHAVIOURS)} or a file; there is no file {choice!r}.{meant}",
            fix="For example --behaviour counts.",
        )
    named = old_policy_files(choice)
    for path in [choice] if named is None else named.values():
        require_file(Path(path).expanduser())


def old_policy_files(choice: str) -> dict[str, str] | None:
    """The files of several old policies by their ids, `v1=a.csv,v2=b.csv`; None where one file is meant."""
    if "=" not in choice or Path(choice).expanduser().exists():
        return None
    found: dict[str, str] = {}
    for part in choice.split(","):
        label, equals, path = (word.strip() for word in part.partition("="))
        if not (label and equals and path) or label in found:
            told = f"{label!r} is there twice" if label in found else f"found {part!r}"
            raise OptionError(
                f"--behaviour takes a file, or several as id=FILE,id=FILE with each id once; {told}.",
                fix="For example --behaviour v1=first.csv,v2=second.csv.",
            )
        found[label] = path
    return found


def check_number(value: float, option: str) -> None:
    """Refuse what is not a finite number."""
    if not math.isfinite(value):
        raise OptionError(
            f"{option} must be a finite number; found {value}.", fix=f"For example {option} 0.5."
        )


def _try(path: Path) -> None:
    try:
        path.write_bytes(b"")
    finally:
        with suppress(OSError, ValueError):
            path.unlink(missing_ok=True)
