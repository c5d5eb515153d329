"""Weights as drawings: effective episodes at each step, and the distribution over episodes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from deadweight.background.weights_after_dropping import WeightsContent, WeightSummary
from deadweight.report.charts.scale import Scale
from deadweight.report.charts.svg import LEFT, RIGHT, TITLE, band, bottom_axis, drawing, left_axis, polyline
from deadweight.report.markup import Markup
from deadweight.report.numbers import count, significant

TOP, BOTTOM = 14.0 + TITLE, 230.0 + TITLE
HEIGHT = 270.0 + 2 * TITLE
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Points = list[tuple[float, float]]


def ess_by_step(weights: WeightsContent) -> Markup:
    """Effective episodes at each step, before and after dropping."""
    first, last = weights.steps[0], weights.steps[-1]
    x = Scale(float(first), float(max(last, first + 1)), LEFT, RIGHT)
    y = Scale(0.0, weights.n_episodes * 1.05, BOTTOM, TOP)

    def points(summary: WeightSummary) -> Points:
        return [(x(step), y(ess)) for step, ess in zip(weights.steps, summary.ess_steps, strict=True)]

    drawn = [polyline(points(weights.before), "line before")]
    if weights.after is not None:
        after = points(weights.after)
        drawn = [
            band([(at, BOTTOM) for at, _ in after], after, "band whole"),
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
        HEIGHT,
        "Effective episodes at each step",
        described,
        left_axis(y, title="effective episodes"),
        drawn,
        bottom_axis(x, BOTTOM, [(step, count(step)) for step in ticks], "step of the episode"),
    )


def distribution(weights: WeightsContent) -> Markup:
    """How many episodes have which weight, on a scale of powers of ten."""
    edges = weights.edges
    x = Scale(edges[0], edges[-1], LEFT, RIGHT)
    summaries = [weights.before] + ([] if weights.after is None else [weights.after])
    y = Scale(0.0, max(1, *(max(summary.counts) for summary in summaries)) * 1.08, BOTTOM, TOP)

    def outline(summary: WeightSummary) -> Points:
        steps = [
            (x(edge), y(size))
            for size, pair in zip(summary.counts, pairwise(edges), strict=True)
            for edge in pair
        ]
        return [(x(edges[0]), BOTTOM), *steps, (x(edges[-1]), BOTTOM)]

    drawn = [polyline(outline(weights.before), "line before")]
    if weights.after is not None:
        after = outline(weights.after)
        drawn = [band([(after[0][0], BOTTOM)], after, "band inner"), polyline(after, "line after"), *drawn]
    described = _told(
        weights,
        lambda summary: (
            f"the largest weight has {100 * summary.largest_share:.2g} % of the sum, "
            f"{count(summary.ess)} effective episodes"
        ),
    )
    return drawing(
        "distribution",
        HEIGHT,
        "Distribution of the weights of episodes",
        described,
        left_axis(y, title="episodes"),
        drawn,
        bottom_axis(x, BOTTOM, _powers(x), "weight of an episode at its end"),
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
