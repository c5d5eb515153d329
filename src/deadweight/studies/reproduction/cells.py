"""Cells: a table's numbers beside the paper's, with a verdict on each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from deadweight.studies.reproduction.measure import BOUNDS
from deadweight.studies.reproduction.paper import RUNS, printed
from deadweight.studies.reproduction.protocols import touching
from deadweight.studies.reproduction.results import Mean, Results
from deadweight.studies.reproduction.spec import Table

EXACT_MATCH, WITHIN_ERROR, DIFFERS, NOT_PRINTED = "exact", "within error", "differs", ""
HALF_A_DIGIT = 0.5e-4 * (1 + 1e-9)
SINGLE_PRECISION = 5e-7  # the paper's taxi code computes in float32
STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class Cell:
    """One number of a table."""

    row: int
    estimator: str
    column: str
    measured: Mean
    paper: float | None
    verdict: str
    mark: int = 0  # 1 for the best of its row, 2 for the second, ...


def verdict(measured: Mean, paper: float | None, runs: int, paper_runs: int) -> str:
    """Whether a measured number is the printed one.

    "exact" when it rounds to it; "within error" when they are at most three standard errors of their
    difference apart, taking the paper's number for a mean over its own independent runs, and no further than
    that number itself, or any error would agree if its own error is large enough; else "differs".

    >>> verdict(Mean(0.00672, 0.001), 0.0067, 50, 50), verdict(Mean(0.008, 0.001), 0.0067, 50, 50)
    ('exact', 'within error')
    """
    if paper is None:
        return NOT_PRINTED
    apart = abs(measured.value - paper)
    if apart <= HALF_A_DIGIT + SINGLE_PRECISION * abs(paper):
        return EXACT_MATCH
    spread = measured.std_error * math.sqrt(1.0 + runs / paper_runs)
    return WITHIN_ERROR if apart <= min(STANDARD_ERRORS * spread, paper) else DIFFERS


def cells(table: Table, results: Results) -> list[Cell]:
    """All cells of a table, row by row, the estimators that the paper left out last."""
    columns = list(table.columns)
    if table.with_extras and results.protocol.with_extras:
        extras = ["BEHAVIOUR", *(column.label for column in results.experiment.extras), *BOUNDS]
        columns += [(label, label) for label in extras]
    found = []
    for row in results.experiment.settings:
        cells_of_row = []
        for position, (label, column) in enumerate(columns):
            measured = results.mse(row, column, table.normalised)
            paper = printed(table.name, row, position)
            judged = verdict(measured, paper, results.runs, RUNS[table.experiment])
            cells_of_row.append(Cell(row, label, column, measured, paper, judged))
        found += _marked(cells_of_row, table.marks)
    return found


def _marked(row: list[Cell], marks: int) -> list[Cell]:
    """The row with its best cells marked; equal numbers share a mark, and use up the next ones."""
    ranked = sorted(_comparable(cell) for cell in row if cell.column not in BOUNDS)
    places = [len(ranked) if cell.column in BOUNDS else ranked.index(_comparable(cell)) for cell in row]
    return [
        replace(cell, mark=place + 1) if place < marks else cell
        for cell, place in zip(row, places, strict=True)
    ]


def _comparable(cell: Cell) -> float:
    """The number without the digits that rounding leaves to chance."""
    return float(f"{cell.measured.value:.10g}")


def reason(cell: Cell, results: Results) -> str:
    """What a difference to the paper comes from, as far as it is known."""
    if cell.verdict != DIFFERS:
        return ""
    if results.protocol.base == "corrected":
        column = results.experiment.column(cell.column)
        return " ".join(
            switch for switch in touching(results.experiment, column) if not results.protocol.has(switch)
        )
    if results.experiment.name == "inventory":
        return "pi_e of the paper is not public"
    if results.experiment.name == "taxi" and not results.given_policies:
        return "own policies (the paper's: --policies)"
    heavy = results.heaviest(cell.column)
    if heavy > 0.1:
        return f"heavy tail: one run in {results.runs} carries up to {heavy:.0%} of the summed error"
    return "other random numbers" if results.experiment.name == "stochastic-lift" else ""
