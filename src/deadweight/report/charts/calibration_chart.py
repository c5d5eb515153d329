"""Calibration: predicted probabilities of actions against the shares in which they were taken."""

from __future__ import annotations

from collections.abc import Sequence

from deadweight.report.charts.scale import Scale
from deadweight.report.charts.svg import LEFT, RIGHT, TITLE, bottom_axis, drawing, left_axis, line
from deadweight.report.markup import Markup, element

TOP, BOTTOM = 16.0 + TITLE, 290.0 + TITLE
HEIGHT = 330.0 + 2 * TITLE
FAR = 3.0

Tenth = tuple[str, int, float, float, float]
"""Action, steps, predicted, observed, standard error of the observed share."""


def calibration_chart(tenths: Sequence[Tenth]) -> Markup:
    """A mark for each action and tenth of the steps, with two standard errors, and the line of right ones."""
    highest = max([0.1, *(max(one[2], one[3] + 2 * one[4]) for one in tenths)])
    x, y = Scale(0.0, highest, LEFT, RIGHT), Scale(0.0, highest, BOTTOM, TOP)
    far = [one for one in tenths if abs(one[3] - one[2]) > FAR * max(one[4], 1e-12)]
    said = (
        f"{len(tenths)} groups of steps. In {len(far)} of them the share of an action differs from its "
        f"probability by more than {FAR:g} standard errors."
    )
    return drawing(
        "calibration",
        HEIGHT,
        "Probabilities of actions and how often they were taken",
        said,
        left_axis(y, title="share of steps with the action"),
        # Both axes begin at the same zero: it is written once.
        bottom_axis(x, BOTTOM, [(at, x.text(at)) for at in x.ticks() if at > 0], "probability of the action"),
        line(x(0.0), y(0.0), x(highest), y(highest), "axis"),
        [_mark(one, x, y) for one in tenths],
    )


def _mark(one: Tenth, x: Scale, y: Scale) -> Markup:
    _, _, predicted, observed, error = one
    at = x(predicted)
    return element(
        "g",
        line(at, y(observed - 2 * error), at, y(observed + 2 * error), "whisker plain"),
        element("circle", cx=at, cy=y(observed), r=4, class_="marker kept"),
    )
