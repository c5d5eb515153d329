"""Tables as Markdown, as CSV in long form, and as LaTeX with the paper's marks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from deadweight.errors import how_many
from deadweight.typing import FloatArray
from deadweight_studies.reproduction.run import BOUNDS, EXACT, REFERENCE, SAMPLED_RETURN, RowStore, run_count
from deadweight_studies.reproduction.spec import EXPERIMENTS, LABELS, RUNS, SOURCE, Experiment, Table, printed
from deadweight_studies.reproduction.worlds import Protocol, touching

# --- Results


@dataclass(frozen=True)
class Mean:
    """A mean over runs and its standard error; NaN where there is one run only."""

    value: float
    std_error: float

    @classmethod
    def of(cls, values: FloatArray) -> Mean:
        """The mean of one number a run."""
        spread = float(values.std(ddof=1)) if values.size > 1 else math.nan
        return cls(float(values.mean()), spread / math.sqrt(values.size))


class Results:
    """The first runs of every setting of an experiment under one protocol, and the errors that they show.

    Args:
      store: the rows.
      protocol: the protocol that they were made under.
      runs: at most so many runs of each setting; None for all.
    """

    def __init__(self, store: RowStore, protocol: Protocol, runs: int | None = None) -> None:
        self.experiment: Experiment = store.experiment
        self.protocol = protocol
        self.given_policies = store.made_with["policies"] != "own"
        self._rows = store.runs
        wanted = run_count(self.experiment, runs)
        complete = [self._consecutive(setting, wanted) for setting in self.experiment.settings]
        self.runs: int = min(complete)

    def _consecutive(self, setting: int, most: int) -> int:
        """How many runs of a setting are there without a gap, its exact values among them."""
        if (setting, EXACT) not in self._rows:
            return 0
        return next((run for run in range(most) if (setting, run) not in self._rows), most)

    @cached_property
    def _values(self) -> dict[tuple[int, str], FloatArray]:
        """(runs, 3) of each setting and column: value, states dropped, share of steps dropped."""
        numbers: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
        for setting in self.experiment.settings:
            for run in range(self.runs):
                for row in self._rows[setting, run]:
                    values = (row.value, float(row.n_dropped), row.dropped_share)
                    numbers.setdefault((setting, row.column), []).append(values)
        return {key: np.array(rows) for key, rows in numbers.items()}

    def exact(self, setting: int, name: str) -> float:
        """A number that is known without sampling; NaN where this protocol does not ask for it."""
        rows = self._rows[setting, EXACT]
        return next((row.value for row in rows if row.column == name), math.nan)

    def has(self, label: str) -> bool:
        """Whether there are numbers of the column."""
        return label in BOUNDS or (self.experiment.settings[0], label) in self._values

    def values(self, setting: int, label: str) -> FloatArray:
        """(runs,) estimates."""
        return self._values[setting, label][:, 0]

    def n_dropped(self, setting: int, label: str) -> float:
        """Mean number of visited states that were dropped."""
        return float(self._values[setting, label][:, 1].mean())

    def dropped_share(self, setting: int, label: str) -> float:
        """Mean share of the steps whose ratio was dropped."""
        return float(self._values[setting, label][:, 2].mean())

    def reference(self, setting: int) -> float:
        """What the estimates are compared with."""
        sampled = self._values.get((setting, SAMPLED_RETURN))
        return self.exact(setting, REFERENCE) if sampled is None else float(sampled[:, 0].mean())

    def residuals(self, setting: int, label: str) -> FloatArray:
        """(runs,) estimate minus reference."""
        return self.values(setting, label) - self.reference(setting)

    def squares(self, setting: int, label: str, normalised: bool = False) -> FloatArray:
        """(runs,) squared errors, divided by the squared reference if `normalised`."""
        if self.protocol.has("D11") and self.experiment.name == "taxi":
            a_step = self.values(setting, label) / setting - self.reference(setting) / setting
            squares: FloatArray = np.square(a_step) * setting**2
        else:
            squares = np.square(self.residuals(setting, label))
        return squares / self.reference(setting) ** 2 if normalised else squares

    def mse(self, setting: int, label: str, normalised: bool = False) -> Mean:
        """Mean squared error with its Monte-Carlo error; Cramer-Rao bounds are known exactly."""
        if label in BOUNDS:
            scale = self.reference(setting) ** 2 if normalised else 1.0
            return Mean(self.exact(setting, label) / scale, 0.0)
        return Mean.of(self.squares(setting, label, normalised))

    def ranking(self, setting: int, labels: tuple[str, ...]) -> list[str]:
        """Labels from the smallest error to the largest."""
        return sorted(labels, key=lambda label: self.mse(setting, label).value)

    def win_rate(self, setting: int, better: str, worse: str) -> float:
        """Share of the runs in which the first column is closer to the reference."""
        return float((self.squares(setting, better) < self.squares(setting, worse)).mean())

    def heaviest(self, label: str) -> float:
        """The largest share of a setting's summed squared errors that comes from a single run."""
        shares = [squares.max() / squares.sum() for squares in self._all_squares(label) if squares.sum() > 0]
        return float(max(shares, default=0.0))

    def _all_squares(self, label: str) -> list[FloatArray]:
        return [self.squares(setting, label) for setting in self.experiment.settings]


# --- Cells

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
    every = []
    for row in results.experiment.settings:
        cells_of_row = []
        for position, (label, column) in enumerate(columns):
            measured = results.mse(row, column, table.normalised)
            paper = printed(table.name, row, position)
            judged = verdict(measured, paper, results.runs, RUNS[table.experiment])
            cells_of_row.append(Cell(row, label, column, measured, paper, judged))
        every += _marked(cells_of_row, table.marks)
    return every


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


# --- Files

HEADER = ("table", "row", "estimator", "protocol", "measured", "std_error", "paper", "verdict")
# Ranks as the paper sets them: the last two where it has two.
LATEX = (r"\underline{\underline{\textbf{%s}}}", r"\underline{\textbf{%s}}", r"\textbf{%s}")

Filled = Sequence[tuple[Results, list[Cell]]]


def command(target: str, results: Results) -> str:
    """The command that makes a table or figure again."""
    words = ["deadweight reproduce", target, "--protocol", results.protocol.name]
    if results.runs < results.experiment.runs:
        words += ["--runs", str(results.runs)]
    if results.given_policies:
        words += ["--policies DIR"]
    return " ".join(words)


def rows_file(results: Results) -> str:
    """Where the rows behind a table are, in the output folder."""
    return f"rows/{results.protocol.name}/{results.experiment.name}.parquet"


def number(value: float) -> str:
    """Four decimals, as the paper prints; more where nothing but zeros would be left."""
    if math.isnan(value):
        return ""
    return f"{value:.4f}" if value == 0 or abs(value) >= 1e-4 else f"{value:.2e}"


def as_csv(table: Table, filled: Filled) -> str:
    """One line a cell and protocol, with all digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for results, cells in filled:
        for cell in cells:
            paper = "" if cell.paper is None else cell.paper
            error = "" if math.isnan(cell.measured.std_error) else repr(cell.measured.std_error)
            start = (table.name, cell.row, cell.estimator, results.protocol.name)
            writer.writerow([*start, repr(cell.measured.value), error, paper, cell.verdict])
    return out.getvalue()


def as_markdown(table: Table, filled: Filled) -> str:
    """A section a protocol: measured numbers with errors, and the paper's below."""
    lines = [f"# {table.name}: {table.title}", "", f"Source: {SOURCE}, `{LABELS[table.name]}`.", ""]
    lines += [_caption(table), ""]
    for results, cells in filled:
        lines += [
            f"## Protocol {results.protocol.name}",
            "",
            f"Made by `{command(table.name, results)}`; rows in `{rows_file(results)}`.",
            "",
        ]
        lines += [f"{results.runs} of {results.experiment.runs} runs. {summary(cells)}", ""]
        if table.experiment == "taxi" and not results.given_policies:
            lines += [
                "The policies are the package's own, not the paper's: numbers differ. See `--policies`.",
                "",
            ]
        lines += [*_grid(table, cells), ""]
    return "\n".join(lines)


def summary(cells: Sequence[Cell]) -> str:
    """How many cells agree with the paper.

    >>> summary([])
    'No cells are printed in the paper.'
    """
    judged = [cell.verdict for cell in cells if cell.paper is not None]
    if not judged:
        return "No cells are printed in the paper."
    exact, near = judged.count(EXACT_MATCH), judged.count(WITHIN_ERROR)
    other = len(judged) - exact - near
    return (
        f"Of the paper's {how_many(len(judged), 'number')} {exact} {'is' if exact == 1 else 'are'} exact, "
        f"{near} within Monte-Carlo error, {other} {'differs' if other == 1 else 'differ'}."
    )


def _caption(table: Table) -> str:
    what = "Mean squared error" + (" divided by the squared reference value" if table.normalised else "")
    return (
        f"{what}, with its Monte-Carlo standard error over the runs. The best {table.marks} of each row are "
        "bold, with their rank. `=` is the paper's number exactly, `~` one within error, `!` another one."
    )


def _grid(table: Table, cells: Sequence[Cell]) -> list[str]:
    labels = list(dict.fromkeys(cell.estimator for cell in cells))
    setting = EXPERIMENTS[table.experiment].setting
    lines = ["| " + " | ".join([setting, "", *labels]) + " |", "| --- | --- |" + " ---: |" * len(labels)]
    for row in dict.fromkeys(cell.row for cell in cells):
        of_row = [cell for cell in cells if cell.row == row]
        measured = [_measured(cell) for cell in of_row]
        paper = ["" if cell.paper is None else number(cell.paper) for cell in of_row]
        lines.append("| " + " | ".join([str(row), "measured", *measured]) + " |")
        lines.append("| " + " | ".join([str(row), "paper", *paper]) + " |")
    return lines


def _measured(cell: Cell) -> str:
    text = number(cell.measured.value)
    if cell.mark:
        text = f"**{text}** ({cell.mark})"
    if cell.measured.std_error > 0:
        text += f" ± {cell.measured.std_error:.2g}"
    sign = {EXACT_MATCH: " =", WITHIN_ERROR: " ~", "": ""}.get(cell.verdict, " !")
    return text + sign


def as_latex(table: Table, filled: Filled) -> str:
    """One tabular a protocol, with the paper's marks for best, second and third."""
    parts = []
    for results, cells in filled:
        labels = list(dict.fromkeys(cell.estimator for cell in cells))
        setting = results.experiment.setting.capitalize()
        rows = []
        for row in results.experiment.settings:
            texts = [_latex(table, cell) for cell in cells if cell.row == row]
            rows.append(" & ".join([str(row), *texts]) + r" \\")
        parts += [
            f"% {table.title}, protocol {results.protocol.name}: {command(table.name, results)}",
            r"\begin{tabular}{l | " + "r" * len(labels) + "}",
            r"\toprule",
            " & ".join([rf"\textbf{{{setting}}}", *labels]) + r" \\ \midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    return "\n".join(parts)


def _latex(table: Table, cell: Cell) -> str:
    text = number(cell.measured.value)
    return LATEX[cell.mark - 1 - table.marks] % text if cell.mark else text
