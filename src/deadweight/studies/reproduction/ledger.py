"""The ledger: every cell and every claim of the paper beside what was measured, with a verdict on each."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deadweight.studies.reproduction.cells import DIFFERS, EXACT_MATCH, WITHIN_ERROR, Cell, cells, reason
from deadweight.studies.reproduction.claims import CLAIMS
from deadweight.studies.reproduction.paper import SOURCE
from deadweight.studies.reproduction.protocols import DISCREPANCIES, RELATIVE_EPSILON
from deadweight.studies.reproduction.results import Results
from deadweight.studies.reproduction.spec import FIGURES, TABLES, Table
from deadweight.studies.reproduction.tables import command, number, rows_file

PROTOCOLS = ("published", "corrected")
HEADER = (
    "table", "row", "estimator", "paper",
    "published", "published_std_error", "published_verdict", "published_reason",
    "corrected", "corrected_std_error", "corrected_verdict", "corrected_reason",
)  # fmt: skip

Found = Mapping[str, Mapping[str, Results]]  # protocol, then experiment


@dataclass(frozen=True)
class Line:
    """A cell of the paper under the protocols that were run."""

    table: str
    row: int
    estimator: str
    paper: float
    cells: Mapping[str, tuple[Cell, str]]  # by protocol, with the reason of a difference


def lines(found: Found) -> list[Line]:
    """Every cell that the paper prints and that was measured."""
    return [line for table in TABLES.values() for line in _lines_of(table, found)]


def _lines_of(table: Table, found: Found) -> list[Line]:
    by_cell: dict[tuple[int, str, float], dict[str, tuple[Cell, str]]] = {}
    for protocol in PROTOCOLS:
        results = found.get(protocol, {}).get(table.experiment)
        if results is None:
            continue
        for cell in cells(table, results):
            if cell.paper is not None:
                key = (cell.row, cell.estimator, cell.paper)
                by_cell.setdefault(key, {})[protocol] = (cell, reason(cell, results))
    return [Line(table.name, *key, both) for key, both in by_cell.items()]


def as_csv(found: Found) -> str:
    """One line a cell of the paper."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for line in lines(found):
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


def as_markdown(found: Found) -> str:
    """The ledger as a page."""
    every = lines(found)
    return "\n".join(
        [
            "# Ledger: what the paper prints, and what comes out",
            "",
            f"Source: {SOURCE}.",
            "",
            *_made_by(found),
            "",
            *_summary(every),
            "",
            *_claims(found),
            "",
            *_discrepancies(),
            "",
            *_figures(found),
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


def _made_by(found: Found) -> list[str]:
    made = ["Made by:", ""]
    for protocol, experiments in found.items():
        for name, results in experiments.items():
            tables = [table.name for table in TABLES.values() if table.experiment == name]
            origin = f"`{command(tables[0], results)}`, rows in `{rows_file(results)}`"
            made.append(f"- {name}, {protocol}, {results.runs} runs: {origin}")
            if name == "taxi" and not results.given_policies:
                made[-1] += " (the package's own policies, not the paper's)"
    return made


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


def _claims(found: Found) -> list[str]:
    text = [
        "## Claims",
        "",
        "| where | claim | published | numbers | corrected | numbers |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for claim in CLAIMS:
        parts = []
        for protocol in PROTOCOLS:
            results = found.get(protocol, {}).get(claim.experiment)
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


def _figures(found: Found) -> list[str]:
    text = []
    for figure in FIGURES.values():
        if any(all(name in experiments for _, name, _ in figure.panels) for experiments in found.values()):
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
