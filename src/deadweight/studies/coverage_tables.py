"""The coverage study as tables: how often each interval held its target, and how wide it was."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deadweight.basics.atomic import write_text, writing
from deadweight.studies.interval_coverage import AUTO, Row, stores
from deadweight.studies.runs import first_runs

HEADINGS = ("cell", "runs", "estimator", "interval", "covers", "coverage", "std_error", "median_width")

ANSWERS = ("right", "cannot tell", "wrong")


@dataclass(frozen=True)
class Line:
    """One kind of interval of one estimator in one cell."""

    cell: str
    runs: int
    estimator: str
    interval: str
    covers: str
    coverage: float
    std_error: float
    median_width: float


Shares = dict[str, dict[str, str]]


def summarise(out: Path, runs: int | None = None) -> tuple[list[Line], Shares, Shares]:
    """Of the first `runs` runs: lines, and by cell the shares of wrong "better" and of other verdicts."""
    lines: list[Line] = []
    better: Shares = {}
    verdicts: Shares = {}
    for cell, store in sorted(stores(out).items(), key=lambda item: item[1].path):
        records = first_runs(store, runs)
        if not records:
            continue
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for record in records:
            for values in record["rows"]:
                row = Row(*values)
                groups[row.estimator, row.interval].append(row)
        for (estimator, interval), rows in groups.items():
            share = float(np.mean([row.covered for row in rows]))
            error = float(np.sqrt(share * (1 - share) / len(rows)))
            width = float(np.median([row.upper - row.lower for row in rows]))
            covers = "V(mu_D)" if estimator == "SIS" else "V(pi_e)"
            lines.append(Line(cell, len(rows), estimator, interval, covers, share, error, width))
        names = records[0]["better"]
        better[cell] = {name: f"{np.mean([r['better'][name] for r in records]):.3f}" for name in names}
        verdicts[cell] = {
            name: " / ".join(
                f"{np.mean([r['verdicts'][name] == answer for r in records]):.3f}" for answer in ANSWERS
            )
            for name in AUTO
        }
    return lines, better, verdicts


def write_tables(out: Path, runs: int | None = None) -> str:
    """Write coverage.csv and coverage.md into the folder; returns the text of the second."""
    lines, better, verdicts = summarise(out, runs)
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(HEADINGS)
    writer.writerows([getattr(line, heading) for heading in HEADINGS] for line in lines)
    tables = [
        _wide(lines, "coverage"),
        _wide(lines, "median_width"),
        _shares('wrongly "better"', better),
        _shares(" / ".join(ANSWERS), verdicts),
    ]
    text = "\n\n".join(tables)
    with writing(out / "coverage.md"):
        write_text(out / "coverage.csv", table.getvalue())
        write_text(out / "coverage.md", text + "\n")
    return text


def _wide(lines: list[Line], what: str) -> str:
    """A Markdown table with a row a cell and a column for each estimator and interval."""
    columns = list(dict.fromkeys((line.interval, line.estimator) for line in lines))
    cells = list(dict.fromkeys(line.cell for line in lines))
    found = {(line.cell, line.interval, line.estimator): getattr(line, what) for line in lines}
    form = "{:.3f}" if what == "coverage" else "{:.3g}"
    heads = [what.replace("_", " "), *(f"{interval} {estimator}" for interval, estimator in columns)]
    rows = [[cell, *(form.format(found[cell, *column]) for column in columns)] for cell in cells]
    return markdown(heads, rows)


def _shares(heading: str, by_cell: Shares) -> str:
    names = list(next(iter(by_cell.values()), {}))
    return markdown([heading, *names], [[cell, *shares.values()] for cell, shares in by_cell.items()])


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
