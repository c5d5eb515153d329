"""The states as a scatter: variance cost against bias. Worth dropping are those on the right, near zero."""

from __future__ import annotations

import math

from deadweight.background.state_costs import StateRow
from deadweight.report.charts.scale import Scale, spanning
from deadweight.report.charts.svg import (
    LEFT,
    RIGHT,
    TITLE,
    WIDTH,
    bottom_axis,
    diamond,
    left_axis,
    line,
    text,
)
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import significant

TOP, BOTTOM = 16.0 + TITLE, 290.0 + TITLE
HEIGHT = 330.0 + 2 * TITLE
# States that are named in the drawing, those first that cost most; letters are about so wide and high.
MOST_NAMED, LONGEST = 12, 16
LETTER = 8.5, 16.0


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
        left_axis(y, title="bias, in units of the return"),
        line(LEFT, y(0.0), RIGHT, y(0.0), "axis"),
        bottom_axis(x, BOTTOM, title="variance cost"),
        _names(ordered[::-1], x, y),
        [_point(row, x, y, size, first=i == len(ordered) - 1) for i, row in enumerate(ordered)],
        viewBox=f"0 0 {WIDTH} {HEIGHT:g}",
        role="group",
        id="scatter",
        aria_label="States by variance cost and bias; arrow keys go from state to state",
        aria_describedby="scatter-desc",
    )


def _names(rows: list[StateRow], x: Scale, y: Scale) -> list[Markup]:
    """The labels of the dearest states, as far as there is room; all are in the table and on hovering."""
    drawn: list[Markup] = []
    taken: list[tuple[float, float, float]] = []
    for row in rows[:MOST_NAMED]:
        label = row.label if len(row.label) <= LONGEST else row.label[: LONGEST - 1] + "…"
        width, at, height = LETTER[0] * len(label), x(row.variance_cost), y(row.bias)
        left = at - 12 - width if at + 12 + width > WIDTH else at + 12
        clear = all(
            abs(height - other) > LETTER[1] or left > end + 4 or left + width < start - 4
            for other, start, end in taken
        )
        if clear:
            taken.append((height, left, left + width))
            extra = "state-name" if len(taken) <= 4 else "state-name extra"
            drawn.append(text(left, height + 5, label, extra, "start"))
    return drawn


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
