"""The states: a scatter of cost against bias, and a table that sorts."""

from __future__ import annotations

from deadweight.background.headline_path import PATH_OF
from deadweight.background.state_costs import StateRow, StatesContent
from deadweight.report.charts.scatter import scatter
from deadweight.report.charts.svg import diamond
from deadweight.report.content import Content
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import count, significant
from deadweight.report.sections.features_section import features_section
from deadweight.report.sections.pieces import figure, key_entry, note, row, scrolling, section

COLUMNS = ("State", "Visits", "Variance cost", "Bias", "Q gap", "χ²", "Dropped")
KEY = (
    key_entry(diamond(14, 8, 7, "marker dropped"), "dropped"),
    key_entry(element("circle", cx=14, cy=8, r=6, class_="marker kept"), "kept"),
)


def states_section(content: Content) -> Markup:
    """Which states cost what; a sentence where that cannot be said."""
    states = content.states
    if states is None and content.features is not None:
        return features_section(content.features)
    if states is None:
        return section("states", "States", element("p", content.without_states))
    return section(
        "states",
        "States",
        element(
            "p",
            "A state is worth dropping when its weights cost much variance (to the right) and dropping it "
            "moves the estimate little (near the line at zero).",
        ),
        figure(
            scatter(states.rows),
            "Each mark is a state; its name is beside it where there is room, and appears on hovering.",
            KEY,
            element("div", id="scatter-label", class_="label", hidden=True, aria_hidden="true"),
        ),
        _table(states, "" if content.headline.blend is None else f" in {PATH_OF}"),
        note(
            "Variance cost: how much smaller the logarithm of the weights' second moment is without this "
            "state. Bias: contribution to what the uncorrected estimate is off. Q gap: the most that one "
            "action can matter there. χ²: the variance of a single ratio."
        ),
    )


def _table(states: StatesContent, where: str) -> Markup:
    headings = [
        element(
            "th",
            element("button", name, element("span", aria_hidden="true", class_="order"), type="button"),
            scope="col",
            aria_sort="descending" if name == "Variance cost" else None,
        )
        for name in COLUMNS
    ]
    body = element("tbody", [_row(each) for each in states.rows])
    shown = count(len(states.rows))
    caption = f"{shown} visited states, {count(states.n_dropped)} dropped{where}; the headings sort"
    if states.left_out:
        caption = (
            f"The {shown} visited states with the highest variance cost; {count(states.left_out)} more are "
            f"left out. {count(states.n_dropped)} are dropped{where} in all. The headings sort"
        )
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", headings)),
        body,
        id="states-table",
    )
    said = element("p", id="states-sorted", class_="hidden", role="status")
    return element("div", scrolling("Table of states", made, "scroll tall"), said)


def _row(each: StateRow) -> Markup:
    cells = [
        count(each.visits),
        significant(each.variance_cost),
        significant(each.bias),
        significant(each.gap),
        significant(each.chi2),
        "yes" if each.dropped else "no",
    ]
    return row(each.label, cells)
