"""`deadweight coverage`: how often every kind of interval covers, on problems whose answer is known."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from deadweight.studies.coverage import cells, study
from deadweight.studies.coverage_tables import write_tables


def coverage(runs: int, workers: int, out: Path) -> None:
    """Make what is missing, then write and print the tables."""
    total = len(cells())
    made = study(out, runs, workers, tell=partial(print, file=sys.stderr))
    for k, name in enumerate(made, start=1):
        print(f"{k} of {total} cells: {name}", file=sys.stderr)
    print(write_tables(out, runs))
