"""Everything that is written for a target: tables, figures, and the ledger of all results in the folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from deadweight.basics.atomic import write_text, writing
from deadweight.records import last_made_with, remarks
from deadweight.studies.reproduction import ledger, tables
from deadweight.studies.reproduction.cells import Cell, cells
from deadweight.studies.reproduction.experiment_rows import RowStore
from deadweight.studies.reproduction.figures import can_draw, draw
from deadweight.studies.reproduction.protocols import BASES, protocol
from deadweight.studies.reproduction.results import Results
from deadweight.studies.reproduction.run import Work, made_with
from deadweight.studies.reproduction.spec import EXPERIMENTS, FIGURES, TABLES

Found = dict[str, dict[str, Results]]  # protocol, then experiment


def wanted(target: str, kind: Iterable[str]) -> list[str]:
    """The tables, or figures, of a target."""
    return [name for name in kind if target in (name, "all")]


def found_in(
    work: Work, stores: dict[str, RowStore], tell: Callable[[str], None] = lambda line: None
) -> Found:
    """Results of all protocols in the folder: the runs asked for and, of all else, what is there.

    Damage in what was not asked for goes to `tell`; it is made again when it is asked for.
    """
    kept = {path.name for path in (work.folder / "rows").iterdir() if path.is_dir()}
    # The two whole protocols first, ablations after them.
    names = sorted(
        kept | {work.protocol.name}, key=lambda name: (name not in BASES, name == "corrected", name)
    )
    found: Found = {}
    others = []
    for name in names:
        for experiment in EXPERIMENTS:
            asked = stores.get(experiment) if name == work.protocol.name else None
            store = asked or _kept(work, name, experiment)
            if store is None:
                continue
            if asked is None:
                others.append(store.records)
            results = Results(store, protocol(name), work.runs if asked else None)
            if results.runs > 0:
                found.setdefault(name, {})[experiment] = results
    for line in remarks(others):
        tell(line)
    return found


def _kept(work: Work, protocol_name: str, experiment: str) -> RowStore | None:
    """What is kept of an experiment that was not asked for, if this version made it."""
    last = last_made_with(RowStore.records_file(work.folder, protocol_name, experiment))
    if last is None or last != made_with(protocol_name, experiment, last.get("policies", "own")):
        return None
    return RowStore(work.folder, last)


def publish(
    target: str, work: Work, stores: dict[str, RowStore], tell: Callable[[str], None] = lambda line: None
) -> dict[str, list[Cell]]:
    """Write all files of a target; return the cells of its tables under the protocol that was asked for."""
    found = found_in(work, stores, tell)
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
            _write(work.folder / f"{name}{suffix}", render(table, filled))
        shown[name] = cells(table, found[work.protocol.name][table.experiment])
    for name in wanted(target, FIGURES) if can_draw() else ():
        figure = FIGURES[name]
        complete = [each for each in found.values() if all(panel in each for _, panel, _ in figure.panels)]
        draw(figure, work.folder, complete)
    write_ledger(work.folder, found)
    return shown


def write_ledger(folder: Path, found: Found) -> None:
    """The ledger of everything in the folder."""
    _write(folder / "ledger.md", ledger.as_markdown(found))
    _write(folder / "ledger.csv", ledger.as_csv(found))


def _write(path: Path, text: str) -> None:
    with writing(path):
        write_text(path, text)
