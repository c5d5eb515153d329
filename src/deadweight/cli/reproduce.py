"""`deadweight reproduce`: the paper's tables and figures, made again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deadweight.cli.output import say, tell, tell_words
from deadweight.cli.terminal_tables import print_table
from deadweight.errors import MissingExtra, OptionError, did_you_mean
from deadweight.studies.reproduction.cells import Cell
from deadweight.studies.reproduction.figures import can_draw
from deadweight.studies.reproduction.protocols import protocol as read_protocol
from deadweight.studies.reproduction.publish import publish, wanted
from deadweight.studies.reproduction.run import Work, carry_out
from deadweight.studies.reproduction.spec import EXPERIMENTS, FIGURES, TABLES, TARGETS, experiments_of
from deadweight.studies.reproduction.tables import number, summary


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
        _show(name, work, cells)
    _remarks(target, work)


def _show(name: str, work: Work, cells: Sequence[Cell]) -> None:
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
