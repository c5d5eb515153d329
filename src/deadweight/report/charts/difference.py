"""The difference between the two policies as one line: does its interval hold zero?"""

from __future__ import annotations

from deadweight.report.charts.scale import spanning
from deadweight.report.charts.svg import TITLE, bottom_axis, diamond, drawing, line, text
from deadweight.report.markup import Markup
from deadweight.report.numbers import Format
from deadweight.results import Verdict

TOP, MIDDLE, BOTTOM = 38.0, 62.0, 86.0


def difference(verdict: Verdict, baseline: str, form: Format) -> Markup:
    """The interval of the difference against zero."""
    lower, upper = verdict.interval
    scale = spanning([0.0, lower, upper, verdict.difference], 24.0, 616.0, room=0.12)
    return drawing(
        "difference",
        BOTTOM + 34 + TITLE,
        f"Difference between the new policy and the {baseline}",
        f"{form(verdict.difference)}, interval {form(lower)} to {form(upper)}; zero means no difference.",
        line(scale(0.0), TOP, scale(0.0), BOTTOM, "reference"),
        text(scale(0.0), TOP - 12, "no difference"),
        line(scale(lower), MIDDLE, scale(upper), MIDDLE, "sampling headline"),
        diamond(scale(verdict.difference), MIDDLE, 10, "marker headline"),
        bottom_axis(scale, BOTTOM, title=f"new policy minus {baseline}"),
    )
