"""The path as a drawing: estimate, correction and interval along the levels, effective episodes below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from deadweight.background.headline_path import Level, PathContent
from deadweight.report.charts.scale import Scale, spanning, without_outliers
from deadweight.report.charts.svg import (
    LEFT,
    RIGHT,
    TITLE,
    band,
    bottom_axis,
    drawing,
    left_axis,
    line,
    polyline,
    text,
)
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import Format, count

TOP, BOTTOM = 14.0 + TITLE, 250.0 + TITLE
ESS_TOP, ESS_BOTTOM = 290.0 + 2 * TITLE, 370.0 + 2 * TITLE
HEIGHT = 410.0 + 3 * TITLE
MOST_TICKS = 5


@dataclass(frozen=True)
class PathChart:
    """Where everything on the path is drawn; the slider's script moves the marks to these places."""

    path: PathContent

    @cached_property
    def x(self) -> Scale:
        """Levels, evenly spaced."""
        return Scale(0.0, max(1.0, len(self.path.levels) - 1.0), LEFT, RIGHT)

    @cached_property
    def y(self) -> Scale:
        """Values: all estimates, and intervals as far as they fit."""
        levels = self.path.levels
        chosen = levels[self.path.chosen]
        core = [value for level in levels for value in (level.corrected, level.estimate)]
        core = without_outliers([*chosen.interval, chosen.corrected, chosen.estimate], core)
        ends = [end for level in levels for end in level.interval]
        return spanning(without_outliers(core, ends, most=0.6), BOTTOM, TOP)

    @cached_property
    def ess(self) -> Scale:
        """Effective episodes, from zero."""
        most = max([1.0, *(level.ess for level in self.path.levels)])
        return Scale(0.0, most * 1.05, ESS_BOTTOM, ESS_TOP)

    def places(self, k: int) -> dict[str, float]:
        """The marks of level k."""
        level = self.path.levels[k]
        lower, upper = level.interval
        inner_lower, inner_upper = level.around(level.sampling_error)
        found = {
            "x": self.x(k),
            "lower": self.y(lower),
            "upper": self.y(upper),
            "inner_lower": self.y(inner_lower),
            "inner_upper": self.y(inner_upper),
            "estimate": self.y(level.estimate),
            "corrected": self.y(level.corrected),
            "ess": self.ess(level.ess),
        }
        return {name: round(place, 1) for name, place in found.items()}

    def draw(self, form: Format) -> Markup:
        """The drawing, marked at the chosen level."""
        levels, at = self.path.levels, self.places(self.path.chosen)
        return drawing(
            "path",
            HEIGHT,
            "Estimate along the path of dropping",
            self._described(form),
            left_axis(self.y, title="value of an episode"),
            self._bands(levels),
            polyline([(self.x(k), self.y(level.estimate)) for k, level in enumerate(levels)], "line before"),
            polyline([(self.x(k), self.y(level.corrected)) for k, level in enumerate(levels)], "line after"),
            self._ess_panel(levels),
            bottom_axis(self.x, ESS_BOTTOM, self._level_labels(), f"{self.path.dropped_things} dropped"),
            line(at["x"], TOP, at["x"], ESS_BOTTOM, "reference chosen"),
            line(at["x"], TOP, at["x"], ESS_BOTTOM, "cursor", id="mark-line"),
            line(at["x"], at["lower"], at["x"], at["upper"], "whisker headline", id="mark-whole"),
            line(
                at["x"],
                at["inner_lower"],
                at["x"],
                at["inner_upper"],
                "sampling headline",
                id="mark-sampling",
            ),
            element("circle", cx=at["x"], cy=at["estimate"], r=5, class_="marker plain", id="mark-estimate"),
            element(
                "circle", cx=at["x"], cy=at["corrected"], r=6, class_="marker headline", id="mark-corrected"
            ),
            element("circle", cx=at["x"], cy=at["ess"], r=5, class_="marker headline", id="mark-ess"),
            text(
                0.0, ESS_TOP - 20, "effective episodes", "axis-title", "start"
            ),  # above the line of the mark
        )

    def _bands(self, levels: list[Level]) -> list[Markup]:
        def between(half: list[float], class_: str) -> Markup:
            ends = [level.around(h) for level, h in zip(levels, half, strict=True)]
            lower, upper = ([(self.x(k), self.y(end[side])) for k, end in enumerate(ends)] for side in (0, 1))
            return band(lower, upper, class_)

        return [
            between([level.sampling_error + level.bias_allowance for level in levels], "band whole"),
            between([level.sampling_error for level in levels], "band inner"),
        ]

    def _ess_panel(self, levels: list[Level]) -> list[Markup]:
        points = [(self.x(k), self.ess(level.ess)) for k, level in enumerate(levels)]
        floor = [(x, ESS_BOTTOM) for x, _ in points]
        top = element(
            "text",
            count(max(level.ess for level in levels)),
            x=LEFT - 10,
            y=ESS_TOP + 9,
            class_="tick",
            text_anchor="end",
        )
        return [band(floor, points, "band inner"), polyline(points, "line after"), top]

    def _level_labels(self) -> list[tuple[float, str]]:
        """The number of dropped states at some of the levels."""
        last = len(self.path.levels) - 1
        step = max(1, math.ceil(last / MOST_TICKS))
        return [(k, count(self.path.levels[k].n_dropped)) for k in range(0, last + 1, step)]

    def _described(self, form: Format) -> str:
        def say(k: int) -> str:
            level = self.path.levels[k]
            lower, upper = level.interval
            return (
                f"with {level.n_dropped} {self.path.dropped_things} dropped {form(level.corrected)}, "
                f"interval {form(lower)} to {form(upper)}, {count(level.ess)} effective episodes"
            )

        return (
            f"{say(0)}; chosen level: {say(self.path.chosen)}; last level: {say(len(self.path.levels) - 1)}."
        )
