"""The states as a scatter: variance cost against bias. Worth dropping are those on the right, near zero."""

from __future__ import annotations

import math

from deadweight.background.states import StateRow
from deadweight.report.charts.scale import Scale, spanning
from deadweight.report.charts.svg import LEFT, RIGHT, WIDTH, bottom_axis, diamond, left_axis, line
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import significant

TOP, BOTTOM = 16.0, 290.0
HEIGHT = 330.0


def scatter(rows: list[StateRow]) -> Markup:
    """A mark for each state; the arrow keys go from one to the next (page.js).

    The marks can be reached one by one, so that the drawing is a group of pictures and not a single one.
    """
    x = spanning([0.0, *(row.variance_cost for row in rows)], LEFT, RIGHT)
    y = spanning([0.0, *(row.bias for row in rows)], BOTTOM, TOP)
    drawable = [row for row in rows if math.isfinite(row.variance_cost) and math.isfinite(row.bias)]
    size = 7.0 if len(drawable) <= 60 else 5.5
    ordered = sorted(drawable, key=lambda row: row.variance_cost)
    return element(
        "svg",
        element("desc", f"{len(drawable)} states; the table below has their numbers.", id="scatter-desc"),
        left_axis(y),
        line(LEFT, y(0.0), RIGHT, y(0.0), "axis"),
        bottom_axis(x, BOTTOM),
        [_point(row, x, y, size, first=i == len(ordered) - 1) for i, row in enumerate(ordered)],
        viewBox=f"0 0 {WIDTH} {HEIGHT:g}",
        role="group",
        id="scatter",
        aria_label="States by variance cost and bias; arrow keys go from state to state",
        aria_describedby="scatter-desc",
    )


def _point(row: StateRow, x: Scale, y: Scale, size: float, first: bool) -> Markup:
    at = x(row.variance_cost), y(row.bias)
    shape = (
        diamond(*at, size, "marker dropped")
        if row.dropped
        else element("circle", cx=at[0], cy=at[1], r=size - 1, class_="marker kept")
    )
    said = (
        f"State {row.label}: variance cost {significant(row.variance_cost)}, bias {significant(row.bias)}, "
        f"{'dropped' if row.dropped else 'kept'}"
    )
    return element("g", shape, class_="point", role="img", tabindex=0 if first else -1, aria_label=said)
