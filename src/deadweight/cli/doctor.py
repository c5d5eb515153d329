"""`deadweight doctor`: check a log before it is evaluated."""

from __future__ import annotations

import shlex
from pathlib import Path

from deadweight.cli.ends import parse_time_limit
from deadweight.cli.failures import refuse
from deadweight.cli.output import out_json, tell
from deadweight.doctor import doctor as examine
from deadweight.errors import DeadweightError, OptionError

FOUND_ERRORS = 1


def doctor(log: Path, target: Path | None, columns: str, json: bool, time_limit: str = "infer") -> int:
    """Print what was found; the exit code is 0 without errors, 1 with, 2 if there was nothing to examine."""
    try:
        policy = None if target is None else str(target)
        found = examine(str(log), policy, parse_columns(columns), parse_time_limit(time_limit))
    except DeadweightError as error:
        if not json:
            raise
        return refuse(error, json, _unreadable(str(log), error))
    if json:
        out_json(found.to_dict())
    else:
        tell(str(found))
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
    finding = {
        "code": error.code,
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
