"""The forest of differences: every policy less the baseline, with intervals that hold all at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deadweight.log.labels import visible
from deadweight.report.charts.scale import Scale, spanning, without_outliers
from deadweight.report.charts.svg import RIGHT, TITLE, bottom_axis, diamond, drawing, line, text
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import Format

# Names stand above their lines, where long ones have room on a phone as well.
START, ROW, TOP = 16.0, 52.0, 8.0
NAME_ABOVE = 14.0
LONGEST_NAME = 36


@dataclass(frozen=True)
class RivalRow:
    """A policy's difference from the baseline; `kept`: it may be the best."""

    name: str
    difference: float
    lower: float
    upper: float
    kept: bool


def rivals(rows: Sequence[RivalRow], baseline: str, form: Format) -> Markup:
    """One line a policy, those that may be the best marked."""
    scale = spanning(_shown(rows), START, RIGHT - 10)
    drawn: list[Markup] = []
    for place, row in enumerate(rows):
        drawn += _row(row, scale, TOP + ROW * (place + 0.65))
    bottom = TOP + ROW * len(rows)
    zero = line(scale(0.0), TOP, scale(0.0), bottom, "reference")
    said = "; ".join(
        f"{visible(row.name)} {form(row.difference)}, {form(row.lower)} to {form(row.upper)}"
        + (", may be the best" if row.kept else "")
        for row in rows
    )
    return drawing(
        "rivals",
        bottom + 34 + TITLE,
        "Differences from the baseline with their intervals",
        said + ".",
        drawn,
        [zero],
        bottom_axis(scale, bottom, title=f"better than {visible(baseline)} by, for each episode"),
    )


def _shown(rows: Sequence[RivalRow]) -> list[float]:
    """What the drawing must hold: no difference, all differences, and all but hopeless intervals."""
    some = [row for row in rows if math.isfinite(row.upper - row.lower)]
    narrower = sorted(some, key=lambda row: row.upper - row.lower)[: (len(some) + 1) // 2]
    core = [0.0, *(row.difference for row in rows), *_ends(narrower)]
    return without_outliers(core, _ends(some))


def _ends(rows: Sequence[RivalRow]) -> list[float]:
    return [end for row in rows for end in (row.lower, row.upper)]


def _row(row: RivalRow, scale: Scale, y: float) -> list[Markup]:
    tone = "headline" if row.kept else "plain"
    name = visible(row.name, LONGEST_NAME)
    drawn = [text(START, y - NAME_ABOVE, name, f"name {tone}", "start")]
    # Ends outside the drawing are put on its border.
    drawn.append(line(scale(row.lower), y, scale(row.upper), y, f"sampling {tone}"))
    if not scale.holds(row.difference):
        return drawn
    x = scale(row.difference)
    if row.kept:
        return [*drawn, diamond(x, y, 8, f"marker {tone}")]
    return [*drawn, element("rect", x=x - 5.5, y=y - 5.5, width=11, height=11, class_=f"marker {tone}")]
