"""`deadweight doctor`: check a log before it is evaluated."""

from __future__ import annotations

import json as json_module
import shlex
import sys
from pathlib import Path

from deadweight.cli.ends import parse_time_limit
from deadweight.doctor import doctor as examine
from deadweight.errors import DeadweightError, OptionError
from deadweight.io.findings import LogProblem

FOUND_ERRORS = 1
UNREADABLE = 2


def doctor(log: Path, target: Path | None, columns: str, json: bool, time_limit: str = "infer") -> int:
    """Print what was found; the exit code is 0 without errors, 1 with, 2 if there was nothing to examine."""
    try:
        policy = None if target is None else str(target)
        found = examine(str(log), policy, parse_columns(columns), parse_time_limit(time_limit))
    except DeadweightError as error:
        if not json:
            raise
        sys.stdout.write(json_module.dumps(_unreadable(str(log), error), indent=2) + "\n")
        sys.stderr.write(f"Error: {error}\n")
        return UNREADABLE
    text = json_module.dumps(found.to_dict(), indent=2, allow_nan=False) if json else str(found)
    sys.stdout.write(text + "\n")
    return 0 if found.ok else FOUND_ERRORS


def parse_columns(text: str) -> dict[str, str]:
    """The renames of `--columns`.

    >>> parse_columns("episode=stay_id, state=ward")
    {'episode': 'stay_id', 'state': 'ward'}
    """
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    wrong = [ours for ours, equals, theirs in pairs if not equals or not theirs.strip()]
    if wrong:
        raise OptionError(
            f"--columns takes our=yours, separated by commas; found {wrong[0].strip()!r} without a name.",
            fix="For example --columns episode=stay_id,state=ward.",
        )
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}


def doctor_command(log: Path, target: Path | None = None, columns: str = "") -> str:
    """The command that examines a log, ready to be pasted, with the options that were given.

    >>> doctor_command(Path("my log.csv"), columns="episode=stay_id")
    "deadweight doctor 'my log.csv' --columns episode=stay_id"
    """
    words = ["deadweight", "doctor", str(log)]
    words += [] if target is None else ["--target", str(target)]
    words += ["--columns", columns] if columns else []
    return shlex.join(words)


def _unreadable(source: str, error: DeadweightError) -> dict[str, object]:
    code = error.code if isinstance(error, LogProblem) else "DW100"
    finding = {
        "code": code,
        "severity": "error",
        "problem": error.problem,
        "fix": error.fix,
        "count": 0,
        "rows": [],
    }
    return {
        "source": source,
        "ok": False,
        "counts": {"error": 1, "warning": 0, "info": 0},
        "findings": [{**finding, "title": "Not a log that can be read"}],
    }
