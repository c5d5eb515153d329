"""The drawings of the pages: each a function of results, whose numbers its description says as well.

For an evaluation: the forest of its estimates, the path of dropping, states, weights and calibration; for a
comparison the forest of differences; and for every answer the difference that it is about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from deadweight.diagnostics.background import WeightsContent
from deadweight.diagnostics.dropping import Level, PathContent
from deadweight.diagnostics.states import StateReport
from deadweight.diagnostics.weight_report import WeightReport
from deadweight.log.labels import visible
from deadweight.report.markup import (
    LEFT,
    RIGHT,
    TITLE,
    WIDTH,
    Format,
    Markup,
    Scale,
    band,
    between,
    bottom_axis,
    circle,
    count,
    diamond,
    drawing,
    element,
    left_axis,
    line,
    polyline,
    significant,
    spanning,
    square,
    text,
    without_outliers,
)
from deadweight.results.comparison import Comparison
from deadweight.results.estimate import Estimate
from deadweight.results.evaluation import Verdict

NAMES_END = 146.0
FOREST_START = 160.0
FOREST_ROW, GAP, FOREST_TOP = 32.0, 12.0, 8.0


def forest(
    families: Sequence[Sequence[Estimate]],
    headline: Estimate,
    form: Format,
    truth: float | None = None,
    unit: str = "value of an episode",
) -> Markup:
    """A forest plot: the thick part of an interval is sampling error, the thin part bias allowance."""
    estimates = [estimate for family in families for estimate in family]
    known = [] if truth is None else [truth]
    scale = spanning([*_extent(estimates, headline), *known], FOREST_START, RIGHT - 10)
    drawn: list[Markup] = []
    y = FOREST_TOP
    for i, family in enumerate(families):
        height = FOREST_ROW * len(family)
        if i % 2 == 0:
            drawn.append(element("rect", x=0, y=y, width=640, height=height + GAP / 2, class_="stripe", rx=6))
        for estimate in family:
            drawn += _forest_row(estimate, scale, y + FOREST_ROW / 2 + GAP / 4, estimate is headline)
            y += FOREST_ROW
        y += GAP
    lines = [(estimate.value, "reference") for estimate in estimates if estimate.about.naive]
    lines += [(value, "truth") for value in known]
    described = [
        *(_described(estimate, form) for estimate in estimates),
        *(f"truth {form(v)}" for v in known),
    ]
    return drawing(
        "forest",
        y + 34 + TITLE,
        "Estimates with their intervals",
        "; ".join(described) + ".",
        drawn,
        [line(scale(value), FOREST_TOP, scale(value), y, class_) for value, class_ in lines],
        bottom_axis(scale, y, title=unit),
    )


def _extent(estimates: list[Estimate], headline: Estimate) -> list[float]:
    """The numbers that the scale must show: all values, the two intervals compared, others where they fit."""
    compared = [estimate for estimate in estimates if estimate is headline or estimate.about.naive]
    core = [estimate.value for estimate in estimates if abs(estimate.value) < 1e12] + _ends(compared)
    return without_outliers(without_outliers(_ends(compared) or core, core), _ends(estimates))


def _ends(estimates: list[Estimate]) -> list[float]:
    ends = [end for estimate in estimates for end in (*(estimate.interval or ()), estimate.centre)]
    return [end for end in ends if math.isfinite(end)]


def _forest_row(estimate: Estimate, scale: Scale, y: float, first: bool) -> list[Markup]:
    kind, bounds = estimate.about.kind, estimate.bounds
    tone = "headline" if first else "dropping" if kind in ("state-based", "corrected") else "plain"
    drawn = [text(NAMES_END, y + 5, estimate.name, f"name {tone}", "end")]
    if bounds is not None:
        drawn.append(line(scale(bounds.lower), y, scale(bounds.upper), y, f"whisker {tone}"))
        drawn += [_end(bounds.lower, -1, scale, y, tone), _end(bounds.upper, 1, scale, y, tone)]
        low, high = bounds.by_sampling
        drawn.append(line(scale(low), y, scale(high), y, f"sampling {tone}"))
    if scale.holds(estimate.value):
        x, class_ = scale(estimate.value), f"marker {tone}"
        marks = {"corrected": diamond(x, y, 8, class_), "state-based": circle(x, y, 6, class_)}
        drawn.append(marks.get(kind) or square(x, y, class_))
    return drawn


def _end(end: float, way: int, scale: Scale, y: float, tone: str) -> Markup:
    """A short bar, or an arrow head where the interval leaves the drawing."""
    x = scale(end)
    if scale.holds(end):
        return line(x, y - 5, x, y + 5, f"whisker {tone}")
    points = f"{x + 8 * way:.1f},{y:.1f} {x:.1f},{y - 5:.1f} {x:.1f},{y + 5:.1f}"
    return element("polygon", points=points, class_=f"arrow {tone}")


def _described(estimate: Estimate, form: Format) -> str:
    interval = "" if estimate.interval is None else f", interval {between(*estimate.interval, form)}"
    return f"{estimate.name} {form(estimate.value)}{interval}"


# --- The path

PATH_TOP, PATH_BOTTOM = 14.0 + TITLE, 250.0 + TITLE
ESS_TOP, ESS_BOTTOM = 290.0 + 2 * TITLE, 370.0 + 2 * TITLE
PATH_HEIGHT = 410.0 + 3 * TITLE
MOST_TICKS = 5


@dataclass(frozen=True)
class PathChart:
    """Estimate, correction and interval along the levels, effective episodes below.

    The slider's script moves the marks to the `places` of a level.
    """

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
        return spanning(without_outliers(core, ends, most=0.6), PATH_BOTTOM, PATH_TOP)

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
        places = {
            "x": self.x(k),
            "lower": self.y(lower),
            "upper": self.y(upper),
            "inner_lower": self.y(inner_lower),
            "inner_upper": self.y(inner_upper),
            "estimate": self.y(level.estimate),
            "corrected": self.y(level.corrected),
            "ess": self.ess(level.ess),
        }
        return {name: round(place, 1) for name, place in places.items()}

    def draw(self, form: Format) -> Markup:
        """The drawing, marked at the chosen level."""
        levels, at = self.path.levels, self.places(self.path.chosen)
        x, every = at["x"], max(1, math.ceil((len(levels) - 1) / MOST_TICKS))
        labels = [(float(k), count(level.n_dropped)) for k, level in enumerate(levels)][::every]
        sizes = [(self.x(k), self.ess(level.ess)) for k, level in enumerate(levels)]
        return drawing(
            "path",
            PATH_HEIGHT,
            "Estimate along the path of dropping",
            self._described(form),
            left_axis(self.y, title="value of an episode"),
            self._band([level.sampling_error + level.bias_allowance for level in levels], "band whole"),
            self._band([level.sampling_error for level in levels], "band inner"),
            self._line([level.estimate for level in levels], "line before"),
            self._line([level.corrected for level in levels], "line after"),
            band([(at, ESS_BOTTOM) for at, _ in sizes], sizes, "band inner"),
            polyline(sizes, "line after"),
            text(LEFT - 10, ESS_TOP + 9, count(max(level.ess for level in levels)), anchor="end"),
            bottom_axis(self.x, ESS_BOTTOM, labels, f"{self.path.dropped_things} dropped"),
            line(x, PATH_TOP, x, ESS_BOTTOM, "reference chosen"),
            line(x, PATH_TOP, x, ESS_BOTTOM, "cursor", id="mark-line"),
            line(x, at["lower"], x, at["upper"], "whisker headline", id="mark-whole"),
            line(x, at["inner_lower"], x, at["inner_upper"], "sampling headline", id="mark-sampling"),
            circle(x, at["estimate"], 5, "marker plain", id="mark-estimate"),
            circle(x, at["corrected"], 6, "marker headline", id="mark-corrected"),
            circle(x, at["ess"], 5, "marker headline", id="mark-ess"),
            text(0.0, ESS_TOP - 20, "effective episodes", "axis-title", "start"),  # above the mark's line
        )

    def _line(self, values: list[float], class_: str) -> Markup:
        return polyline([(self.x(k), self.y(value)) for k, value in enumerate(values)], class_)

    def _band(self, halves: list[float], class_: str) -> Markup:
        ends = [level.around(half) for level, half in zip(self.path.levels, halves, strict=True)]
        lower, upper = ([(self.x(k), self.y(end[side])) for k, end in enumerate(ends)] for side in (0, 1))
        return band(lower, upper, class_)

    def _described(self, form: Format) -> str:
        def say(level: Level) -> str:
            lower, upper = level.interval
            return (
                f"with {level.n_dropped} {self.path.dropped_things} dropped {form(level.corrected)}, "
                f"interval {form(lower)} to {form(upper)}, {count(level.ess)} effective episodes"
            )

        levels = self.path.levels
        chosen = levels[self.path.chosen]
        return f"{say(levels[0])}; chosen level: {say(chosen)}; last level: {say(levels[-1])}."


# --- The states

# Of the chart of calibration as well.
SCATTER_TOP, SCATTER_BOTTOM = 16.0 + TITLE, 290.0 + TITLE
SCATTER_HEIGHT = 330.0 + 2 * TITLE
# States that are named in the drawing, those first that cost most; letters are about so wide and high.
MOST_NAMED, LONGEST = 12, 16
LETTER = 8.5, 16.0


def scatter(states: StateReport) -> Markup:
    """Variance cost against bias: worth dropping are the states on the right, near zero.

    The arrow keys go from one mark to the next (page.js). The marks can be reached one by one, so that the
    drawing is a group of pictures and not a single one.
    """
    rows = states.rows()
    x = spanning([0.0, *(row["variance_cost"] for row in rows)], LEFT, RIGHT)
    y = spanning([0.0, *(row["bias"] for row in rows)], SCATTER_BOTTOM, SCATTER_TOP)
    drawable = [row for row in rows if math.isfinite(row["variance_cost"]) and math.isfinite(row["bias"])]
    size = 7.0 if len(drawable) <= 60 else 5.5
    ordered = sorted(drawable, key=lambda row: row["variance_cost"])
    return element(
        "svg",
        element("desc", f"{len(drawable)} states; the table below has their numbers.", id="scatter-desc"),
        left_axis(y, title="bias, in units of the return"),
        line(LEFT, y(0.0), RIGHT, y(0.0), "axis"),
        bottom_axis(x, SCATTER_BOTTOM, title="variance cost"),
        _names(ordered[::-1], x, y),
        [_point(row, x, y, size, first=row is ordered[-1]) for row in ordered],
        viewBox=f"0 0 {WIDTH} {SCATTER_HEIGHT:g}",
        role="group",
        id="scatter",
        aria_label="States by variance cost and bias; arrow keys go from state to state",
        aria_describedby="scatter-desc",
    )


def _names(rows: list[dict[str, Any]], x: Scale, y: Scale) -> list[Markup]:
    """The labels of the dearest states, as far as there is room; all are in the table and on hovering."""
    drawn: list[Markup] = []
    taken: list[tuple[float, float, float]] = []
    for row in rows[:MOST_NAMED]:
        label = row["state"] if len(row["state"]) <= LONGEST else row["state"][: LONGEST - 1] + "…"
        width, at, height = LETTER[0] * len(label), x(row["variance_cost"]), y(row["bias"])
        left = at - 12 - width if at + 12 + width > WIDTH else at + 12
        clear = all(
            abs(height - line_height) > LETTER[1] or left > end + 4 or left + width < start - 4
            for line_height, start, end in taken
        )
        if clear:
            taken.append((height, left, left + width))
            class_ = "state-name" if len(taken) <= 4 else "state-name extra"
            drawn.append(text(left, height + 5, label, class_, "start"))
    return drawn


def _point(row: dict[str, Any], x: Scale, y: Scale, size: float, first: bool) -> Markup:
    at = x(row["variance_cost"]), y(row["bias"])
    shape = diamond(*at, size, "marker dropped") if row["dropped"] else circle(*at, size - 1, "marker kept")
    cost, bias = significant(row["variance_cost"]), significant(row["bias"])
    kept = "dropped" if row["dropped"] else "kept"
    said = f"State {row['state']}: variance cost {cost}, bias {bias}, {kept}"
    return element("g", shape, class_="point", role="img", tabindex=0 if first else -1, aria_label=said)


# --- The weights

WEIGHTS_TOP, WEIGHTS_BOTTOM = 14.0 + TITLE, 230.0 + TITLE
WEIGHTS_HEIGHT = 270.0 + 2 * TITLE
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Points = list[tuple[float, float]]


def ess_by_step(weights: WeightsContent) -> Markup:
    """Effective episodes at each step, before and after dropping."""
    first, last = weights.steps[0], weights.steps[-1]
    x = Scale(float(first), float(max(last, first + 1)), LEFT, RIGHT)
    y = Scale(0.0, weights.reports[0].n_episodes * 1.05, WEIGHTS_BOTTOM, WEIGHTS_TOP)
    before, *rest = (
        [(x(step), y(ess)) for step, ess in zip(weights.steps, report.ess_steps.tolist(), strict=True)]
        for report in weights.reports
    )
    drawn = [polyline(before, "line before")]
    for after in rest:
        floor = [(at, WEIGHTS_BOTTOM) for at, _ in after]
        drawn = [band(floor, after, "band whole"), *drawn, polyline(after, "line after")]
    ticks = [(round(tick), count(tick)) for tick in x.ticks() if tick == round(tick)]
    return drawing(
        "ess",
        WEIGHTS_HEIGHT,
        "Effective episodes at each step",
        _told(
            weights,
            lambda report: (
                f"{count(report.ess_steps[0])} at step {first}, {count(report.ess_steps[-1])} at step {last}"
            ),
        ),
        left_axis(y, title="effective episodes"),
        drawn,
        bottom_axis(x, WEIGHTS_BOTTOM, ticks, "step of the episode"),
    )


def distribution(weights: WeightsContent) -> Markup:
    """The histogram of the episodes' weights, on a scale of powers of ten."""
    edges = weights.edges
    x = Scale(edges[0], edges[-1], LEFT, RIGHT)
    y = Scale(0.0, max(1, *map(max, weights.counts)) * 1.08, WEIGHTS_BOTTOM, WEIGHTS_TOP)

    def outline(counts: list[int]) -> Points:
        bins = zip(counts, pairwise(edges), strict=True)
        steps = [(x(edge), y(size)) for size, ends in bins for edge in ends]
        return [(x(edges[0]), WEIGHTS_BOTTOM), *steps, (x(edges[-1]), WEIGHTS_BOTTOM)]

    before, *rest = map(outline, weights.counts)
    drawn = [polyline(before, "line before")]
    for after in rest:
        floor = [(after[0][0], WEIGHTS_BOTTOM)]
        drawn = [band(floor, after, "band inner"), polyline(after, "line after"), *drawn]
    return drawing(
        "distribution",
        WEIGHTS_HEIGHT,
        "Distribution of the weights of episodes",
        _told(
            weights,
            lambda report: (
                f"the largest weight has {100 * report.largest_share:.2g} % of the sum, "
                f"{count(report.ess)} effective episodes"
            ),
        ),
        left_axis(y, title="episodes"),
        drawn,
        bottom_axis(x, WEIGHTS_BOTTOM, _powers(x), "weight of an episode at its end"),
    )


def _powers(x: Scale) -> list[tuple[float, str]]:
    """Ticks at powers of ten, in plain numbers where these are short."""
    whole = [tick for tick in x.ticks() if tick == round(tick)]
    if len(whole) < 2:
        return [(tick, significant(10.0**tick, 2)) for tick in x.ticks()]
    return [
        (tick, f"{10.0**tick:,g}" if abs(tick) <= 3 else "10" + f"{tick:.0f}".translate(RAISED))
        for tick in whole
    ]


def _told(weights: WeightsContent, say: Callable[[WeightReport], str]) -> str:
    whens = ("Before dropping", "After dropping")
    return " ".join(f"{when}: {say(each)}." for when, each in zip(whens, weights.reports, strict=False))


# --- Calibration

FAR = 3.0

Tenth = tuple[str, int, float, float, float]
"""Action, steps, predicted, observed, standard error of the observed share."""


def calibration_chart(tenths: Sequence[Tenth]) -> Markup:
    """A mark for each action and tenth of the steps, with two standard errors, and the line of right ones."""
    highest = max([0.1, *(max(predicted, seen + 2 * error) for _, _, predicted, seen, error in tenths)])
    x, y = Scale(0.0, highest, LEFT, RIGHT), Scale(0.0, highest, SCATTER_BOTTOM, SCATTER_TOP)
    far = sum(abs(seen - predicted) > FAR * max(error, 1e-12) for _, _, predicted, seen, error in tenths)
    return drawing(
        "calibration",
        SCATTER_HEIGHT,
        "Probabilities of actions and how often they were taken",
        f"{len(tenths)} groups of steps. In {far} of them the share of an action differs from its "
        f"probability by more than {FAR:g} standard errors.",
        left_axis(y, title="share of steps with the action"),
        # Both axes begin at the same zero: it is written once.
        bottom_axis(
            x,
            SCATTER_BOTTOM,
            [(at, x.text(at)) for at in x.ticks() if at > 0],
            "probability of the action",
        ),
        line(x(0.0), y(0.0), x(highest), y(highest), "axis"),
        [
            element(
                "g",
                line(x(predicted), y(seen - 2 * error), x(predicted), y(seen + 2 * error), "whisker plain"),
                circle(x(predicted), y(seen), 4, "marker kept"),
            )
            for _, _, predicted, seen, error in tenths
        ],
    )


# --- Differences

# Names stand above their lines, where long ones have room on a phone as well.
RIVALS_START, RIVALS_ROW, RIVALS_TOP = 16.0, 52.0, 8.0
NAME_ABOVE = 14.0
LONGEST_NAME = 36


def rivals(comparison: Comparison, form: Format) -> Markup:
    """Differences from the baseline, with simultaneous intervals; marked if a policy may be the best."""
    verdicts = {name: comparison.difference(name) for name in comparison.ranking}
    scale = spanning(_rival_extent(list(verdicts.values())), RIVALS_START, RIGHT - 10)
    drawn, said = [], []
    for place, (name, verdict) in enumerate(verdicts.items()):
        (lower, upper), kept = verdict.interval, name in comparison.may_be_best
        x, y = scale(verdict.difference), RIVALS_TOP + RIVALS_ROW * (place + 0.65)
        tone = "headline" if kept else "plain"
        drawn.append(text(RIVALS_START, y - NAME_ABOVE, visible(name, LONGEST_NAME), f"name {tone}", "start"))
        # Ends outside the drawing are put on its border.
        drawn.append(line(scale(lower), y, scale(upper), y, f"sampling {tone}"))
        if scale.holds(verdict.difference):
            drawn.append(diamond(x, y, 8, f"marker {tone}") if kept else square(x, y, f"marker {tone}"))
        best = ", may be the best" if kept else ""
        said.append(f"{visible(name)} {form(verdict.difference)}, {form(lower)} to {form(upper)}{best}")
    bottom = RIVALS_TOP + RIVALS_ROW * len(verdicts)
    return drawing(
        "rivals",
        bottom + 34 + TITLE,
        "Differences from the baseline with their intervals",
        "; ".join(said) + ".",
        drawn,
        [line(scale(0.0), RIVALS_TOP, scale(0.0), bottom, "reference")],
        bottom_axis(scale, bottom, title=f"better than {visible(comparison.baseline)} by, for each episode"),
    )


def _rival_extent(verdicts: list[Verdict]) -> list[float]:
    """The numbers that the scale must show: zero, all differences, and all but hopeless intervals."""
    intervals = [verdict.interval for verdict in verdicts]
    bounded = [ends for ends in intervals if math.isfinite(ends[1] - ends[0])]
    narrower = sorted(bounded, key=lambda ends: ends[1] - ends[0])[: (len(bounded) + 1) // 2]
    core = [0.0, *(verdict.difference for verdict in verdicts), *(end for ends in narrower for end in ends)]
    return without_outliers(core, [end for ends in bounded for end in ends])


DIFFERENCE_TOP, MIDDLE, DIFFERENCE_BOTTOM = 38.0, 62.0, 86.0


def difference(value: float, interval: tuple[float, float], baseline: str, form: Format) -> Markup:
    """The difference between two policies as one line: does its interval hold zero?"""
    lower, upper = interval
    scale = spanning([0.0, lower, upper, value], 24.0, 616.0, room=0.12)
    return drawing(
        "difference",
        DIFFERENCE_BOTTOM + 34 + TITLE,
        f"Difference between the new policy and the {baseline}",
        f"{form(value)}, interval {form(lower)} to {form(upper)}; zero means no difference.",
        line(scale(0.0), DIFFERENCE_TOP, scale(0.0), DIFFERENCE_BOTTOM, "reference"),
        text(scale(0.0), DIFFERENCE_TOP - 12, "no difference"),
        line(scale(lower), MIDDLE, scale(upper), MIDDLE, "sampling headline"),
        diamond(scale(value), MIDDLE, 10, "marker headline"),
        bottom_axis(scale, DIFFERENCE_BOTTOM, title=f"new policy minus {baseline}"),
    )
