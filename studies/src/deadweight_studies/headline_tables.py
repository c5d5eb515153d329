"""The headline study as tables: coverage, width, error against the best single estimate, and verdicts.

The width of an interval is measured in units of 2 x 1.96 root mean squared errors of its own estimate, as
that of an interval would be which knows its error. The best single estimate is the one with the least error
*in hindsight*, on the same logs: nobody can choose it beforehand. Below stands what each part of the
headline's rule is good for: the rule without it, on the evidence of the same runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.answers.blend import NORMAL, Mixture
from deadweight.answers.candidates import CROSS_FITTED, Candidates
from deadweight.tools.files import write_text, writing
from deadweight.tools.thresholds import BIASED
from deadweight.typing import FloatArray
from deadweight_studies import headline as headline_study
from deadweight_studies.coverage import cells as old_cells
from deadweight_studies.headline import ALSO, BEFORE, DROPPED
from deadweight_studies.real_kinds import Cell, Kind
from deadweight_studies.records import Record
from deadweight_studies.study import first_runs, markdown

# --- The rule without its parts
#
# Nothing is run again: the mix is arithmetic on estimates, their covariance and a few numbers more. Skewness
# is not kept, so that intervals are the same on both sides here.

Change = Callable[[Candidates], Candidates]


def without(*names: str) -> Change:
    """The rule without some of the candidates."""
    return lambda evidence: replace(evidence, left_out=(*evidence.left_out, *names))


CHANGES: Mapping[str, Change] = {
    "the rule": lambda evidence: evidence,
    "without cross-fitted WDR": without(CROSS_FITTED, "WDR"),
    "without LIN": without("LIN"),
    "without WIN3 and WIN2": without("WIN3", "WIN2"),
    "without LIN and windows": without("LIN", "WIN3", "WIN2"),
    "v_u not counted": lambda evidence: replace(evidence, unseen_variance=0.0),
    "folds not heard": lambda evidence: replace(evidence, shared_bias=0.0),
    "every episode taken for an effective one": lambda evidence: replace(
        evidence, sizes=np.full(len(evidence.names), 1e12)
    ),
    "a model that does not fit is kept": lambda evidence: replace(evidence, model=True),
}


def evidence_from(kept: Mapping[str, Any]) -> Candidates:
    """The evidence of a run as it was kept."""
    arrays = {name: np.array(kept[name]) for name in ("values", "covariance", "sizes")}
    words = {name: tuple(kept[name]) for name in ("names", "left_out")}
    return Candidates(**{**kept, **arrays, **words})


def ablation(runs: Mapping[str, tuple[float, list[dict[str, Any]]]]) -> str:
    """A line for each change.

    Args:
      runs: by cell, the truth and what was kept of each run.
    """
    heads = [
        "the rule, and without parts of it",
        "lowest coverage",
        "cells below .93",
        "width",
        "MSE",
        "worst",
    ]
    rows = [[name, *_ablation_line(change, runs)] for name, change in CHANGES.items()]
    return markdown(heads, rows)


def _ablation_line(change: Change, runs: Mapping[str, tuple[float, list[dict[str, Any]]]]) -> list[str]:
    """Coverage, width in units of its own error, and squared error over that of the whole rule."""
    coverage, width, error = [], [], []
    for truth, kept in runs.values():
        evidence = [evidence_from(record) for record in kept]
        whole = np.mean([(Mixture(each).at(0.95).value - truth) ** 2 for each in evidence])
        mixed = [Mixture(change(each)).at(0.95) for each in evidence]
        squared = float(np.mean([(mix.value - truth) ** 2 for mix in mixed]))
        half = np.median([mix.half_width for mix in mixed])
        coverage.append(np.mean([abs(mix.value - truth) <= mix.half_width for mix in mixed]))
        width.append(half / (NORMAL * math.sqrt(squared)) if squared else 1.0)
        error.append(squared / whole if whole else 1.0)
    return [
        *(f"{min(coverage):.3f}", str(sum(share < 0.93 for share in coverage))),
        *(f"{_geometric(width):.2f}", f"{_geometric(error):.2f}", f"{max(error):.2f}"),
    ]


def _geometric(values: Any) -> float:
    return float(np.exp(np.mean(np.log(values))))


# --- Lines and tables

ROWS = ("BLEND", "C-WSPDIS", "WDRSIS", "WPDIS", "LIN")
SINGLE = ("DM", "LIN", "WIS", "WPDIS", "C-WSPDIS", "WDR", "WDRSIS")
# What an anchored or free automatic drop is compared with.
UNDROPPED = {"C-WSPDIS": "WPDIS", "WDRSIS": "WDR"}
# What is asked of a coverage.
ASKED = 0.93
# Kinds in which no interval is asked to hold the truth: of confounded logs only that no verdict is wrong.
APART: tuple[Kind, ...] = ("exception", "confounded")
# In a log with hardly more than one effective episode an interval has no end to speak of, and one such log
# makes the mean width of a cell as large as it likes. Beyond this a width is not a number to read.
WIDEST = 1000.0


@dataclass(frozen=True)
class Line:
    """What the runs of one cell say.

    Attributes:
      cell, tuned, runs: which, whether the rule was chosen on it, and how many logs.
      coverage, width: by row.
      error: MSE of BLEND over that of the best single estimate.
      best: that estimate.
      contradicted, infinite: shares of the logs with these flags (the second on WPDIS).
      right, wrong, null: shares of verdicts; the last of "better" where both policies are the same.
      before: shares of right verdicts by the headlines of earlier versions.
      noise: standard error of DM over the standard deviation of its values: mean, and root mean square.
      free, anchored: MSE of automatic drops over that of the undropped estimate, by name.
      kind: of the cell.
      lin, magic: MSE of LIN and of MAGIC over that of the best single estimate.
      apart: share of the logs in which LIN is more than three standard errors away from DM.
    """

    cell: str
    tuned: bool
    runs: int
    coverage: dict[str, float]
    width: dict[str, float]
    error: float
    best: str
    contradicted: float
    infinite: float
    right: float
    wrong: float
    null: float
    before: dict[str, float]
    noise: tuple[float, float]
    free: dict[str, float]
    anchored: dict[str, float]
    kind: Kind
    lin: float
    magic: float
    apart: float


def lines(out: Path, runs: int | None = None) -> list[Line]:
    """One line a cell, of the first `runs` runs."""
    return [_line(name, cell, records) for name, (cell, records) in _kept(out, runs).items()]


def _kept(out: Path, runs: int | None) -> dict[str, tuple[Cell, list[Record]]]:
    """By name, the cells of which there are runs, with the first `runs` of them."""
    study = headline_study.STUDY
    cells, stores = study.cells(), study.stores(out)
    kept = {name: (cells[name], first_runs(store, runs)) for name, store in stores.items()}
    return {name: (cell, records) for name, (cell, records) in kept.items() if records}


def _line(name: str, cell: Cell, records: list[Record]) -> Line:
    truth = cell.task.values[0]
    rows = {row: np.array([record["rows"][row] for record in records]) for row in records[0]["rows"]}
    errors = {row: float(np.square(values[:, 0] - truth).mean()) for row, values in rows.items()}
    for part in ALSO:
        if all(part in record["parts"] for record in records):
            errors[part] = float(np.mean([(record["parts"][part] - truth) ** 2 for record in records]))
    best = min((row for row in errors if row in (*SINGLE, *ALSO)), key=errors.__getitem__)
    errors["MAGIC"] = float(np.mean([(record["magic"] - truth) ** 2 for record in records]))
    free = {
        row: float(np.mean([(record["free"][row] - truth) ** 2 for record in records])) for row in DROPPED
    }
    verdicts = [record["verdict"] for record in records]
    return Line(
        cell=name,
        tuned=cell.tuned,
        runs=len(records),
        coverage={
            row: float(((rows[row][:, 1] <= truth) & (truth <= rows[row][:, 2])).mean()) for row in ROWS
        },
        width={row: _width(rows[row], errors[row]) for row in ROWS},
        error=errors["BLEND"] / errors[best],
        best=best,
        contradicted=float(np.mean(["contradicted" in record["flags"] for record in records])),
        infinite=float(np.mean([record["infinite"] for record in records])),
        right=verdicts.count("right") / len(records),
        wrong=verdicts.count("wrong") / len(records),
        null=float(np.mean([record["null"] == "better" for record in records])),
        before={
            row: float(np.mean([record["before"][row] == "right" for record in records])) for row in BEFORE
        },
        noise=_noise([record["error"] for record in records], rows["DM"][:, 0]),
        free={row: free[row] / errors[UNDROPPED[row]] for row in DROPPED},
        anchored={row: errors[row] / errors[UNDROPPED[row]] for row in DROPPED},
        kind=cell.kind,
        lin=errors["LIN"] / errors[best],
        magic=errors["MAGIC"] / errors[best],
        apart=float(np.mean([_sees_through(record["evidence"]) for record in records])),
    )


def _sees_through(kept: dict[str, Any]) -> bool:
    """Whether LIN is more than three standard errors away from DM, by their influences."""
    names = kept["names"]
    if "LIN" not in names:
        return False
    apart = np.eye(len(names))[names.index("LIN")] - np.eye(len(names))[names.index("DM")]
    error = np.sqrt(max(float(apart @ np.array(kept["covariance"]) @ apart), 0.0))
    return bool(abs(float(apart @ np.array(kept["values"]))) > BIASED * error > 0.0)


def _width(row: FloatArray, error: float) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.mean(row[:, 2] - row[:, 1]) / (2 * NORMAL * np.sqrt(error)))


def _noise(claimed: list[float], values: FloatArray) -> tuple[float, float]:
    """Standard errors as they are claimed over how much the values vary; of one value nothing is known.

    It is the mean of their squares that should be the variance: where few logs have nearly all the error, and
    say so, their mean is small.
    """
    if len(values) < 2:
        return float("nan"), float("nan")
    spread = values.std(ddof=1)
    return float(np.mean(claimed) / spread), float(np.sqrt(np.mean(np.square(claimed))) / spread)


def headline_tables(every: list[Line]) -> str:
    """All tables in Markdown, cells that the rule was chosen on apart from the others."""
    tables = []
    for title, group in (
        ("cells that the rule was chosen on", [line for line in every if line.tuned]),
        ("other cells", [line for line in every if not line.tuned]),
    ):
        if group:
            tables += [_main(title, group), _rows(title, group), _drops(title, group)]
    if every:
        tables.append(_all(every))
    return "\n\n".join(tables)


def _main(title: str, group: list[Line]) -> str:
    heads = [title, "kind", "logs", "coverage", "width", "MSE over best", "LIN", "MAGIC", "best"]
    heads += ["contradicted"]
    heads += ["right", *(f"right {row}" for row in BEFORE), "wrong", '"better" at pi_e = pi_b']
    rows = [
        [
            *(line.cell, line.kind, str(line.runs), f"{line.coverage['BLEND']:.3f}"),
            shown_width(line.width["BLEND"]),
            *(f"{line.error:.2f}", f"{line.lin:.2f}", f"{line.magic:.2f}", line.best),
            *(f"{share:.2f}" for share in (line.contradicted, line.right, *line.before.values())),
            *(f"{share:.3f}" for share in (line.wrong, line.null)),
        ]
        for line in group
    ]
    return markdown(heads, [*rows, _middle(group), _worst(group)])


def _middle(group: list[Line]) -> list[str]:
    shares = [line.contradicted for line in group], [line.right for line in group]
    before = ([line.before[row] for line in group] for row in BEFORE)
    rare = [line.wrong for line in group], [line.null for line in group]
    return [
        *(
            "**geometric means, mean shares**",
            "",
            "",
            f"{np.mean([line.coverage['BLEND'] for line in group]):.3f}",
        ),
        *(mean_width(line.width["BLEND"] for line in group),),
        *(f"{geometric(ratios):.2f}" for ratios in _ratios(group)),
        "",
        *(f"{np.mean(column):.2f}" for column in (*shares, *before)),
        *(f"{np.mean(column):.3f}" for column in rare),
    ]


def _worst(group: list[Line]) -> list[str]:
    return [
        *("**worst**", "", "", f"{min(line.coverage['BLEND'] for line in group):.3f}"),
        shown_width(max(line.width["BLEND"] for line in group)),
        *(f"{max(ratios):.2f}" for ratios in _ratios(group)),
        *("", "", "", *("" for _ in BEFORE)),
        *(f"{max(line.wrong for line in group):.3f}", f"{max(line.null for line in group):.3f}"),
    ]


def _ratios(group: list[Line]) -> list[list[float]]:
    """MSE over best of BLEND, of LIN and of MAGIC."""
    return [[getattr(line, kind) for line in group] for kind in ("error", "lin", "magic")]


def _rows(title: str, group: list[Line]) -> str:
    """The rows beside BLEND: do their intervals cover, and is the standard error of the model right?"""
    others = [row for row in ROWS if row != "BLEND"]
    heads = [title, *(f"coverage {row}" for row in others), "width WDRSIS"]
    heads += ["standard error over sd, DM", "the same, root mean square", "LIN off DM"]
    rows = [
        [
            *(line.cell, *(f"{line.coverage[row]:.3f}" for row in others)),
            *(shown_width(line.width["WDRSIS"]), *(f"{ratio:.2f}" for ratio in line.noise)),
            f"{line.apart:.3f}",
        ]
        for line in group
    ]
    lowest = (f"{min(line.coverage[row] for line in group):.3f}" for row in others)
    rows.append(
        [
            *("**lowest coverage, geometric means**", *lowest),
            *(mean_width(line.width["WDRSIS"] for line in group),),
            *(f"{geometric(ratios):.2f}" for ratios in zip(*(line.noise for line in group), strict=True)),
            "",
        ]
    )
    return markdown(heads, rows)


def _all(every: list[Line]) -> str:
    """What is asked of the headline, in a few numbers: of all cells, of those that were seen, of others."""
    groups = {
        "all cells": every,
        "chosen on": [line for line in every if line.tuned],
        "others": [line for line in every if not line.tuned],
    }
    columns = [_facts(group) for group in groups.values()]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return markdown(["", *groups], rows)


def _facts(group: list[Line]) -> dict[str, str]:
    fair = [line for line in group if line.kind not in APART]
    good = sum(line.coverage["BLEND"] >= ASKED for line in fair)
    right = float(np.mean([line.right for line in group])) if group else float("nan")
    known = old_cells()
    facts = {
        f"cells with a coverage of {ASKED} or more": f"{good} of {len(fair)}" + _percent(good, len(fair)),
        "lowest coverage": _extreme(min, fair, lambda line: line.coverage["BLEND"], "{:.3f}"),
        "coverage of exceptions": ", ".join(
            f"{line.coverage['BLEND']:.3f} ({line.cell})" for line in group if line.kind in APART
        ),
        "width, geometric mean": mean_width(line.width["BLEND"] for line in group),
        "widest where less than half of the logs are contradicted": _extreme(
            max, [line for line in group if line.contradicted < 0.5], lambda line: line.width["BLEND"]
        ),
    }
    for title, kinds in (
        ("well specified", [line for line in group if line.kind == "well specified"]),
        ("all kinds", group),
    ):
        facts[f"MSE over best, {title}, geometric mean"] = f"{geometric(line.error for line in kinds):.2f}"
        facts[f"MSE over best, {title}, worst"] = _extreme(max, kinds, lambda line: line.error)
        facts[f"MSE of MAGIC over best, {title}"] = f"{geometric(line.magic for line in kinds):.2f}"
    facts |= {
        "wrong verdicts, exceptions apart": _mean([line.wrong for line in fair], "{:.4f}"),
        "wrong verdicts, most in a cell": _extreme(max, fair, lambda line: line.wrong, "{:.3f}"),
        "wrong verdicts in confounded cells": _extreme(
            max, [line for line in group if line.kind == "confounded"], lambda line: line.wrong, "{:.3f}"
        ),
        '"better" at pi_e = pi_b, mean': _mean([line.null for line in group], "{:.4f}"),
        '"better" at pi_e = pi_b, most in a cell': _extreme(max, group, lambda line: line.null, "{:.3f}"),
        "right verdicts": f"{right:.3f}",
        f"right verdicts in the {len(known)} oldest cells": _mean(
            [line.right for line in group if line.cell in known], "{:.3f}"
        ),
    }
    for row in BEFORE:
        share = float(np.mean([line.before[row] for line in group])) if group else float("nan")
        times = f" ({right / share:.2f} times as many by BLEND)" if share > 0 else ""
        facts[f"right verdicts by {row}"] = f"{share:.3f}{times}"
    return facts


def _percent(part: int, total: int) -> str:
    return f" ({part / total:.1%})" if total else ""


def _mean(values: list[float], form: str) -> str:
    return form.format(np.mean(values)) if values else ""


def _extreme(
    which: Callable[..., Line], group: list[Line], value: Callable[[Line], float], form: str = "{:.2f}"
) -> str:
    """The lowest or highest of some lines, and whose it is; nothing where there are no lines."""
    if not group:
        return ""
    extreme = which(group, key=value)
    return f"{form.format(value(extreme))} ({extreme.cell})"


def _drops(title: str, group: list[Line]) -> str:
    columns = [(rule, row) for row in DROPPED for rule in ("free", "anchored")]
    heads = [title, *(f"{row} / {UNDROPPED[row]}, {rule}" for rule, row in columns), "infinite variance"]
    ratios = [[getattr(line, rule)[row] for rule, row in columns] for line in group]
    rows = [
        [line.cell, *(f"{ratio:.2f}" for ratio in numbers), f"{line.infinite:.2f}"]
        for line, numbers in zip(group, ratios, strict=True)
    ]
    rows.append(
        ["**geometric mean**", *(f"{geometric(column):.2f}" for column in zip(*ratios, strict=True)), ""]
    )
    rows.append(["**worst**", *(f"{max(column):.2f}" for column in zip(*ratios, strict=True)), ""])
    return markdown(heads, rows)


def geometric(values: Iterable[float]) -> float:
    """The geometric mean of what is finite.

    >>> geometric([1.0, 4.0])
    2.0
    """
    finite = np.array([value for value in values if np.isfinite(value)])
    return float(np.exp(np.log(finite).mean())) if finite.size else float("nan")


def shown_width(width: float) -> str:
    """A width as a table has it.

    >>> shown_width(1.234), shown_width(9.2e60)
    ('1.23', '> 1,000')
    """
    return f"> {WIDEST:,.0f}" if width > WIDEST else f"{width:.2f}"


def mean_width(widths: Iterable[float]) -> str:
    """The geometric mean of widths, saying so where some are too large to take part.

    >>> mean_width([1.0, 4.0])
    '2.00'
    >>> mean_width([1.0, 4.0, 9.2e60])
    '2.00 (1 above 1,000 left out; median of all 4.00)'
    """
    every = list(widths)
    kept = [width for width in every if width <= WIDEST]
    left_out = sum(width > WIDEST for width in every)
    if not left_out:
        return f"{geometric(kept):.2f}"
    median = shown_width(float(np.median(every)))
    return f"{geometric(kept):.2f} ({left_out} above {WIDEST:,.0f} left out; median of all {median})"


def _ablated(out: Path, runs: int | None) -> list[str]:
    """The rule without its parts, on well specified cells and on the others; exceptions apart."""
    asked = {
        name: (cell, records) for name, (cell, records) in _kept(out, runs).items() if cell.kind not in APART
    }
    tables = []
    for title, plain in (("Well specified", True), ("Other kinds", False)):
        group = {
            name: (cell.task.values[0], [record["evidence"] for record in records])
            for name, (cell, records) in asked.items()
            if (cell.kind == "well specified") == plain
        }
        if group:
            tables.append(f"**{title}**\n\n{ablation(group)}")
    return tables


def write_headline(out: Path, runs: int | None = None) -> str:
    """Write headline.md into the folder; returns its text."""
    text = "\n\n".join([headline_tables(lines(out, runs)), *_ablated(out, runs)])
    with writing(out / "headline.md"):
        write_text(out / "headline.md", text + "\n")
    return text
