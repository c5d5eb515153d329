"""All estimates: the forest plot, the table behind it, and what the flags mean."""

from __future__ import annotations

from itertools import groupby

from deadweight.log.labels import visible
from deadweight.report.charts.forest import forest
from deadweight.report.charts.svg import diamond, line
from deadweight.report.content import Content
from deadweight.report.content.estimate_rows import EstimateRow
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import Format, between, count, share
from deadweight.report.sections.mix import blend_table
from deadweight.report.sections.pieces import figure, key_entry, note, row, section, table
from deadweight.results import remarks

KEY = (
    key_entry(element("rect", x=8.5, y=2.5, width=11, height=11, class_="marker plain"), "plain"),
    key_entry(element("circle", cx=14, cy=8, r=6, class_="marker dropping"), "state-based"),
    key_entry(diamond(14, 8, 7, "marker dropping"), "state-based, corrected"),
    key_entry(line(2, 8, 26, 8, "sampling dropping"), "sampling error"),
    key_entry(line(2, 8, 26, 8, "whisker dropping"), "with bias allowance"),
    key_entry(line(14, 0, 14, 16, "reference"), "average return of the log"),
)
TRUTH = key_entry(line(14, 0, 14, 16, "truth"), "the truth (simulated)")
NOTHING = element("span", "–", aria_hidden="true")


def estimates_section(content: Content, form: Format) -> Markup:
    """Plain and state-based estimates of each family side by side."""
    rows, headline = content.estimates, content.headline
    return section(
        "estimates",
        "Estimates",
        element(
            "p",
            "Each line estimates what the new policy would earn in an episode. State-based estimators drop "
            "the weights of states that a rule takes for negligible; ",
            element("strong", headline.name),
            " is the one behind the verdict.",
        ),
        figure(
            forest(rows, headline, form, content.truth, _axis(content.reward)),
            "Marks are estimates, lines their intervals.",
            KEY if content.truth is None else (*KEY, TRUTH),
        ),
        _table(rows, headline, content.confidence, form),
        note(
            "An interval may be centred beside its estimate: it is then centred on the estimate with its "
            "bias removed. Arrow heads mark intervals that go on outside the drawing."
        ),
        None if headline.blend is None else blend_table(headline.name, headline.blend, form),
        _remarks(rows),
    )


def _axis(reward: str | None) -> str:
    return "value of an episode" if reward is None else visible(reward)


def _table(rows: list[EstimateRow], headline: EstimateRow, confidence: float, form: Format) -> Markup:
    headings = (
        "Estimator",
        "Value",
        f"{100 * confidence:.3g} % interval",
        "Sampling ±",
        "Bias ±",
        "Effective episodes",
        "Steps dropped",
    )
    bodies = [
        [_row(each, each is headline, form) for each in group]
        for _, group in groupby(rows, key=lambda each: each.kind == "baseline" or each.family)
    ]
    return table("Estimates in numbers", headings, bodies, class_="wide")


def _row(each: EstimateRow, first: bool, form: Format) -> Markup:
    name = [element("b", each.name), " ", element("small", each.words)]
    if each.flags:
        name += [" ", element("small", "⚑ " + ", ".join(each.flags), class_="flag")]
    cells = [
        form(each.value),
        NOTHING if each.lower is None or each.upper is None else between(each.lower, each.upper, form),
        NOTHING if each.sampling_error is None else form(each.sampling_error),
        NOTHING if not each.bias_allowance else form(each.bias_allowance),
        NOTHING if each.ess is None else each.ess_words or count(each.ess),
        share(each.dropped_share) if each.dropped_share else NOTHING,
    ]
    return row(name, cells, class_="first" if first else None)


def _remarks(rows: list[EstimateRow]) -> Markup | None:
    found = remarks((each.about, each.flags) for each in rows)
    if not found:
        return None
    entries = [
        element("li", element("b", flag), f" ({', '.join(names)}): {said}") for flag, names, said in found
    ]
    return element("div", element("h3", "Remarks"), element("ul", entries), class_="remarks")
