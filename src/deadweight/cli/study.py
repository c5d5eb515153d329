"""`deadweight study`: the long measurements behind the documentation."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from deadweight.atomic import write_text, writing
from deadweight.errors import OptionError, did_you_mean

STUDIES = ("automatic",)


def study(name: str, runs: int, workers: int, out: Path) -> None:
    """Make the runs that are not there yet, print the table, and write it beside them."""
    if name not in STUDIES:
        raise OptionError(
            f"There is no study {name!r}.{did_you_mean(name, STUDIES)}", fix=f"Studies: {', '.join(STUDIES)}."
        )
    from deadweight.studies.automatic import markdown
    from deadweight.studies.automatic import study as lines_of

    folder = out / name
    lines = []
    for line in lines_of(folder, runs, workers, partial(print, file=sys.stderr)):
        print(f"{line.problem}: {', '.join(map(str, line.ratios))}", file=sys.stderr)
        lines.append(line)
    text = markdown(lines)
    with writing(folder / "table.md"):
        write_text(folder / "table.md", text)
    print(text)
