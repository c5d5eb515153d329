"""`deadweight study`: the long measurements behind the documentation."""

from __future__ import annotations

import sys
from pathlib import Path

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
    for line in lines_of(folder, runs, workers):
        print(f"{line.problem}: {', '.join(map(str, line.ratios))}", file=sys.stderr)
        lines.append(line)
    text = markdown(lines)
    (folder / "table.md").write_text(text, encoding="utf-8")
    print(text)
