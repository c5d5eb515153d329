"""The study of the automatic drop as tables: errors, intervals and verdicts, fresh problems apart."""

from __future__ import annotations

import numpy as np

from deadweight.studies.automatic_drop import COMPARISONS, ROWS, Line, geometric_mean
from deadweight.studies.coverage_tables import markdown as table
from deadweight.studies.headline_tables import geometric
from deadweight.studies.problems import study_problems

# With one or two effective episodes an interval has no end to speak of; it counts as so wide in a mean.
WIDEST = 100.0


def markdown(lines: list[Line]) -> str:
    """All tables: cells that the rule was chosen on, and those that it was not."""
    tables = []
    for title, some in (
        ("cells that the rule was chosen on", [line for line in lines if not line.fresh]),
        ("fresh cells", [line for line in lines if line.fresh]),
    ):
        if some:
            tables += [_errors(title, some), _intervals(title, some)]
    return "\n\n".join(tables) + "\n"


def _errors(title: str, some: list[Line]) -> str:
    heads = [title, "logs", *(f"{variant} / {base}" for variant, base in COMPARISONS)]
    rows = [[line.problem, str(line.runs), *map(str, line.ratios)] for line in some]
    known = {problem.name for problem in study_problems()}
    first = [line for line in some if line.problem in known]
    for name, group in (("", some), (", the sixteen problems of version 0.1", first)):
        if not group or (name and len(group) == len(some)):
            continue
        columns = [[line.ratios[j] for line in group] for j in range(len(COMPARISONS))]
        rows.append([f"**geometric mean{name}**", "", *(str(geometric_mean(column)) for column in columns)])
        worst = [max(column, key=lambda ratio: ratio.value) for column in columns]
        rows.append([f"**worst{name}**", "", *map(str, worst)])
    return table(heads, rows)


def _intervals(title: str, some: list[Line]) -> str:
    heads = [
        *(title, *(f"coverage {one}" for one in ROWS), *(f"width {one}" for one in ROWS)),
        *("BLEND over best", "best", "right", "wrong"),
    ]
    rows = [
        [
            *(line.problem, *(f"{line.coverage[one]:.2f}" for one in ROWS)),
            *(_width(line.width[one]) for one in ROWS),
            *(f"{line.error:.2f}", line.best, f"{line.right:.2f}", f"{line.wrong:.3f}"),
        ]
        for line in some
    ]
    rows.append(
        [
            *("**lowest coverage, geometric means, mean shares**",),
            *(f"{min(line.coverage[one] for line in some):.2f}" for one in ROWS),
            *(f"{geometric(min(line.width[one], WIDEST) for line in some):.2f}" for one in ROWS),
            *(f"{geometric(line.error for line in some):.2f}", ""),
            *(f"{np.mean([line.right for line in some]):.2f}",),
            *(f"{np.mean([line.wrong for line in some]):.3f}",),
        ]
    )
    return table(heads, rows)


def _width(width: float) -> str:
    return f"{width:.2f}" if width < WIDEST else f"> {WIDEST:.0f}"
