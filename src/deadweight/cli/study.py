"""`deadweight study`: the long measurements behind the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from deadweight.basics.atomic import write_text, writing
from deadweight.cli.output import say, tell
from deadweight.errors import OptionError, did_you_mean

T = TypeVar("T")


def study(name: str, runs: int, workers: int, out: Path, only: Sequence[str] = ()) -> None:
    """Make the runs that are not there yet, print the table, and write it beside them."""
    tables = {
        **WITH_CELLS,
        "automatic": _automatic,
        "doubts": _doubts,
        "ends": _ends,
        "features": _features,
        "mixtures": _mixtures,
        "cuts": _cuts,
        "sepsis": _sepsis,
    }
    if name not in tables:
        raise OptionError(
            f"There is no study {name!r}.{did_you_mean(name, tables)}", fix=f"Studies: {', '.join(tables)}."
        )
    if name in WITH_CELLS:
        WITH_CELLS[name](out / name, runs, workers, only)
    elif only:
        raise OptionError(
            f"--only chooses cells of {', '.join(WITH_CELLS)}; {name} has none.", fix="Leave --only out."
        )
    else:
        tables[name](out / name, runs, workers)


def _automatic(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.automatic_drop import study
    from deadweight.studies.automatic_tables import markdown

    lines = study(folder, runs, workers, say)
    _show(folder, markdown(_told(lines, lambda one: f"{one.problem}: {', '.join(map(str, one.ratios[:2]))}")))


def _doubts(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.probability_doubts import Line, markdown, study

    def words(line: Line) -> str:
        said = ", ".join(f"{kind} {shares['either']:.3f}" for kind, shares in line.shares.items())
        return f"{line.problem}, {line.runs} logs: {said}"

    _show(folder, markdown(_told(study(folder, runs, workers, say), words)))


def _ends(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.unsaid_ends import markdown, study

    _show(folder, markdown(_told(study(folder, runs, workers, say), str)))


def _features(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.feature_study import markdown, study

    _show(folder, markdown(_told(study(folder, runs, workers, say), str)))


def headline(folder: Path, runs: int, workers: int, only: Sequence[str] = ()) -> None:
    """BLEND and the rows beside it, in all cells or those named: coverage, width, error, verdicts."""
    from deadweight.studies.headline_study import headline_cells
    from deadweight.studies.headline_study import study as cells_of
    from deadweight.studies.headline_tables import write_headline

    known = headline_cells()
    _check_cells("headline", only, known, "toxic dose, n = 400")
    total = len(only or known)
    for k, name in enumerate(cells_of(folder, runs, workers, only or None, say), start=1):
        say(f"{k} of {total} cells: {name}")
    tell(write_headline(folder, runs))


def _check_cells(study: str, only: Sequence[str], known: Iterable[str], example: str) -> None:
    known = list(known)
    for name in only:
        if name not in known:
            raise OptionError(
                f"{study} has no cell {name!r}.{did_you_mean(name, known)}",
                fix=f"A cell is named as in the table of the study, such as {example!r}.",
            )


def _improve(folder: Path, runs: int, workers: int, only: Sequence[str] = ()) -> None:
    from deadweight.studies.improvement_study import OURS, Line, cells, markdown, study

    def words(line: Line) -> str:
        gain, worse = line.gain[OURS], line.worse[OURS]
        return f"{line.problem}: gain {gain:+.3g}, worse in {worse:.0%} of {line.runs} runs"

    _check_cells("improve", only, cells(), "toxic dose")
    _show(folder, markdown(_told(study(folder, runs, workers, say, only or None), words)))


def _compare(folder: Path, runs: int, workers: int, only: Sequence[str] = ()) -> None:
    from deadweight.studies.comparison_study import Line, cells, markdown, study

    def words(line: Line) -> str:
        said = ", ".join(f"{name} {value:.2f}" for name, value in line.means.items())
        return f"{line.problem}, {line.policies} policies, {line.runs} logs: {said}"

    _check_cells("compare", only, cells(), "toxic dose x 5")
    _show(folder, markdown(_told(study(folder, runs, workers, say, only or None), words)))


def _mixtures(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.mixture_study import Line, markdown, study

    def words(line: Line) -> str:
        return f"{line.mix}, {line.problem}: {', '.join(map(str, line.ratios))}"

    _show(folder, markdown(_told(study(folder, runs, workers, say), words)))


def _cuts(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.cut_study import NAMES, Line, markdown, study

    def words(line: Line) -> str:
        ratios = ", ".join(f"{name} {ratio}" for name, ratio in zip(NAMES, line.ratios, strict=True))
        return f"{line.cut}, {line.problem}: {ratios}"

    _show(folder, markdown(_told(study(folder, runs, workers, say), words)))


def _sepsis(folder: Path, runs: int, workers: int) -> None:
    from deadweight.studies.sepsis_study import study

    _show(folder, study(folder, runs, workers, say))


def _told(lines: Iterable[T], words: Callable[[T], str]) -> list[T]:
    """All lines of a table, each of them said in words when it is finished."""
    kept = []
    for line in lines:
        say(words(line))
        kept.append(line)
    return kept


def _show(folder: Path, text: str) -> None:
    tell(text)
    with writing(folder / "table.md"):
        write_text(folder / "table.md", text)


# Studies of which some cells can be asked for by name.
WITH_CELLS = {"headline": headline, "improve": _improve, "compare": _compare}
