"""The headline study as tables: coverage, width, error against the best single estimate, and verdicts.

The width of an interval is measured in units of 2 x 1.96 root mean squared errors of its own estimate, as
that of an interval would be which knows its error. The best single estimate is the one with the least error
*in hindsight*, on the same logs: nobody can choose it beforehand.
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
from deadweight_studies.coverage import markdown
from deadweight_studies.headline import ALSO, BEFORE, DROPPED, stores
from deadweight_studies.real_kinds import Cell, Kind
from deadweight_studies.runs import first_runs

# --------------------------------------------------------------------------------------------------------
# What each part of the headline's rule is good for: the rule without it, on the evidence of runs.
#
# Nothing is run again: the mix is arithmetic on estimates, their covariance and a few numbers more. Skewness
# is not kept, so that intervals are the same on both sides here.

Change = Callable[[Candidates], Candidates]


def without(*names: str) -> Change:
    """The rule without some of the candidates."""
    return lambda one: replace(one, left_out=(*one.left_out, *names))


CHANGES: Mapping[str, Change] = {
    "the rule": lambda one: one,
    "without cross-fitted WDR": without(CROSS_FITTED, "WDR"),
    "without LIN": without("LIN"),
    "without WIN3 and WIN2": without("WIN3", "WIN2"),
    "without LIN and windows": without("LIN", "WIN3", "WIN2"),
    "v_u not counted": lambda one: replace(one, unseen_variance=0.0),
    "folds not heard": lambda one: replace(one, shared_bias=0.0),
    "every episode taken for an effective one": lambda one: replace(one, sizes=np.full(len(one.names), 1e12)),
    "a model that does not fit is kept": lambda one: replace(one, model=True),
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
        some = [evidence_from(one) for one in kept]
        whole = np.mean([(Mixture(one).at(0.95).value - truth) ** 2 for one in some])
        mixed = [Mixture(change(one)).at(0.95) for one in some]
        own = float(np.mean([(one.value - truth) ** 2 for one in mixed]))
        coverage.append(np.mean([abs(one.value - truth) <= one.half_width for one in mixed]))
        width.append(np.median([one.half_width for one in mixed]) / (NORMAL * math.sqrt(own)) if own else 1.0)
        error.append(own / whole if whole else 1.0)
    return [
        *(f"{min(coverage):.3f}", str(sum(one < 0.93 for one in coverage))),
        *(f"{_geometric(width):.2f}", f"{_geometric(error):.2f}", f"{max(error):.2f}"),
    ]


def _geometric(values: Any) -> float:
    return float(np.exp(np.mean(np.log(values))))


# --------------------------------------------------------------------------------------------------------

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
    kept = stores(out)
    cells = headline_study.headline_cells()
    found = [(name, cells[name], first_runs(store, runs)) for name, store in kept.items()]
    return [_line(name, cell, made) for name, cell, made in found if made]


def _line(name: str, cell: Cell, made: list[dict[str, Any]]) -> Line:
    truth = cell.task.values[0]
    rows = {one: np.array([record["rows"][one] for record in made]) for one in made[0]["rows"]}
    errors = {one: float(np.square(found[:, 0] - truth).mean()) for one, found in rows.items()}
    for one in ALSO:
        if all(one in record["parts"] for record in made):
            errors[one] = float(np.mean([(record["parts"][one] - truth) ** 2 for record in made]))
    best = min((one for one in errors if one in (*SINGLE, *ALSO)), key=errors.__getitem__)
    errors["MAGIC"] = float(np.mean([(record["magic"] - truth) ** 2 for record in made]))
    free = {one: float(np.mean([(record["free"][one] - truth) ** 2 for record in made])) for one in DROPPED}
    verdicts = [record["verdict"] for record in made]
    return Line(
        cell=name,
        tuned=cell.tuned,
        runs=len(made),
        coverage={
            one: float(((rows[one][:, 1] <= truth) & (truth <= rows[one][:, 2])).mean()) for one in ROWS
        },
        width={one: _width(rows[one], errors[one]) for one in ROWS},
        error=errors["BLEND"] / errors[best],
        best=best,
        contradicted=float(np.mean(["contradicted" in record["flags"] for record in made])),
        infinite=float(np.mean([record["infinite"] for record in made])),
        right=verdicts.count("right") / len(made),
        wrong=verdicts.count("wrong") / len(made),
        null=float(np.mean([record["null"] == "better" for record in made])),
        before={one: float(np.mean([record["before"][one] == "right" for record in made])) for one in BEFORE},
        noise=_noise([record["error"] for record in made], rows["DM"][:, 0]),
        free={one: free[one] / errors[UNDROPPED[one]] for one in DROPPED},
        anchored={one: errors[one] / errors[UNDROPPED[one]] for one in DROPPED},
        kind=cell.kind,
        lin=errors["LIN"] / errors[best],
        magic=errors["MAGIC"] / errors[best],
        apart=float(np.mean([_sees_through(record["evidence"]) for record in made])),
    )


def _sees_through(kept: dict[str, Any]) -> bool:
    """Whether LIN is more than three standard errors away from DM, by their influences."""
    names = kept["names"]
    if "LIN" not in names:
        return False
    apart = np.eye(len(names))[names.index("LIN")] - np.eye(len(names))[names.index("DM")]
    error = np.sqrt(max(float(apart @ np.array(kept["covariance"]) @ apart), 0.0))
    return bool(abs(float(apart @ np.array(kept["values"]))) > BIASED * error > 0.0)


def _width(found: Any, error: float) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.mean(found[:, 2] - found[:, 1]) / (2 * NORMAL * np.sqrt(error)))


def _noise(claimed: list[float], values: FloatArray) -> tuple[float, float]:
    """Standard errors as they are claimed over how much the values vary; of one value nothing is known.

    It is the mean of their squares that should be the variance: where few logs have nearly all the error, and
    say so, their mean is small.
    """
    if len(values) < 2:
        return float("nan"), float("nan")
    spread = values.std(ddof=1)
    return float(np.mean(claimed) / spread), float(np.sqrt(np.mean(np.square(claimed))) / spread)


def headline_tables(found: list[Line]) -> str:
    """All tables in Markdown, cells that the rule was chosen on apart from the others."""
    tables = []
    for title, some in (
        ("cells that the rule was chosen on", [line for line in found if line.tuned]),
        ("other cells", [line for line in found if not line.tuned]),
    ):
        if some:
            tables += [_main(title, some), _rows(title, some), _drops(title, some)]
    if found:
        tables.append(_all(found))
    return "\n\n".join(tables)


def _main(title: str, some: list[Line]) -> str:
    heads = [title, "kind", "logs", "coverage", "width", "MSE over best", "LIN", "MAGIC", "best"]
    heads += ["contradicted"]
    heads += ["right", *(f"right {one}" for one in BEFORE), "wrong", '"better" at pi_e = pi_b']
    rows = [
        [
            *(line.cell, line.kind, str(line.runs), f"{line.coverage['BLEND']:.3f}"),
            shown_width(line.width["BLEND"]),
            *(f"{line.error:.2f}", f"{line.lin:.2f}", f"{line.magic:.2f}", line.best),
            *(f"{share:.2f}" for share in (line.contradicted, line.right, *line.before.values())),
            *(f"{share:.3f}" for share in (line.wrong, line.null)),
        ]
        for line in some
    ]
    return markdown(heads, [*rows, _middle(some), _worst(some)])


def _middle(some: list[Line]) -> list[str]:
    shares = [line.contradicted for line in some], [line.right for line in some]
    before = ([line.before[one] for line in some] for one in BEFORE)
    rare = [line.wrong for line in some], [line.null for line in some]
    return [
        *(
            "**geometric means, mean shares**",
            "",
            "",
            f"{np.mean([line.coverage['BLEND'] for line in some]):.3f}",
        ),
        *(mean_width(line.width["BLEND"] for line in some),),
        *(f"{geometric(ratios):.2f}" for ratios in _ratios(some)),
        "",
        *(f"{np.mean(column):.2f}" for column in (*shares, *before)),
        *(f"{np.mean(column):.3f}" for column in rare),
    ]


def _worst(some: list[Line]) -> list[str]:
    return [
        *("**worst**", "", "", f"{min(line.coverage['BLEND'] for line in some):.3f}"),
        shown_width(max(line.width["BLEND"] for line in some)),
        *(f"{max(ratios):.2f}" for ratios in _ratios(some)),
        *("", "", "", *("" for _ in BEFORE)),
        *(f"{max(line.wrong for line in some):.3f}", f"{max(line.null for line in some):.3f}"),
    ]


def _ratios(some: list[Line]) -> list[list[float]]:
    """MSE over best of BLEND, of LIN and of MAGIC."""
    return [[getattr(line, one) for line in some] for one in ("error", "lin", "magic")]


def _rows(title: str, some: list[Line]) -> str:
    """The rows beside BLEND: do their intervals cover, and is the standard error of the model right?"""
    others = [one for one in ROWS if one != "BLEND"]
    heads = [title, *(f"coverage {one}" for one in others), "width WDRSIS"]
    heads += ["standard error over sd, DM", "the same, root mean square", "LIN off DM"]
    rows = [
        [
            *(line.cell, *(f"{line.coverage[one]:.3f}" for one in others)),
            *(shown_width(line.width["WDRSIS"]), *(f"{ratio:.2f}" for ratio in line.noise)),
            f"{line.apart:.3f}",
        ]
        for line in some
    ]
    lowest = (f"{min(line.coverage[one] for line in some):.3f}" for one in others)
    rows.append(
        [
            *("**lowest coverage, geometric means**", *lowest),
            *(mean_width(line.width["WDRSIS"] for line in some),),
            *(f"{geometric(ratios):.2f}" for ratios in zip(*(line.noise for line in some), strict=True)),
            "",
        ]
    )
    return markdown(heads, rows)


def _all(found: list[Line]) -> str:
    """What is asked of the headline, in a few numbers: of all cells, of those that were seen, of others."""
    groups = {
        "all cells": found,
        "chosen on": [line for line in found if line.tuned],
        "others": [line for line in found if not line.tuned],
    }
    columns = [_facts(some) for some in groups.values()]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    return markdown(["", *groups], rows)


def _facts(some: list[Line]) -> dict[str, str]:
    fair = [line for line in some if line.kind not in APART]
    good = sum(line.coverage["BLEND"] >= ASKED for line in fair)
    right = float(np.mean([line.right for line in some])) if some else float("nan")
    known = old_cells()
    facts = {
        f"cells with a coverage of {ASKED} or more": f"{good} of {len(fair)}" + _percent(good, len(fair)),
        "lowest coverage": _extreme(min, fair, lambda line: line.coverage["BLEND"], "{:.3f}"),
        "coverage of exceptions": ", ".join(
            f"{line.coverage['BLEND']:.3f} ({line.cell})" for line in some if line.kind in APART
        ),
        "width, geometric mean": mean_width(line.width["BLEND"] for line in some),
        "widest where less than half of the logs are contradicted": _extreme(
            max, [line for line in some if line.contradicted < 0.5], lambda line: line.width["BLEND"]
        ),
    }
    for title, kinds in (
        ("well specified", [line for line in some if line.kind == "well specified"]),
        ("all kinds", some),
    ):
        facts[f"MSE over best, {title}, geometric mean"] = f"{geometric(line.error for line in kinds):.2f}"
        facts[f"MSE over best, {title}, worst"] = _extreme(max, kinds, lambda line: line.error)
        facts[f"MSE of MAGIC over best, {title}"] = f"{geometric(line.magic for line in kinds):.2f}"
    facts |= {
        "wrong verdicts, exceptions apart": _mean([line.wrong for line in fair], "{:.4f}"),
        "wrong verdicts, most in a cell": _extreme(max, fair, lambda line: line.wrong, "{:.3f}"),
        "wrong verdicts in confounded cells": _extreme(
            max, [line for line in some if line.kind == "confounded"], lambda line: line.wrong, "{:.3f}"
        ),
        '"better" at pi_e = pi_b, mean': _mean([line.null for line in some], "{:.4f}"),
        '"better" at pi_e = pi_b, most in a cell': _extreme(max, some, lambda line: line.null, "{:.3f}"),
        "right verdicts": f"{right:.3f}",
        f"right verdicts in the {len(known)} oldest cells": _mean(
            [line.right for line in some if line.cell in known], "{:.3f}"
        ),
    }
    for one in BEFORE:
        share = float(np.mean([line.before[one] for line in some])) if some else float("nan")
        times = f" ({right / share:.2f} times as many by BLEND)" if share > 0 else ""
        facts[f"right verdicts by {one}"] = f"{share:.3f}{times}"
    return facts


def _percent(part: int, total: int) -> str:
    return f" ({part / total:.1%})" if total else ""


def _mean(values: list[float], form: str) -> str:
    return form.format(np.mean(values)) if values else ""


def _extreme(
    which: Callable[..., Line], some: list[Line], value: Callable[[Line], float], form: str = "{:.2f}"
) -> str:
    """The lowest or highest of some lines, and whose it is; nothing where there are no lines."""
    if not some:
        return ""
    found = which(some, key=value)
    return f"{form.format(value(found))} ({found.cell})"


def _drops(title: str, some: list[Line]) -> str:
    columns = [(rule, one) for one in DROPPED for rule in ("free", "anchored")]
    heads = [title, *(f"{one} / {UNDROPPED[one]}, {rule}" for rule, one in columns), "infinite variance"]
    ratios = [[getattr(line, rule)[one] for rule, one in columns] for line in some]
    rows = [
        [line.cell, *(f"{ratio:.2f}" for ratio in own), f"{line.infinite:.2f}"]
        for line, own in zip(some, ratios, strict=True)
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
    found = np.array([value for value in values if np.isfinite(value)])
    return float(np.exp(np.log(found).mean())) if found.size else float("nan")


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
    found = list(widths)
    kept = [width for width in found if width <= WIDEST]
    left_out = sum(width > WIDEST for width in found)
    if not left_out:
        return f"{geometric(kept):.2f}"
    median = shown_width(float(np.median(found)))
    return f"{geometric(kept):.2f} ({left_out} above {WIDEST:,.0f} left out; median of all {median})"


def _ablated(out: Path, runs: int | None) -> list[str]:
    """The rule without its parts, on well specified cells and on the others; exceptions apart."""
    cells = headline_study.headline_cells()
    found = {name: (cells[name], first_runs(store, runs)) for name, store in stores(out).items()}
    asked = {name: (cell, made) for name, (cell, made) in found.items() if made and cell.kind not in APART}
    tables = []
    for title, plain in (("Well specified", True), ("Other kinds", False)):
        some = {
            name: (cell.task.values[0], [record["evidence"] for record in made])
            for name, (cell, made) in asked.items()
            if (cell.kind == "well specified") == plain
        }
        if some:
            tables.append(f"**{title}**\n\n{ablation(some)}")
    return tables


def write_headline(out: Path, runs: int | None = None) -> str:
    """Write headline.md into the folder; returns its text."""
    text = "\n\n".join([headline_tables(lines(out, runs)), *_ablated(out, runs)])
    with writing(out / "headline.md"):
        write_text(out / "headline.md", text + "\n")
    return text
