"""Drawings: SVG elements with a title and a description that say the numbers, and axes.

Colours and letter sizes come from the style sheet by class, so that one drawing serves light, dark, phone and
paper. Letters grow on a phone; margins are wide enough for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from deadweight.report.charts.scale import Scale
from deadweight.report.markup import Markup, element

WIDTH = 640
LEFT, RIGHT = 84.0, 624.0
# Room for the title of an axis: below its tick labels, or above the drawing.
TITLE = 26.0


def drawing(name: str, height: float, title: str, description: str, *children: object) -> Markup:
    """A picture of numbers for everyone: seen as a drawing, read as its description."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        children,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def text(x: float, y: float, words: str, class_: str = "tick", anchor: str = "middle") -> Markup:
    """Words at a place; `anchor` says which end of them is there."""
    return element("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, id: str | None = None) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, id=id)


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return element("polyline", points=_points(points), class_=class_)


def band(lower: Sequence[tuple[float, float]], upper: Sequence[tuple[float, float]], class_: str) -> Markup:
    """The area between two lines."""
    return element("polygon", points=_points([*lower, *reversed(upper)]), class_=class_)


def bottom_axis(
    scale: Scale, bottom: float, labels: Sequence[tuple[float, str]] | None = None, title: str = ""
) -> list[Markup]:
    """Tick labels below the drawing, and what they measure; `labels` replaces the round ones."""
    marks = [(tick, scale.text(tick)) for tick in scale.ticks()] if labels is None else labels
    return [
        line(scale.start, bottom, scale.end, bottom, "axis"),
        *(line(scale(at), bottom, scale(at), bottom + 5, "axis") for at, _ in marks),
        *(text(scale(at), bottom + 24, words) for at, words in marks),
        *([text(scale.end, bottom + 24 + TITLE, title, "axis-title", "end")] if title else []),
    ]


def left_axis(scale: Scale, title: str = "") -> list[Markup]:
    """Tick labels left of the drawing, with a faint line across at each; above it what they measure."""
    return [
        *([text(0.0, min(scale.start, scale.end) - 20, title, "axis-title", "start")] if title else []),
        *(line(LEFT, scale(tick), RIGHT, scale(tick), "grid") for tick in scale.ticks()),
        *(text(LEFT - 10, scale(tick) + 5, scale.text(tick), anchor="end") for tick in scale.ticks()),
    ]


def diamond(x: float, y: float, size: float, class_: str) -> Markup:
    """A square on its corner."""
    return element(
        "polygon",
        points=_points([(x - size, y), (x, y - size), (x + size, y), (x, y + size)]),
        class_=class_,
    )


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
