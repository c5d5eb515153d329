"""The forest plot: every estimate with its interval, plain and state-based ones of a family side by side."""

from __future__ import annotations

import math
from itertools import groupby

from deadweight.report.charts.scale import Scale, spanning, without_outliers
from deadweight.report.charts.svg import RIGHT, TITLE, bottom_axis, diamond, drawing, line, text
from deadweight.report.content.estimate_rows import EstimateRow
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import Format, between

NAMES_END = 146.0
START = 160.0
ROW, GAP, TOP = 32.0, 12.0, 8.0


def forest(
    rows: list[EstimateRow],
    headline: EstimateRow,
    form: Format,
    truth: float | None = None,
    unit: str = "value of an episode",
) -> Markup:
    """One line an estimate; the thick part of an interval is sampling error, the thin part bias allowance."""
    known = [] if truth is None else [truth]
    scale = spanning([*_extent(rows, headline), *known], START, RIGHT - 10)
    drawn: list[Markup] = []
    y = TOP
    families = [
        list(group) for _, group in groupby(rows, key=lambda row: row.kind == "baseline" or row.family)
    ]
    for i, family in enumerate(families):
        height = ROW * len(family)
        if i % 2 == 0:
            drawn.append(element("rect", x=0, y=y, width=640, height=height + GAP / 2, class_="stripe", rx=6))
        for row in family:
            drawn += _row(row, scale, y + ROW / 2 + GAP / 4, row is headline)
            y += ROW
        y += GAP
    behaviour = [row for row in rows if row.naive]
    reference = [line(scale(row.value), TOP, scale(row.value), y, "reference") for row in behaviour]
    reference += [line(scale(value), TOP, scale(value), y, "truth") for value in known]
    described = "; ".join([*(_described(row, form) for row in rows), *(f"truth {form(v)}" for v in known)])
    return drawing(
        "forest",
        y + 34 + TITLE,
        "Estimates with their intervals",
        described + ".",
        drawn,
        reference,
        bottom_axis(scale, y, title=unit),
    )


def _extent(rows: list[EstimateRow], headline: EstimateRow) -> list[float]:
    """What the scale shows: all values, the two intervals that are compared, others where they fit."""
    compared = [row for row in rows if row is headline or row.naive]
    core = [row.value for row in rows if abs(row.value) < 1e12] + _ends(compared)
    return without_outliers(without_outliers(_ends(compared) or core, core), _ends(rows))


def _ends(rows: list[EstimateRow]) -> list[float]:
    ends = [end for row in rows for end in (row.lower, row.upper, row.centre) if end is not None]
    return [end for end in ends if math.isfinite(end)]


def _row(row: EstimateRow, scale: Scale, y: float, first: bool) -> list[Markup]:
    state_based = row.kind in ("state-based", "corrected")
    tone = "headline" if first else "dropping" if state_based else "plain"
    drawn = [text(NAMES_END, y + 5, row.name, f"name {tone}", "end")]
    if row.lower is not None and row.upper is not None:
        drawn += [
            line(scale(row.lower), y, scale(row.upper), y, f"whisker {tone}"),
            *_ends_of(row, scale, y, tone),
        ]
        low, high = row.by_sampling or (row.lower, row.upper)
        drawn.append(line(scale(low), y, scale(high), y, f"sampling {tone}"))
    return [*drawn, _marker(row, scale, y, tone)] if scale.holds(row.value) else drawn


def _ends_of(row: EstimateRow, scale: Scale, y: float, tone: str) -> list[Markup]:
    """A short bar at each end, or an arrow head where the interval leaves the drawing."""
    drawn = []
    for end, way in ((row.lower, -1), (row.upper, 1)):
        assert end is not None
        x = scale(end)
        if scale.holds(end):
            drawn.append(line(x, y - 5, x, y + 5, f"whisker {tone}"))
        else:
            points = f"{x + 8 * way:.1f},{y:.1f} {x:.1f},{y - 5:.1f} {x:.1f},{y + 5:.1f}"
            drawn.append(element("polygon", points=points, class_=f"arrow {tone}"))
    return drawn


def _marker(row: EstimateRow, scale: Scale, y: float, tone: str) -> Markup:
    x = scale(row.value)
    if row.kind == "corrected":
        return diamond(x, y, 8, f"marker {tone}")
    if row.kind == "state-based":
        return element("circle", cx=x, cy=y, r=6, class_=f"marker {tone}")
    return element("rect", x=x - 5.5, y=y - 5.5, width=11, height=11, class_=f"marker {tone}")


def _described(row: EstimateRow, form: Format) -> str:
    words = f"{row.name} {form(row.value)}"
    if row.lower is not None and row.upper is not None:
        words += f", interval {between(row.lower, row.upper, form)}"
    return words
