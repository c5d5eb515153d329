"""What the commands of `deadweight_studies.commands` do: study, coverage, benchmark and reproduce."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from deadweight._version import __version__
from deadweight.cli.process import out_json, print_table, say, tell, tell_words
from deadweight.errors import MissingExtra, OptionError, did_you_mean
from deadweight.sums.kernel import in_use
from deadweight.tools.files import write_text, writing
from deadweight_studies.benchmark.cases import CASES, ONLY_IF_NAMED
from deadweight_studies.reproduction.publish import can_draw, publish, wanted
from deadweight_studies.reproduction.run import Work, carry_out
from deadweight_studies.reproduction.spec import EXPERIMENTS, FIGURES, TABLES, TARGETS, experiments_of
from deadweight_studies.reproduction.tables import Cell, number, summary
from deadweight_studies.reproduction.worlds import protocol as read_protocol
from deadweight_studies.study import Runs

# By name, the file that has it.
STUDIES = {
    "headline": "headline",
    "improve": "improvement",
    "compare": "comparison",
    "automatic": "automatic",
    "doubts": "doubts",
    "ends": "ends",
    "features": "features",
    "mixtures": "mixtures",
    "cuts": "cuts",
    "sepsis": "sepsis",
}
# Studies of which some cells can be asked for by name, with one of these.
WITH_CELLS = {"headline": "toxic dose, n = 400", "improve": "toxic dose", "compare": "toxic dose x 5"}


def study(name: str, runs: int, workers: int, out: Path, only: Sequence[str] = ()) -> None:
    """Make the runs that are not there yet, print the table, and write it beside them."""
    if name not in STUDIES:
        raise OptionError(
            f"There is no study {name!r}.{did_you_mean(name, STUDIES)}", fix=f"Studies: {', '.join(STUDIES)}."
        )
    if only and name not in WITH_CELLS:
        raise OptionError(
            f"--only chooses cells of {', '.join(WITH_CELLS)}; {name} has none.", fix="Leave --only out."
        )
    asked: Any = import_module(f"deadweight_studies.{STUDIES[name]}").STUDY
    known = asked.cells() if only else ()
    for cell in only:
        if cell not in known:
            raise OptionError(
                f"{name} has no cell {cell!r}.{did_you_mean(cell, known)}",
                fix=f"A cell is named as in the table of the study, such as {WITH_CELLS[name]!r}.",
            )
    if name == "headline":
        headline(out / name, runs, workers, only)
        return
    lines = []
    for line in asked.lines(out / name, runs, workers, say, only or None):
        lines.append(line)
        if words := asked.words(line):
            say(words)
    _show(out / name, asked.table(lines))


def _show(folder: Path, text: str) -> None:
    tell(text)
    with writing(folder / "table.md"):
        write_text(folder / "table.md", text)


def headline(folder: Path, runs: int, workers: int, only: Sequence[str] = ()) -> None:
    """BLEND and the rows beside it, in all cells or those named: coverage, width, error, verdicts."""
    from deadweight_studies.headline import STUDY
    from deadweight_studies.headline_tables import write_headline

    _make(STUDY, folder, runs, workers, only)
    tell(write_headline(folder, runs))


def coverage(runs: int, workers: int, out: Path) -> None:
    """How often every kind of interval covers, on problems whose answer is known; and the headline's."""
    from deadweight_studies.coverage import STUDY, write_tables

    _make(STUDY, out, runs, workers)
    tell(write_tables(out, runs))
    tell()
    headline(out / "headline", runs, workers)


def _make(study: Runs, folder: Path, runs: int, workers: int, only: Sequence[str] = ()) -> None:
    """Make what is missing, and count the cells aloud."""
    total = len(only or study.cells())
    for k, (name, _) in enumerate(study.make(folder, runs, workers, say, only or None), start=1):
        say(f"{k} of {total} cells: {name}")


# --- Timings against plain references


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
    results = []
    for name in names:
        say(f"{name} ...")
        results += [(name, result) for result in CASES[name](scale)]
    if as_json:
        out_json({**head, "results": [{"case": name, **vars(result)} for name, result in results]})
    else:
        rows = [(result.name, result.measured, result.aim) for _, result in results]
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


# --- The paper's tables and figures


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
