"""Tables as Markdown, as CSV in long form, and as LaTeX with the paper's marks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from deadweight.errors import how_many
from deadweight.studies.reproduction.cells import EXACT_MATCH, WITHIN_ERROR, Cell
from deadweight.studies.reproduction.paper import LABELS, SOURCE
from deadweight.studies.reproduction.results import Results
from deadweight.studies.reproduction.spec import EXPERIMENTS, Table

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
