"""`deadweight demo`: a log whose answers are known, from the question to the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deadweight.basics.atomic import writing
from deadweight.cli.before import check_file
from deadweight.cli.output import tell
from deadweight.errors import OptionError, did_you_mean

DOMAINS = ("ward", "lift")


@dataclass(frozen=True)
class Request:
    """The options of the command, as they were typed."""

    domain: str
    size: int
    episodes: int | None
    seed: int
    logs: int | None
    report: Path
    json: bool
    files: Path | None = None


def demo(request: Request) -> int:
    """Simulate, evaluate, print, and write a report; the exit code."""
    if request.domain not in DOMAINS:
        raise OptionError(
            f"--domain must be ward or lift; found {request.domain!r}."
            f"{did_you_mean(request.domain, DOMAINS)}",
            fix="For example deadweight demo --domain lift.",
        )
    if request.files is not None:
        _write_files(request.files, request.episodes or 600, request.seed)
        return 0
    check_file(request.report, json=request.json)
    seed, report, json = request.seed, request.report, request.json
    if request.domain == "lift":
        from deadweight.cli.demo_lift import lift_demo

        return lift_demo(request.size, request.episodes or 1000, seed, request.logs or 10, report, json)
    from deadweight.cli.demo_ward import ward_demo

    return ward_demo(request.episodes or 600, seed, request.logs or 20, report, json)


def _write_files(folder: Path, episodes: int, seed: int) -> None:
    from deadweight.studies.ward_files import write_ward_files

    with writing(folder / "any", "Free some space, or name a folder on another disk with --files."):
        for path in write_ward_files(folder, episodes, seed):
            tell(f"Written: {path}")
