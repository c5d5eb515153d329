"""What is checked before any work: names, options, and whether results can be written where they go.

Reading a log and fitting a model take minutes on large data; a misspelt estimator or a folder that does not
exist must not come to light afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from deadweight.basics.atomic import is_printed, probe
from deadweight.errors import OptionError, OutputError, did_you_mean
from deadweight.io.folders import files_of
from deadweight.io.policy_files import require_file
from deadweight.io.sizes import unreadable

BEHAVIOURS = ("column", "counts", "learned")


def check_file(path: Path, option: str = "--report", read: Sequence[Path] = (), json: bool = False) -> None:
    """Refuse a file that could not be written, by trying, or that is one of those `read`.

    `json` says whether standard output is taken by a document.
    """
    fix = "Name a file in a folder that exists and may be written to."
    try:
        probe(path)
        wrong = json and is_printed(path) and "it is standard output, where --json prints its document"
    except (OSError, ValueError) as error:
        wrong = getattr(error, "strerror", None) or str(error)
    if wrong:
        raise OutputError(f"{option} {str(path)!r} could not be written: {wrong}.", fix=fix)
    if path.exists() and any(path.samefile(file) for source in read for file in files_of(source)):
        raise OutputError(f"{option} {str(path)!r} would replace the input.", fix="Name another file.")


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
