"""Everything that is written for a target: tables, figures, and the ledger of all results in the folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from deadweight._version import __version__
from deadweight.experiments import ledger, tables
from deadweight.experiments.cells import Cell, cells
from deadweight.experiments.figures import can_draw, draw
from deadweight.experiments.protocols import BASES, protocol
from deadweight.experiments.results import Results
from deadweight.experiments.run import Work
from deadweight.experiments.spec import EXPERIMENTS, FIGURES, TABLES
from deadweight.experiments.store import Store, write_text

Found = dict[str, dict[str, Results]]  # protocol, then experiment


def wanted(target: str, kind: Iterable[str]) -> list[str]:
    """The tables, or figures, of a target."""
    return [name for name in kind if target in (name, "all")]


def found_in(work: Work, stores: dict[str, Store]) -> Found:
    """Results of all protocols in the folder: the runs asked for and, of all else, what is there."""
    kept = {path.name for path in (work.folder / "rows").iterdir() if path.is_dir()}
    # The two whole protocols first, ablations after them.
    names = sorted(
        kept | {work.protocol.name}, key=lambda name: (name not in BASES, name == "corrected", name)
    )
    found: Found = {}
    for name in names:
        for experiment in EXPERIMENTS:
            asked = stores.get(experiment) if name == work.protocol.name else None
            store = asked or Store(work.folder, name, experiment, None)
            if asked is None and store.made_with().get("version") != __version__:
                continue
            results = Results(store, protocol(name), work.runs if asked else None)
            if results.runs > 0:
                found.setdefault(name, {})[experiment] = results
    return found


def publish(target: str, work: Work, stores: dict[str, Store]) -> dict[str, list[Cell]]:
    """Write all files of a target; return the cells of its tables under the protocol that was asked for."""
    found = found_in(work, stores)
    shown = {}
    for name in wanted(target, TABLES):
        table = TABLES[name]
        filled = [
            (each[table.experiment], cells(table, each[table.experiment]))
            for each in found.values()
            if table.experiment in each
        ]
        for suffix, render in (
            (".csv", tables.as_csv),
            (".md", tables.as_markdown),
            (".tex", tables.as_latex),
        ):
            write_text(work.folder / f"{name}{suffix}", render(table, filled))
        shown[name] = cells(table, found[work.protocol.name][table.experiment])
    for name in wanted(target, FIGURES) if can_draw() else ():
        figure = FIGURES[name]
        complete = [each for each in found.values() if all(panel in each for _, panel, _ in figure.panels)]
        draw(figure, work.folder, complete)
    write_ledger(work.folder, found)
    return shown


def write_ledger(folder: Path, found: Found) -> None:
    """The ledger of everything in the folder."""
    write_text(folder / "ledger.md", ledger.as_markdown(found))
    write_text(folder / "ledger.csv", ledger.as_csv(found))
