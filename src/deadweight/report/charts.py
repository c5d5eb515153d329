"""The forest plot: every estimate with its interval, plain and state-based ones of a family side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

from deadweight.diagnostics.background import StateRow, WeightsContent, WeightSummary
from deadweight.diagnostics.headline_path import Level, PathContent
from deadweight.log.labels import visible
from deadweight.report.content import EstimateRow
from deadweight.report.svg import (
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
    count,
    diamond,
    drawing,
    element,
    left_axis,
    line,
    polyline,
    significant,
    spanning,
    text,
    without_outliers,
)
from deadweight.results.evaluation import Verdict

NAMES_END = 146.0
FOREST_START = 160.0
FOREST_ROW, GAP, FOREST_TOP = 32.0, 12.0, 8.0


def forest(
    rows: list[EstimateRow],
    headline: EstimateRow,
    form: Format,
    truth: float | None = None,
    unit: str = "value of an episode",
) -> Markup:
    """One line an estimate; the thick part of an interval is sampling error, the thin part bias allowance."""
    known = [] if truth is None else [truth]
    scale = spanning([*_extent(rows, headline), *known], FOREST_START, RIGHT - 10)
    drawn: list[Markup] = []
    y = FOREST_TOP
    families = [
        list(group) for _, group in groupby(rows, key=lambda row: row.kind == "baseline" or row.family)
    ]
    for i, family in enumerate(families):
        height = FOREST_ROW * len(family)
        if i % 2 == 0:
            drawn.append(element("rect", x=0, y=y, width=640, height=height + GAP / 2, class_="stripe", rx=6))
        for row in family:
            drawn += _forest_row(row, scale, y + FOREST_ROW / 2 + GAP / 4, row is headline)
            y += FOREST_ROW
        y += GAP
    behaviour = [row for row in rows if row.naive]
    reference = [line(scale(row.value), FOREST_TOP, scale(row.value), y, "reference") for row in behaviour]
    reference += [line(scale(value), FOREST_TOP, scale(value), y, "truth") for value in known]
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
    core = [row.value for row in rows if abs(row.value) < 1e12] + _estimate_ends(compared)
    return without_outliers(without_outliers(_estimate_ends(compared) or core, core), _estimate_ends(rows))


def _estimate_ends(rows: list[EstimateRow]) -> list[float]:
    ends = [end for row in rows for end in (row.lower, row.upper, row.centre) if end is not None]
    return [end for end in ends if math.isfinite(end)]


def _forest_row(row: EstimateRow, scale: Scale, y: float, first: bool) -> list[Markup]:
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


# --------------------------------------------------------------------------------------------------------
# The path as a drawing: estimate, correction and interval along the levels, effective episodes below.

PATH_TOP, PATH_BOTTOM = 14.0 + TITLE, 250.0 + TITLE
ESS_TOP, ESS_BOTTOM = 290.0 + 2 * TITLE, 370.0 + 2 * TITLE
PATH_HEIGHT = 410.0 + 3 * TITLE
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
            PATH_HEIGHT,
            "Estimate along the path of dropping",
            self._described(form),
            left_axis(self.y, title="value of an episode"),
            self._bands(levels),
            polyline([(self.x(k), self.y(level.estimate)) for k, level in enumerate(levels)], "line before"),
            polyline([(self.x(k), self.y(level.corrected)) for k, level in enumerate(levels)], "line after"),
            self._ess_panel(levels),
            bottom_axis(self.x, ESS_BOTTOM, self._level_labels(), f"{self.path.dropped_things} dropped"),
            line(at["x"], PATH_TOP, at["x"], ESS_BOTTOM, "reference chosen"),
            line(at["x"], PATH_TOP, at["x"], ESS_BOTTOM, "cursor", id="mark-line"),
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


# --------------------------------------------------------------------------------------------------------
# The states as a scatter: variance cost against bias. Worth dropping are those on the right, near zero.

SCATTER_TOP, SCATTER_BOTTOM = 16.0 + TITLE, 290.0 + TITLE
SCATTER_HEIGHT = 330.0 + 2 * TITLE
# States that are named in the drawing, those first that cost most; letters are about so wide and high.
MOST_NAMED, LONGEST = 12, 16
LETTER = 8.5, 16.0


def scatter(rows: list[StateRow]) -> Markup:
    """A mark for each state; the arrow keys go from one to the next (page.js).

    The marks can be reached one by one, so that the drawing is a group of pictures and not a single one.
    """
    x = spanning([0.0, *(row.variance_cost for row in rows)], LEFT, RIGHT)
    y = spanning([0.0, *(row.bias for row in rows)], SCATTER_BOTTOM, SCATTER_TOP)
    drawable = [row for row in rows if math.isfinite(row.variance_cost) and math.isfinite(row.bias)]
    size = 7.0 if len(drawable) <= 60 else 5.5
    ordered = sorted(drawable, key=lambda row: row.variance_cost)
    return element(
        "svg",
        element("desc", f"{len(drawable)} states; the table below has their numbers.", id="scatter-desc"),
        left_axis(y, title="bias, in units of the return"),
        line(LEFT, y(0.0), RIGHT, y(0.0), "axis"),
        bottom_axis(x, SCATTER_BOTTOM, title="variance cost"),
        _names(ordered[::-1], x, y),
        [_point(row, x, y, size, first=i == len(ordered) - 1) for i, row in enumerate(ordered)],
        viewBox=f"0 0 {WIDTH} {SCATTER_HEIGHT:g}",
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


# --------------------------------------------------------------------------------------------------------
# Weights as drawings: effective episodes at each step, and the distribution over episodes.

WEIGHTS_TOP, WEIGHTS_BOTTOM = 14.0 + TITLE, 230.0 + TITLE
WEIGHTS_HEIGHT = 270.0 + 2 * TITLE
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Points = list[tuple[float, float]]


def ess_by_step(weights: WeightsContent) -> Markup:
    """Effective episodes at each step, before and after dropping."""
    first, last = weights.steps[0], weights.steps[-1]
    x = Scale(float(first), float(max(last, first + 1)), LEFT, RIGHT)
    y = Scale(0.0, weights.n_episodes * 1.05, WEIGHTS_BOTTOM, WEIGHTS_TOP)

    def points(summary: WeightSummary) -> Points:
        return [(x(step), y(ess)) for step, ess in zip(weights.steps, summary.ess_steps, strict=True)]

    drawn = [polyline(points(weights.before), "line before")]
    if weights.after is not None:
        after = points(weights.after)
        drawn = [
            band([(at, WEIGHTS_BOTTOM) for at, _ in after], after, "band whole"),
            *drawn,
            polyline(after, "line after"),
        ]
    described = _told(
        weights,
        lambda summary: (
            f"{count(summary.ess_steps[0])} at step {first}, {count(summary.ess_steps[-1])} at step {last}"
        ),
    )
    ticks = [round(tick) for tick in x.ticks() if tick == round(tick)]
    return drawing(
        "ess",
        WEIGHTS_HEIGHT,
        "Effective episodes at each step",
        described,
        left_axis(y, title="effective episodes"),
        drawn,
        bottom_axis(x, WEIGHTS_BOTTOM, [(step, count(step)) for step in ticks], "step of the episode"),
    )


def distribution(weights: WeightsContent) -> Markup:
    """How many episodes have which weight, on a scale of powers of ten."""
    edges = weights.edges
    x = Scale(edges[0], edges[-1], LEFT, RIGHT)
    summaries = [weights.before] + ([] if weights.after is None else [weights.after])
    y = Scale(
        0.0, max(1, *(max(summary.counts) for summary in summaries)) * 1.08, WEIGHTS_BOTTOM, WEIGHTS_TOP
    )

    def outline(summary: WeightSummary) -> Points:
        steps = [
            (x(edge), y(size))
            for size, pair in zip(summary.counts, pairwise(edges), strict=True)
            for edge in pair
        ]
        return [(x(edges[0]), WEIGHTS_BOTTOM), *steps, (x(edges[-1]), WEIGHTS_BOTTOM)]

    drawn = [polyline(outline(weights.before), "line before")]
    if weights.after is not None:
        after = outline(weights.after)
        drawn = [
            band([(after[0][0], WEIGHTS_BOTTOM)], after, "band inner"),
            polyline(after, "line after"),
            *drawn,
        ]
    described = _told(
        weights,
        lambda summary: (
            f"the largest weight has {100 * summary.largest_share:.2g} % of the sum, "
            f"{count(summary.ess)} effective episodes"
        ),
    )
    return drawing(
        "distribution",
        WEIGHTS_HEIGHT,
        "Distribution of the weights of episodes",
        described,
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


def _told(weights: WeightsContent, say: Callable[[WeightSummary], str]) -> str:
    told = f"Before dropping: {say(weights.before)}."
    return told if weights.after is None else f"{told} After dropping: {say(weights.after)}."


# --------------------------------------------------------------------------------------------------------
# Calibration: predicted probabilities of actions against the shares in which they were taken.

CALIBRATION_TOP, CALIBRATION_BOTTOM = 16.0 + TITLE, 290.0 + TITLE
CALIBRATION_HEIGHT = 330.0 + 2 * TITLE
FAR = 3.0

Tenth = tuple[str, int, float, float, float]
"""Action, steps, predicted, observed, standard error of the observed share."""


def calibration_chart(tenths: Sequence[Tenth]) -> Markup:
    """A mark for each action and tenth of the steps, with two standard errors, and the line of right ones."""
    highest = max([0.1, *(max(one[2], one[3] + 2 * one[4]) for one in tenths)])
    x, y = Scale(0.0, highest, LEFT, RIGHT), Scale(0.0, highest, CALIBRATION_BOTTOM, CALIBRATION_TOP)
    far = [one for one in tenths if abs(one[3] - one[2]) > FAR * max(one[4], 1e-12)]
    said = (
        f"{len(tenths)} groups of steps. In {len(far)} of them the share of an action differs from its "
        f"probability by more than {FAR:g} standard errors."
    )
    return drawing(
        "calibration",
        CALIBRATION_HEIGHT,
        "Probabilities of actions and how often they were taken",
        said,
        left_axis(y, title="share of steps with the action"),
        # Both axes begin at the same zero: it is written once.
        bottom_axis(
            x,
            CALIBRATION_BOTTOM,
            [(at, x.text(at)) for at in x.ticks() if at > 0],
            "probability of the action",
        ),
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


# --------------------------------------------------------------------------------------------------------
# The forest of differences: every policy less the baseline, with intervals that hold all at once.

# Names stand above their lines, where long ones have room on a phone as well.
RIVALS_START, RIVALS_ROW, RIVALS_TOP = 16.0, 52.0, 8.0
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
    scale = spanning(_shown(rows), RIVALS_START, RIGHT - 10)
    drawn: list[Markup] = []
    for place, row in enumerate(rows):
        drawn += _rival_row(row, scale, RIVALS_TOP + RIVALS_ROW * (place + 0.65))
    bottom = RIVALS_TOP + RIVALS_ROW * len(rows)
    zero = line(scale(0.0), RIVALS_TOP, scale(0.0), bottom, "reference")
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
    core = [0.0, *(row.difference for row in rows), *_rival_ends(narrower)]
    return without_outliers(core, _rival_ends(some))


def _rival_ends(rows: Sequence[RivalRow]) -> list[float]:
    return [end for row in rows for end in (row.lower, row.upper)]


def _rival_row(row: RivalRow, scale: Scale, y: float) -> list[Markup]:
    tone = "headline" if row.kept else "plain"
    name = visible(row.name, LONGEST_NAME)
    drawn = [text(RIVALS_START, y - NAME_ABOVE, name, f"name {tone}", "start")]
    # Ends outside the drawing are put on its border.
    drawn.append(line(scale(row.lower), y, scale(row.upper), y, f"sampling {tone}"))
    if not scale.holds(row.difference):
        return drawn
    x = scale(row.difference)
    if row.kept:
        return [*drawn, diamond(x, y, 8, f"marker {tone}")]
    return [*drawn, element("rect", x=x - 5.5, y=y - 5.5, width=11, height=11, class_=f"marker {tone}")]


# --------------------------------------------------------------------------------------------------------
# The difference between the two policies as one line: does its interval hold zero?

DIFFERENCE_TOP, MIDDLE, DIFFERENCE_BOTTOM = 38.0, 62.0, 86.0


def difference(verdict: Verdict, baseline: str, form: Format) -> Markup:
    """The interval of the difference against zero."""
    lower, upper = verdict.interval
    scale = spanning([0.0, lower, upper, verdict.difference], 24.0, 616.0, room=0.12)
    return drawing(
        "difference",
        DIFFERENCE_BOTTOM + 34 + TITLE,
        f"Difference between the new policy and the {baseline}",
        f"{form(verdict.difference)}, interval {form(lower)} to {form(upper)}; zero means no difference.",
        line(scale(0.0), DIFFERENCE_TOP, scale(0.0), DIFFERENCE_BOTTOM, "reference"),
        text(scale(0.0), DIFFERENCE_TOP - 12, "no difference"),
        line(scale(lower), MIDDLE, scale(upper), MIDDLE, "sampling headline"),
        diamond(scale(verdict.difference), MIDDLE, 10, "marker headline"),
        bottom_axis(scale, DIFFERENCE_BOTTOM, title=f"new policy minus {baseline}"),
    )
