"""`deadweight study`: the long measurements behind the documentation."""

from __future__ import annotations

from pathlib import Path

from deadweight.basics.atomic import write_text, writing
from deadweight.cli.output import say, tell
from deadweight.errors import OptionError, did_you_mean

STUDIES = ("automatic", "ends", "features", "headline", "improve", "compare", "mixtures", "cuts", "sepsis")


def study(name: str, runs: int, workers: int, out: Path) -> None:
    """Make the runs that are not there yet, print the table, and write it beside them."""
    if name not in STUDIES:
        raise OptionError(
            f"There is no study {name!r}.{did_you_mean(name, STUDIES)}", fix=f"Studies: {', '.join(STUDIES)}."
        )
    folder = out / name
    others = {
        "ends": _ends,
        "features": _features,
        "headline": headline,
        "improve": _improve,
        "compare": _compare,
        "mixtures": _mixtures,
        "cuts": _cuts,
        "sepsis": _sepsis,
    }
    if name in others:
        others[name](folder, runs, workers)
        return
    from deadweight.studies.automatic_drop import study as lines_of
    from deadweight.studies.automatic_tables import markdown

    lines = []
    for line in lines_of(folder, runs, workers, say):
        say(f"{line.problem}: {', '.join(map(str, line.ratios[:2]))}")
        lines.append(line)
    _show(folder, markdown(lines))


def _ends(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.unsaid_ends import markdown, study

    lines = []
    for line in study(folder, runs, workers, say):
        say(str(line))
        lines.append(line)
    _show(folder, markdown(lines))


def _features(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.feature_study import markdown, study

    lines = []
    for line in study(folder, runs, workers, say):
        say(str(line))
        lines.append(line)
    _show(folder, markdown(lines))


def headline(folder: Path, runs: int, workers: int) -> None:
    """BLEND and the rows beside it: coverage, width, error against the best single estimate, verdicts."""
    from deadweight.studies.headline_study import headline_cells
    from deadweight.studies.headline_study import study as cells_of
    from deadweight.studies.headline_tables import write_headline

    total = len(headline_cells())
    for k, name in enumerate(cells_of(folder, runs, workers, tell=say), start=1):
        say(f"{k} of {total} cells: {name}")
    tell(write_headline(folder, runs))


def _improve(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.improvement_study import OURS, markdown, study

    lines = []
    for line in study(folder, runs, workers, say):
        gain, worse = line.gain[OURS], line.worse[OURS]
        say(f"{line.problem}: gain {gain:+.3g}, worse in {worse:.0%} of {line.runs} runs")
        lines.append(line)
    _show(folder, markdown(lines))


def _compare(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.comparison_study import markdown, study

    lines = []
    for line in study(folder, runs, workers, say):
        said = ", ".join(f"{name} {value:.2f}" for name, value in line.means.items())
        say(f"{line.problem}, {line.policies} policies, {line.runs} logs: {said}")
        lines.append(line)
    _show(folder, markdown(lines))


def _mixtures(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.mixture_study import markdown, study

    lines = []
    for line in study(folder, runs, workers, say):
        say(f"{line.mix}, {line.problem}: {', '.join(map(str, line.ratios))}")
        lines.append(line)
    _show(folder, markdown(lines))


def _cuts(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.cut_study import NAMES, markdown, study

    lines = []
    for line in study(folder, runs, workers, say):
        ratios = ", ".join(f"{name} {ratio}" for name, ratio in zip(NAMES, line.ratios, strict=True))
        say(f"{line.cut}, {line.problem}: {ratios}")
        lines.append(line)
    _show(folder, markdown(lines))


def _sepsis(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.sepsis_study import study

    _show(folder, study(folder, runs, workers, say))


def _show(folder: Path, text: str) -> None:
    with writing(folder / "table.md"):
        write_text(folder / "table.md", text)
    tell(text)
