"""`deadweight study`: the long measurements behind the documentation."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from deadweight.atomic import write_text, writing
from deadweight.errors import OptionError, did_you_mean

STUDIES = ("automatic", "ends")


def study(name: str, runs: int, workers: int, out: Path) -> None:
    """Make the runs that are not there yet, print the table, and write it beside them."""
    if name not in STUDIES:
        raise OptionError(
            f"There is no study {name!r}.{did_you_mean(name, STUDIES)}", fix=f"Studies: {', '.join(STUDIES)}."
        )
    folder = out / name
    if name == "ends":
        _ends(folder, runs, workers)
        return
    from deadweight.studies.automatic import markdown
    from deadweight.studies.automatic import study as lines_of

    lines = []
    for line in lines_of(folder, runs, workers, partial(print, file=sys.stderr)):
        print(f"{line.problem}: {', '.join(map(str, line.ratios))}", file=sys.stderr)
        lines.append(line)
    _show(folder, markdown(lines))


def _ends(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.ends import markdown, study

    lines = []
    for line in study(folder, runs, workers, partial(print, file=sys.stderr)):
        print(line, file=sys.stderr)
        lines.append(line)
    _show(folder, markdown(lines))


def _show(folder: Path, text: str) -> None:
    with writing(folder / "table.md"):
        write_text(folder / "table.md", text)
    print(text)
