"""`deadweight study`: the long measurements behind the documentation."""

from __future__ import annotations

from pathlib import Path

from deadweight.basics.atomic import write_text, writing
from deadweight.cli.output import say, tell
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
    for line in lines_of(folder, runs, workers, say):
        say(f"{line.problem}: {', '.join(map(str, line.ratios))}")
        lines.append(line)
    _show(folder, markdown(lines))


def _ends(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.ends import markdown, study

    lines = []
    for line in study(folder, runs, workers, say):
        say(str(line))
        lines.append(line)
    _show(folder, markdown(lines))


def _show(folder: Path, text: str) -> None:
    with writing(folder / "table.md"):
        write_text(folder / "table.md", text)
    tell(text)
