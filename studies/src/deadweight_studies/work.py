"""`deadweight study`: the long measurements behind the documentation."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TypeVar

from deadweight._version import __version__
from deadweight.cli.output import out_json, print_table, say, tell, tell_words
from deadweight.errors import MissingExtra, OptionError, did_you_mean
from deadweight.sums.kernel import in_use
from deadweight.tools.files import write_text, writing
from deadweight_studies.benchmark.cases import CASES, ONLY_IF_NAMED
from deadweight_studies.coverage import cells as coverage_cells
from deadweight_studies.coverage import study as coverage_study
from deadweight_studies.coverage import write_tables
from deadweight_studies.reproduction.publish import can_draw, publish, wanted
from deadweight_studies.reproduction.run import Work, carry_out
from deadweight_studies.reproduction.spec import EXPERIMENTS, FIGURES, TABLES, TARGETS, experiments_of
from deadweight_studies.reproduction.tables import Cell, number, summary
from deadweight_studies.reproduction.worlds import protocol as read_protocol

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
    from deadweight_studies.automatic import markdown, study

    lines = study(folder, runs, workers, say)
    _show(folder, markdown(_told(lines, lambda one: f"{one.problem}: {', '.join(map(str, one.ratios[:2]))}")))


def _doubts(folder: Path, runs: int, workers: int) -> None:
    from deadweight_studies.probability_doubts import Line, markdown, study

    def words(line: Line) -> str:
        said = ", ".join(f"{kind} {shares['either']:.3f}" for kind, shares in line.shares.items())
        return f"{line.problem}, {line.runs} logs: {said}"

    _show(folder, markdown(_told(study(folder, runs, workers, say), words)))


def _ends(folder: Path, runs: int, workers: int) -> None:
    from deadweight_studies.ends import markdown, study

    _show(folder, markdown(_told(study(folder, runs, workers, say), str)))


def _features(folder: Path, runs: int, workers: int) -> None:
    from deadweight_studies.features import markdown, study

    _show(folder, markdown(_told(study(folder, runs, workers, say), str)))


def headline(folder: Path, runs: int, workers: int, only: Sequence[str] = ()) -> None:
    """BLEND and the rows beside it, in all cells or those named: coverage, width, error, verdicts."""
    from deadweight_studies.headline import headline_cells
    from deadweight_studies.headline import study as cells_of
    from deadweight_studies.headline_tables import write_headline

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
    from deadweight_studies.improvement import OURS, Line, cells, markdown, study

    def words(line: Line) -> str:
        gain, worse = line.gain[OURS], line.worse[OURS]
        return f"{line.problem}: gain {gain:+.3g}, worse in {worse:.0%} of {line.runs} runs"

    _check_cells("improve", only, cells(), "toxic dose")
    _show(folder, markdown(_told(study(folder, runs, workers, say, only or None), words)))


def _compare(folder: Path, runs: int, workers: int, only: Sequence[str] = ()) -> None:
    from deadweight_studies.comparison import Line, cells, markdown, study

    def words(line: Line) -> str:
        said = ", ".join(f"{name} {value:.2f}" for name, value in line.means.items())
        return f"{line.problem}, {line.policies} policies, {line.runs} logs: {said}"

    _check_cells("compare", only, cells(), "toxic dose x 5")
    _show(folder, markdown(_told(study(folder, runs, workers, say, only or None), words)))


def _mixtures(folder: Path, runs: int, workers: int) -> None:
    from deadweight_studies.mixtures import Line, markdown, study

    def words(line: Line) -> str:
        return f"{line.mix}, {line.problem}: {', '.join(map(str, line.ratios))}"

    _show(folder, markdown(_told(study(folder, runs, workers, say), words)))


def _cuts(folder: Path, runs: int, workers: int) -> None:
    from deadweight_studies.cuts import NAMES, Line, markdown, study

    def words(line: Line) -> str:
        ratios = ", ".join(f"{name} {ratio}" for name, ratio in zip(NAMES, line.ratios, strict=True))
        return f"{line.cut}, {line.problem}: {ratios}"

    _show(folder, markdown(_told(study(folder, runs, workers, say), words)))


def _sepsis(folder: Path, runs: int, workers: int) -> None:
    from deadweight_studies.sepsis import study

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


# --------------------------------------------------------------------------------------------------------
# `deadweight coverage`: how often every kind of interval covers, on problems whose answer is known.


def coverage(runs: int, workers: int, out: Path) -> None:
    """Make what is missing, then write and print the tables."""
    total = len(coverage_cells())
    for k, name in enumerate(coverage_study(out, runs, workers, tell=say), start=1):
        say(f"{k} of {total} cells: {name}")
    tell(write_tables(out, runs))
    tell()
    headline(out / "headline", runs, workers)


# --------------------------------------------------------------------------------------------------------
# `deadweight benchmark`: timings against plain references, as ratios.


def benchmark(only: str, scale: float, as_json: bool) -> None:
    """Run the cases and print a line for each, under a head that says where and when."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    names = names or [name for name in CASES if name not in ONLY_IF_NAMED]
    for name in names:
        if name not in CASES:
            raise OptionError(
                f"There is no benchmark {name!r}.{did_you_mean(name, CASES)}",
                fix=f"There are {', '.join(CASES)}.",
            )
    head = surroundings(scale)
    if not as_json:
        tell(", ".join(f"{key} {value}" for key, value in head.items()))
        tell("Ratios are medians of paired rounds (reference, candidate, reference) with their quartiles.\n")
    found = []
    for name in names:
        say(f"{name} ...")
        found += [(name, result) for result in CASES[name](scale)]
    if as_json:
        results = [{"case": name, **vars(result)} for name, result in found]
        out_json({**head, "results": results})
    else:
        rows = [(result.name, result.measured, result.aim) for _, result in found]
        print_table(("what", "measured", "aim"), rows, left=(0, 2))


def surroundings(scale: float) -> dict[str, str]:
    """Versions, machine and date of a run."""
    import numpy
    import scipy

    return {
        "deadweight": __version__,
        "Python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "summed by": in_use(),
        "machine": f"{processor()} ({platform.machine()} {platform.system()}), {os.cpu_count()} cores",
        "date": date.today().isoformat(),
        "scale": f"{scale:g}",
    }


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(errors="replace").splitlines() if listed.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "processor unknown"


# --------------------------------------------------------------------------------------------------------
# `deadweight reproduce`: the paper's tables and figures, made again.


def reproduce(
    target: str, protocol: str, runs: int | None, workers: int | None, out: Path, policies: Path | None
) -> None:
    """Make what is missing, write all files, print the tables."""
    if target not in TARGETS:
        raise OptionError(
            f"There is nothing called {target!r} to reproduce.{did_you_mean(target, TARGETS)}",
            fix=f"Choose one of: {', '.join(TARGETS)}.",
        )
    if target in FIGURES and not can_draw():
        raise MissingExtra("Drawing figures", "figures")
    folder = None if policies is None else str(policies)
    work = Work(
        experiments_of(target), read_protocol(protocol), out, runs, workers or os.cpu_count() or 1, folder
    )
    with _progress() as advance:
        stores = carry_out(work, advance, say)
    shown = publish(target, work, stores, say)
    for name, cells in shown.items():
        _show_target(name, work, cells)
    _remarks(target, work)


def _show_target(name: str, work: Work, cells: Sequence[Cell]) -> None:
    table = TABLES[name]
    every = EXPERIMENTS[table.experiment].runs
    runs = f"{every if work.runs is None else min(work.runs, every)} of {every} runs"
    tell_words(
        f"\n{name}: {table.title}, protocol {work.protocol.name}. Mean squared errors of {runs}"
        f"{_normalised(name)}."
    )
    labels = list(dict.fromkeys(cell.estimator for cell in cells))
    rows = [
        [str(row), *(number(cell.measured.value) for cell in cells if cell.row == row)]
        for row in dict.fromkeys(cell.row for cell in cells)
    ]
    print_table([EXPERIMENTS[table.experiment].setting, *labels], rows)
    tell_words(summary(cells))


def _normalised(name: str) -> str:
    return ", divided by the squared reference value" if TABLES[name].normalised else ""


def _remarks(target: str, work: Work) -> None:
    if "taxi" in work.experiments and work.policies is None:
        tell(
            "\nTaxi was run with the package's own policies: its numbers are not the paper's. "
            "--policies DIR takes the published ones (pi18.npy, pi19.npy)."
        )
    if wanted(target, FIGURES) and not can_draw():
        say("\nNo figures were drawn: they need pip install 'deadweight[figures]'.")
    tell(f"\nTables, figures, rows and the ledger (ledger.md) are in '{work.folder}'.")


@contextmanager
def _progress() -> Iterator[Callable[[float, float, str], None]]:
    """A bar with the time left, on standard error."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=120) as bar:
        task = bar.add_task("starting", total=None)

        def advance(done: float, total: float, what: str) -> None:
            bar.update(task, completed=done, total=total or 1.0, description=what or "starting")
            if total == 0:
                bar.update(task, completed=1.0, description="all runs were there")

        yield advance
