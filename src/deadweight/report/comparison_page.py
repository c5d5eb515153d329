"""The page of a comparison: what to ship, all differences at once, and the states that they come from."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deadweight.diagnostics.background import FINISHED, UNSEEN
from deadweight.log.labels import visible
from deadweight.report.charts import RivalRow, rivals
from deadweight.report.opening import (
    facts,
    figure,
    key_entry,
    lost_at_most,
    note,
    recommendation_section,
    row,
    section,
    table,
)
from deadweight.report.page import Made, document, write_page
from deadweight.report.svg import (
    Format,
    Markup,
    count,
    diamond,
    element,
    share,
    signed,
    significant,
    values_like,
)
from deadweight.results.comparison import BASELINE, Comparison, PairStates, StateWorth
from deadweight.results.flags import remarks
from deadweight.tools.arithmetic import UNDETERMINED

CONTENTS = (
    ("verdict", "Recommendation"),
    ("differences", "Differences"),
    ("policies", "Policies"),
    ("where", "Where they differ"),
    ("conventions", "Conventions"),
)
NAMED = {
    "gamma": "Discount (gamma)",
    "finished": "Finished episodes",
    "unseen": "Actions never logged in a state",
    "solve": "Steps of the model",
    "time_limit": "Time limit",
    "cut_weights": "Weights for cut episodes",
    "drop": "States dropped",
    "interval": "Intervals",
    "level": "Confidence",
    "resamples": "Draws behind the intervals",
    "version": "deadweight",
}
SAID: dict[str, Callable[[Any], str]] = {
    "gamma": significant,
    "level": share,
    "resamples": count,
    "time_limit": lambda steps: f"{count(steps)} steps",
    "solve": lambda how: {"settled": "until its values settle", "longest": "those of the longest episode"}[
        how
    ],
    "drop": lambda rule: (
        "those that the automatic rule chooses from the log" if rule == "auto" else str(rule)
    ),
}
TOGETHER = {"simultaneous": "hold for all policies at once"}
ANSWERS = {"better": "▲ better", "worse": "▼ worse", "cannot tell": "cannot tell"}


def write_comparison(
    comparison: Comparison,
    path: str | os.PathLike[str],
    title: str | None = None,
    reward: str | None = None,
) -> Path:
    """Write the page on a comparison as one self-contained HTML file; returns the path."""
    return write_page(render_comparison(comparison, title, reward), path)


def render_comparison(comparison: Comparison, title: str | None = None, reward: str | None = None) -> str:
    """The page as HTML."""
    about = f"{count(len(comparison))} policies on {count(comparison.n_episodes)} episodes"
    form = _form(comparison)
    sections = [
        recommendation_section(comparison, form, reward),
        _differences(comparison, form),
        _policies(comparison, form),
        _where(comparison, form),
        _conventions(comparison),
    ]
    return document(Made.today(title or "Which policy?", about), CONTENTS, sections)


def _differences(found: Comparison, form: Format) -> Markup:
    rows = []
    for name in found.ranking:
        verdict = found.difference(name)
        low, high = verdict.interval
        rows.append(RivalRow(name, verdict.difference, low, high, name in found.may_be_best))
    kept = element("svg", diamond(14, 8, 7, "marker headline"), viewBox="0 0 28 16", class_="sample")
    return section(
        "differences",
        f"Compared with {visible(found.baseline)}",
        note(
            f"All intervals hold together with {share(found.level)} confidence: looking at several policies "
            "does not make a lucky one look better than it is."
        ),
        figure(
            rivals(rows, found.baseline, signed(form)),
            f"Difference from {visible(found.baseline)}, for each episode",
            [key_entry(kept, "may be the best of all")],
        ),
    )


def _policies(found: Comparison, form: Format) -> Markup:
    headings = (
        "Policy",
        "Value",
        "Interval by itself",
        "Difference",
        "Interval of all together",
        "Effective episodes",
        "Lost at most",
        "May be the best",
        "Against the baseline",
    )
    rows = []
    for name in found.ranking:
        headline, verdict, ess = found[name].headline, found.difference(name), found.ess[name]
        cells = (
            form(headline.value),
            _ends(headline.interval, form),
            signed(form)(verdict.difference),
            _ends(verdict.interval, signed(form)),
            "" if ess is None else count(ess),
            lost_at_most(found, name, form),
            "yes" if name in found.may_be_best else "no",
            ANSWERS[verdict.answer],
        )
        rows.append(row(visible(name), cells))
    flagged = remarks((found[name].headline.about, found[name].headline.flags) for name in found.ranking)
    flags = [
        element("li", element("strong", flag), f" ({', '.join(map(visible, found.with_flag(flag)))}): {said}")
        for flag, _, said in flagged
    ]
    return section(
        "policies",
        "All policies, best first",
        table("Policies with what each is worth", headings, [rows], class_="many"),
        element("ul", flags) if flags else None,
    )


def _where(found: Comparison, form: Format) -> Markup:
    heading = "Where they differ, and what that is worth"
    if not found.where:
        words = "This log has no states that can be named, or too many: there is no list to show."
        return section("where", heading, note(words))
    pairs = [_pair(one, found, form) for one in found.where]
    return section(
        "where",
        heading,
        note(
            "What each state adds to the difference of two policies, by the model fitted to the log: how "
            "often the second policy comes there, times what the first gains by acting otherwise. It is no "
            "proof, but a list of places to look at."
        ),
        pairs,
    )


def _pair(pair: PairStates, found: Comparison, form: Format) -> Markup:
    second = found.baseline if pair.second == BASELINE else pair.second
    verdict = found.difference(pair.first, pair.second)
    summary = (
        f"{visible(pair.first)} against {visible(second)}: {signed(form)(verdict.difference)} "
        f"({_ends(verdict.interval, signed(form))}), {verdict.answer}"
    )
    headings = ("State", visible(pair.first), visible(second), "Adds", "Visits in the log")
    rows = [_state(one, form) for one in pair.states]
    if pair.other_states:
        rows.append(
            row(f"{count(pair.other_states)} more states", ("", "", signed(form)(pair.elsewhere), ""))
        )
    inside = (
        table(f"States in which {visible(pair.first)} and {visible(second)} differ", headings, [rows])
        if rows
        else note("They do the same in every state that the log visits.")
    )
    return element("details", element("summary", summary), inside)


def _state(one: StateWorth, form: Format) -> Markup:
    cells = (_action(one.first), _action(one.second), signed(form)(one.worth), count(one.visits))
    return row(visible(one.state), cells)


def _action(taken: tuple[Any, float]) -> str:
    label, often = taken
    return f"{visible(label)} ({share(often)})"


def _conventions(found: Comparison) -> Markup:
    said = [(NAMED.get(name, name), _choice(name, value)) for name, value in found.conventions.items()]
    return section("conventions", "Conventions", facts(said))


def _choice(name: str, value: Any) -> str:
    """What was chosen, in words where it has some."""
    if value is None:
        return "none"
    if name in SAID:
        return SAID[name](value)
    words = {"finished": FINISHED, "unseen": UNSEEN, "interval": TOGETHER}.get(name, {})
    return f"{value}: they {words[value]}" if value in words else str(value)


def _ends(ends: tuple[float, float] | None, form: Format) -> str:
    if ends is None or not all(math.isfinite(end) for end in ends):
        return UNDETERMINED
    return f"{form(ends[0])} to\u00a0{form(ends[1])}"


def _form(found: Comparison) -> Format:
    """As many digits as mean something: those of the narrowest interval of a difference."""
    halves = [float(half) for half in found.differences.baseline_half_widths.ravel() if 0 < half < math.inf]
    return values_like(min(halves, default=1.0))
