"""The path as a drawing: estimate, correction and interval along the levels, effective episodes below."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deadweight.background.path import Level, PathContent
from deadweight.report.charts.scale import Scale, spanning, without_outliers
from deadweight.report.charts.svg import (
    LEFT,
    RIGHT,
    band,
    bottom_axis,
    drawing,
    left_axis,
    line,
    polyline,
)
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import Format, count

TOP, BOTTOM = 14.0, 250.0
ESS_TOP, ESS_BOTTOM = 280.0, 360.0
HEIGHT = 400.0


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
        found = {
            "x": self.x(k),
            "lower": self.y(lower),
            "upper": self.y(upper),
            "inner_lower": self.y(level.corrected - level.sampling_error),
            "inner_upper": self.y(level.corrected + level.sampling_error),
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
            left_axis(self.y),
            self._bands(levels),
            polyline([(self.x(k), self.y(level.estimate)) for k, level in enumerate(levels)], "line before"),
            polyline([(self.x(k), self.y(level.corrected)) for k, level in enumerate(levels)], "line after"),
            self._ess_panel(levels),
            bottom_axis(self.x, ESS_BOTTOM, self._level_labels()),
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
        )

    def _bands(self, levels: list[Level]) -> list[Markup]:
        def between(half: list[float], class_: str) -> Markup:
            spots = list(enumerate(zip(levels, half, strict=True)))
            return band(
                [(self.x(k), self.y(level.corrected - h)) for k, (level, h) in spots],
                [(self.x(k), self.y(level.corrected + h)) for k, (level, h) in spots],
                class_,
            )

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
        shown = sorted({round(last * share / 4) for share in range(5)})
        return [(k, count(self.path.levels[k].n_dropped)) for k in shown]

    def _described(self, form: Format) -> str:
        def say(k: int) -> str:
            level = self.path.levels[k]
            lower, upper = level.interval
            return (
                f"with {level.n_dropped} states dropped {form(level.corrected)}, interval {form(lower)} to "
                f"{form(upper)}, {count(level.ess)} effective episodes"
            )

        return (
            f"{say(0)}; chosen level: {say(self.path.chosen)}; last level: {say(len(self.path.levels) - 1)}."
        )
