"""The weights: how many episodes carry the estimate, at each step and in all."""

from __future__ import annotations

import math
from collections.abc import Callable

from deadweight.background.headline_path import PATH_OF
from deadweight.background.weights_after_dropping import WeightsContent, WeightSummary
from deadweight.report.charts.svg import line
from deadweight.report.charts.weights_chart import distribution, ess_by_step
from deadweight.report.content import Content
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import count, share, significant
from deadweight.report.sections.pieces import figure, key_entry, note, row, section, table

# Above it a mean of such weights should not be trusted.
HEAVY_TAIL = 0.7


def weights_section(content: Content) -> Markup:
    """Effective episodes by step, the distribution of weights, and their numbers."""
    weights = content.weights
    after = weights.after is not None
    things = "states" if content.features is None else "steps"
    key = [key_entry(line(2, 8, 26, 8, "line before"), "all weights kept")]
    if after:
        key.append(key_entry(line(2, 8, 26, 8, "line after"), f"{things} dropped as in {_dropping(content)}"))
    return section(
        "weights",
        "How many episodes count",
        element(
            "p",
            "Weights make the log look as if the new policy had acted. The more they differ, the fewer "
            "episodes effectively carry the estimate.",
            "" if after else " Nothing is dropped here, so there is one set of weights.",
        ),
        figure(ess_by_step(weights), "Effective episodes, by step of the episode", key),
        figure(distribution(weights), "Episodes, by the weight that they end with", key),
        _table(weights, things),
        note(
            f"Pareto k describes the heaviness of the tail: above {HEAVY_TAIL:g} a few episodes that are not "
            "in this log could change the estimate. If the logged probabilities are right, weights have "
            "a mean of 1 but for chance, as far as the fitted model lets them vary. Nothing is said of that "
            "where a mean of 0 would be no surprise."
        ),
    )


def _dropping(content: Content) -> str:
    """Whose drop it is: a blend drops nothing, and has that of the estimator of the path beside it."""
    return content.headline.name if content.headline.blend is None else PATH_OF


def _table(weights: WeightsContent, things: str) -> Markup:
    columns = [weights.before] if weights.after is None else [weights.before, weights.after]
    headings = ["", "All weights kept", f"{things.capitalize()} dropped"][: len(columns) + 1]
    rows: list[tuple[str, Callable[[WeightSummary], object]]] = [
        ("Effective episodes", lambda each: f"{count(each.ess)} of {count(weights.n_episodes)}"),
        ("Share of the largest weight", lambda each: share(each.largest_share)),
        ("Pareto k", _tail),
        ("Mean weight", _mean),
        ("Episodes of weight zero", lambda each: share(each.zero_share)),
    ]
    body = [row(name, [say(each) for each in columns]) for name, say in rows]
    return table("Weights in numbers", [heading or "Of the weights" for heading in headings], [body])


def _mean(each: WeightSummary) -> object:
    if not math.isfinite(each.mean_z):
        return significant(each.mean)
    away = f"{significant(abs(each.mean_z), 2)} standard errors from 1"
    return [significant(each.mean), element("small", away)]


def _tail(each: WeightSummary) -> str:
    if math.isnan(each.pareto_k):
        return "no tail to speak of"
    return f"{each.pareto_k:.2f}".replace("-", "−") + (", too heavy" if each.pareto_k > HEAVY_TAIL else "")
