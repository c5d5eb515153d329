"""Everything that is written for a target: tables, figures, and the ledger of all results in the folder."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from deadweight.errors import MissingExtra
from deadweight.tools.files import write_text, write_whole, writing
from deadweight_studies.records import last_made_with, remarks
from deadweight_studies.reproduction import tables
from deadweight_studies.reproduction.claims import CLAIMS
from deadweight_studies.reproduction.run import RowStore, Work, made_with
from deadweight_studies.reproduction.spec import (
    EXPERIMENTS,
    FIGURES,
    SOURCE,
    STATE_BASED,
    TABLES,
    Figure,
    Table,
)
from deadweight_studies.reproduction.tables import (
    DIFFERS,
    EXACT_MATCH,
    WITHIN_ERROR,
    Cell,
    Mean,
    Results,
    cells,
    command,
    number,
    reason,
    rows_file,
)
from deadweight_studies.reproduction.worlds import BASES, DISCREPANCIES, RELATIVE_EPSILON
from deadweight_studies.reproduction.worlds import protocol as protocol_named

# --- The ledger: every cell and every claim of the paper beside what was measured

PROTOCOLS = ("published", "corrected")
HEADER = (
    "table", "row", "estimator", "paper",
    "published", "published_std_error", "published_verdict", "published_reason",
    "corrected", "corrected_std_error", "corrected_verdict", "corrected_reason",
)  # fmt: skip

Finished = Mapping[str, Mapping[str, Results]]  # protocol, then experiment


@dataclass(frozen=True)
class Line:
    """A cell of the paper under the protocols that were run."""

    table: str
    row: int
    estimator: str
    paper: float
    cells: Mapping[str, tuple[Cell, str]]  # by protocol, with the reason of a difference


def lines(finished: Finished) -> list[Line]:
    """Every cell that the paper prints and that was measured."""
    return [line for table in TABLES.values() for line in _lines_of(table, finished)]


def _lines_of(table: Table, finished: Finished) -> list[Line]:
    by_cell: dict[tuple[int, str, float], dict[str, tuple[Cell, str]]] = {}
    for protocol in PROTOCOLS:
        results = finished.get(protocol, {}).get(table.experiment)
        if results is None:
            continue
        for cell in cells(table, results):
            if cell.paper is not None:
                key = (cell.row, cell.estimator, cell.paper)
                by_cell.setdefault(key, {})[protocol] = (cell, reason(cell, results))
    return [Line(table.name, *key, both) for key, both in by_cell.items()]


def as_csv(finished: Finished) -> str:
    """One line a cell of the paper."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for line in lines(finished):
        fields: list[object] = [line.table, line.row, line.estimator, line.paper]
        for protocol in PROTOCOLS:
            fields += _fields(line.cells.get(protocol))
        writer.writerow(fields)
    return out.getvalue()


def _fields(entry: tuple[Cell, str] | None) -> list[str]:
    if entry is None:
        return ["", "", "", ""]
    cell, why = entry
    error = "" if math.isnan(cell.measured.std_error) else repr(cell.measured.std_error)
    return [repr(cell.measured.value), error, cell.verdict, why]


def as_markdown(finished: Finished) -> str:
    """The ledger as a page."""
    every = lines(finished)
    return "\n".join(
        [
            "# Ledger: what the paper prints, and what comes out",
            "",
            f"Source: {SOURCE}.",
            "",
            *_made_by(finished),
            "",
            *_summary(every),
            "",
            *_claims(finished),
            "",
            *_discrepancies(),
            "",
            *_figures(finished),
            "## Cells",
            "",
            "± is the Monte-Carlo standard error over the runs. A cell is *exact* when it rounds to the "
            "printed number, *within error* when it is at most three standard errors of the difference away "
            "from it (the paper's number being a mean over its own runs) and at most twice as large. Where "
            "errors have heavy tails the standard error, and so this limit, is too small.",
            "",
            *(text for table in TABLES.values() for text in _section(table, every)),
        ]
    )


def _made_by(finished: Finished) -> list[str]:
    text = ["Made by:", ""]
    for protocol, experiments in finished.items():
        for name, results in experiments.items():
            tables = [table.name for table in TABLES.values() if table.experiment == name]
            origin = f"`{command(tables[0], results)}`, rows in `{rows_file(results)}`"
            text.append(f"- {name}, {protocol}, {results.runs} runs: {origin}")
            if name == "taxi" and not results.given_policies:
                text[-1] += " (the package's own policies, not the paper's)"
    return text


def _summary(every: Sequence[Line]) -> list[str]:
    text = [
        "## Summary",
        "",
        "| table | protocol | cells | exact | within error | differ |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for table in TABLES:
        for protocol in PROTOCOLS:
            verdicts = [
                line.cells[protocol][0].verdict
                for line in every
                if line.table == table and protocol in line.cells
            ]
            if verdicts:
                counts = [verdicts.count(each) for each in (EXACT_MATCH, WITHIN_ERROR, DIFFERS)]
                text.append(
                    f"| {table} | {protocol} | {len(verdicts)} | {counts[0]} | {counts[1]} | {counts[2]} |"
                )
    return text


def _claims(finished: Finished) -> list[str]:
    text = [
        "## Claims",
        "",
        "| where | claim | published | numbers | corrected | numbers |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for claim in CLAIMS:
        parts = []
        for protocol in PROTOCOLS:
            results = finished.get(protocol, {}).get(claim.experiment)
            finding = None if results is None else claim.check(results)
            parts += ["", ""] if finding is None else [finding.verdict, finding.numbers]
        if any(parts):
            text.append("| " + " | ".join([claim.where, claim.text, *parts]) + " |")
    return text


def _discrepancies() -> list[str]:
    return [
        "## Discrepancies",
        "",
        "Where the authors' code departs from the text or from the equations. `published` has all of them, "
        "`corrected` none; `--protocol published-D3` leaves one out, `--protocol corrected+D3` adds one.",
        "",
        *(f"- **{name}** {text}" for name, text in DISCREPANCIES.items()),
        "",
        f"Without D8 the threshold of the Q gap is {RELATIVE_EPSILON:.0%} of the range of the fitted mean "
        "reward, which is Q at the last step.",
    ]


def _figures(finished: Finished) -> list[str]:
    text = []
    for figure in FIGURES.values():
        if any(all(name in experiments for _, name, _ in figure.panels) for experiments in finished.values()):
            text += [f"![{figure.title}]({figure.name}.svg)", ""]
    return ["## Figures", "", *text] if text else []


def _section(table: Table, every: Sequence[Line]) -> list[str]:
    of_table = [line for line in every if line.table == table.name]
    if not of_table:
        return []
    text = [
        f"### {table.name}: {table.title}",
        "",
        "| row | estimator | paper | published | verdict | corrected | verdict | explained by |",
        "| --- | --- | ---: | ---: | --- | ---: | --- | --- |",
    ]
    for line in of_table:
        parts, reasons = [], []
        for protocol in PROTOCOLS:
            entry = line.cells.get(protocol)
            parts += ["", ""] if entry is None else [_measured(entry[0]), entry[0].verdict]
            if entry is not None and entry[1]:
                reasons.append(entry[1])
        fields = [str(line.row), line.estimator, number(line.paper), *parts, "; ".join(reasons)]
        text.append("| " + " | ".join(fields) + " |")
    return [*text, ""]


def _measured(cell: Cell) -> str:
    error = cell.measured.std_error
    return number(cell.measured.value) + (f" ± {error:.2g}" if error > 0 else "")


# --- Figures

COLOURS = {"IS": "#0072B2", "PDIS": "#D55E00", "INCRIS": "#009E73", "SDRE": "#CC79A7", "DR": "#7F6000"}
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "deadweight",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
STATE_BASED_NAMES = frozenset(STATE_BASED.values())


def can_draw() -> bool:
    """Whether the plotting library is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def draw(figure: Figure, folder: Path, protocols: Sequence[Mapping[str, Results]]) -> list[Path]:
    """Write a figure as SVG and PDF and return the paths: a row of panels for each protocol's results.

    It shows residuals, mean and standard error over the runs, against the setting, as in Appendix F. The same
    results give the same bytes: no dates, and fixed identifiers in the SVG.
    """
    if not can_draw():
        raise MissingExtra("Drawing figures", "figures")
    import matplotlib
    from matplotlib.figure import Figure as Picture

    commands = [command(figure.name, results[figure.panels[0][1]]) for results in protocols]
    about = f"{figure.title}; made by: {'; '.join(commands)}"
    written = []
    with matplotlib.rc_context(STYLE):
        shape = (len(protocols), len(figure.panels))
        picture = Picture(figsize=(6.2 * shape[1], 3.6 * shape[0]), layout="constrained")
        grid = picture.subplots(*shape, squeeze=False)
        for line, results in zip(grid, protocols, strict=True):
            for axes, (letter, experiment, labels) in zip(line, figure.panels, strict=True):
                _panel(axes, letter, results[experiment], labels)
        for kind, dateless in (
            ("svg", {"Date": None, "Description": about}),
            ("pdf", {"CreationDate": None}),
        ):
            metadata = {"Title": about, **dateless}
            path = folder / f"{figure.name}.{kind}"
            with writing(path):
                write_whole(path, partial(picture.savefig, format=kind, metadata=metadata))
            written.append(path)
    return written


def _panel(axes: Any, letter: str, results: Results, labels: tuple[str, ...]) -> None:
    settings = results.experiment.settings
    for i, label in enumerate(labels):
        residuals = [Mean.of(results.residuals(setting, label)) for setting in settings]
        state_based = label in STATE_BASED_NAMES
        axes.errorbar(
            [k + (i - (len(labels) - 1) / 2) * 0.06 for k in range(len(settings))],
            [residual.value for residual in residuals],
            [residual.std_error for residual in residuals],
            label=label,
            color=_colour(label),
            linestyle="-" if state_based else "--",
            marker="o" if state_based else "s",
            markerfacecolor=_colour(label) if state_based else "white",
            markersize=4,
            linewidth=1.0,
            capsize=2,
        )
    axes.axhline(0.0, color="black", linewidth=0.6)
    axes.set_xticks(range(len(settings)), [str(setting) for setting in settings])
    axes.set_xlabel(results.experiment.setting)
    axes.set_ylabel("estimate - reference")
    title = f"{results.experiment.title}, {results.protocol.name}, {results.runs} runs"
    axes.set_title(f"({letter}) {title}" if letter else title, fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _colour(label: str) -> str:
    for plain, state_based in STATE_BASED.items():
        if label in (plain, state_based):
            return COLOURS[plain.removeprefix("W")]
    return "black"


# --- All files of a target


def wanted(target: str, kind: Iterable[str]) -> list[str]:
    """The tables, or figures, of a target."""
    return [name for name in kind if target in (name, "all")]


def found_in(
    work: Work, stores: dict[str, RowStore], tell: Callable[[str], None] = lambda line: None
) -> Finished:
    """Results of all protocols in the folder: the runs asked for and, of all else, what is there.

    Damage in what was not asked for goes to `tell`; it is made again when it is asked for.
    """
    kept = {path.name for path in (work.folder / "rows").iterdir() if path.is_dir()}
    # The two whole protocols first, ablations after them.
    names = sorted(
        kept | {work.protocol.name}, key=lambda name: (name not in BASES, name == "corrected", name)
    )
    finished: dict[str, dict[str, Results]] = {}
    others = []
    for name in names:
        for experiment in EXPERIMENTS:
            asked = stores.get(experiment) if name == work.protocol.name else None
            store = asked or _kept(work, name, experiment)
            if store is None:
                continue
            if asked is None:
                others.append(store.records)
            results = Results(store, protocol_named(name), work.runs if asked else None)
            if results.runs > 0:
                finished.setdefault(name, {})[experiment] = results
    for line in remarks(others):
        tell(line)
    return finished


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
    finished = found_in(work, stores, tell)
    shown = {}
    for name in wanted(target, TABLES):
        table = TABLES[name]
        filled = [
            (each[table.experiment], cells(table, each[table.experiment]))
            for each in finished.values()
            if table.experiment in each
        ]
        for suffix, render in (
            (".csv", tables.as_csv),
            (".md", tables.as_markdown),
            (".tex", tables.as_latex),
        ):
            _write(work.folder / f"{name}{suffix}", render(table, filled))
        shown[name] = cells(table, finished[work.protocol.name][table.experiment])
    for name in wanted(target, FIGURES) if can_draw() else ():
        figure = FIGURES[name]
        complete = [each for each in finished.values() if all(panel in each for _, panel, _ in figure.panels)]
        draw(figure, work.folder, complete)
    write_ledger(work.folder, finished)
    return shown


def write_ledger(folder: Path, finished: Finished) -> None:
    """The ledger of everything in the folder."""
    _write(folder / "ledger.md", as_markdown(finished))
    _write(folder / "ledger.csv", as_csv(finished))


def _write(path: Path, text: str) -> None:
    with writing(path):
        write_text(path, text)
