"""`deadweight coverage`: how often every kind of interval covers, on problems whose answer is known."""

from __future__ import annotations

from pathlib import Path

from deadweight.cli.output import say, tell
from deadweight.cli.study import headline
from deadweight.studies.coverage_tables import write_tables
from deadweight.studies.interval_coverage import cells, study


def coverage(runs: int, workers: int, out: Path) -> None:
    """Make what is missing, then write and print the tables."""
    total = len(cells())
    for k, name in enumerate(study(out, runs, workers, tell=say), start=1):
        say(f"{k} of {total} cells: {name}")
    tell(write_tables(out, runs))
    tell()
    headline(out / "headline", runs, workers)
