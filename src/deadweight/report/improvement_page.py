"""The page of an improvement: the answer, and a list of changes short enough to be read and vetoed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deadweight.log.labels import visible
from deadweight.report.charts import difference
from deadweight.report.opening import Answer, facts, note, opening, row, section, table, the_log, unit
from deadweight.report.page import Made, document, write_page
from deadweight.report.svg import (
    Format,
    Markup,
    count,
    element,
    join,
    share,
    signed,
    significant,
    values_like,
)
from deadweight.results.evaluation import Verdict
from deadweight.results.improvement import Change, Gate, Improvement

# More changes than this nobody reads on a page; `to_frame` has them all.
MOST_SHOWN = 200
ANSWERS = {
    "improved": ("▲", "Improved", "better", "The log shows a better policy."),
    "no change": ("?", "No change", "cannot-tell", "The log does not show a policy that is surely better."),
}
CONTENTS = (
    ("verdict", "Answer"),
    ("changes", "Changes"),
    ("gate", "How it was judged"),
    ("recipe", "Recipe"),
)
KINDS = {
    "halves": "On halves of the log that they were not learnt from",
    "strict": "On the half that the policy was not learnt from",
    "none": "On the episodes that the policy was learnt from",
}
SAID: dict[str, Callable[[Any], str]] = {
    "level": share,
    "gamma": significant,
    "caution": significant,
    "gate": lambda kind: KINDS.get(str(kind), str(kind)),
}


def write_improvement(
    improvement: Improvement,
    path: str | os.PathLike[str],
    title: str | None = None,
    reward: str | None = None,
) -> Path:
    """Write the page on an improvement as one self-contained HTML file; returns the path."""
    return write_page(render_improvement(improvement, title, reward), path)


def render_improvement(improvement: Improvement, title: str | None = None, reward: str | None = None) -> str:
    """The page as HTML."""
    about = f"A better policy from {count(improvement.n_episodes)} episodes"
    sections = [
        _answer(improvement, reward),
        _changes(improvement),
        _gate(improvement.gate),
        _recipe(improvement),
    ]
    return document(Made.today(title or "A better policy?", about), CONTENTS, sections)


def _answer(found: Improvement, reward: str | None) -> Markup:
    sign, word, tone, sentence = ANSWERS[found.answer]
    form, gate = _form(found.gate), found.gate
    drawn = None
    bounded = gate is not None and all(math.isfinite(end) for end in (gate.lower, gate.upper))
    if gate is not None and bounded and any(gate.changed) and not gate.vetoed:
        judged = Verdict(found.answer, (), gate.gain, (gate.lower, gate.upper))
        sure = "" if gate.kind == "none" else f"; each end holds with {share(gate.level)} confidence"
        caption = f"{KINDS[gate.kind]}: gain per episode{sure}"
        caption += unit(reward)
        picture = difference(judged, "old policy", signed(form))
        drawn = element("figure", picture, element("figcaption", caption))
    numbers: list[tuple[str, object]] = [
        ("Gain per episode", _with_its_interval(found, form)),
        ("States changed", f"{count(len(found.changes))} of {count(found.n_states)}"),
    ]
    answer = Answer(sign, word, tone, "Answer")
    return opening(answer, sentence, _meaning(found, form, reward), numbers, drawn, found.sentences)


def _with_its_interval(found: Improvement, form: Format) -> object:
    gain = signed(form)(found.gain)
    if not found.changes or found.gate is None or found.gate.kind == "none":
        return gain
    return join([gain, element("small", f"of {found.interval_about}: {_between(found, form)}")])


def _between(found: Improvement, form: Format) -> str:
    return " to ".join(signed(form)(end) for end in found.interval)


def _meaning(found: Improvement, form: Format, reward: str | None) -> list[str]:
    """What was asked, what was found, and how sure it is."""
    asked = f"{the_log(found.n_episodes)} In which states would it have paid to do something else?"
    if not found.changes or found.gate is None:
        return [asked, "None is sure enough: everything stays as it is."]
    gate = found.gate
    states = f"{count(len(found.changes))} of {count(found.n_states)}"
    gain = signed(form)(found.gain)
    said = f"In {states} states; that is worth about {gain} for each episode{unit(reward)}"
    if gate.kind == "none":
        how = "but this was measured on the episodes that the changes were found in, where they look better "
        return [asked, f"{said}, {how}than they are."]
    sure = f"by a method that is meant to be right {100 * gate.level:.3g} times in 100"
    return [asked, f"{said}: for this policy {_between(found, form)}, {sure}."]


def _changes(found: Improvement) -> Markup:
    if found.changes:
        words = "Everything that the policy does otherwise, the most valuable first. Whoever knows better "
        words += "strikes a line out: in that state the old policy stays."
        return section("changes", "What to change", note(words), _table(found.changes))
    if not found.considered:
        return section("changes", "What to change", note("Nothing: no other action pays by enough."))
    words = "These changes were considered and are not made: they did not pass the gate below."
    return section("changes", "What was considered", note(words), _table(found.considered))


def _table(changes: Sequence[Change]) -> Markup:
    headings = ("State", "Do", "Instead of", "Worth per visit", "Standard error", "Seen")
    rows = [
        row(
            visible(one.state),
            (
                visible(one.new),
                one.instead_of,
                signed(significant)(one.gain),
                significant(one.std_error, 2),
                f"{count(one.visits)} times",
            ),
        )
        for one in changes[:MOST_SHOWN]
    ]
    more = len(changes) - MOST_SHOWN
    caption = "Changes of the policy"
    shown = table(caption, headings, [rows])
    return shown if more <= 0 else join([shown, note(f"{count(more)} more are in the file of the policy.")])


def _gate(gate: Gate | None) -> Markup:
    heading = "How it was judged"
    if gate is None:
        return section("gate", heading, note("There was nothing to judge, or too little to judge it by."))
    form = signed(_form(gate))
    rows = [
        row(f"{number}", (form(gain), count(changed)))
        for number, (gain, changed) in enumerate(zip(gate.by_half, gate.changed, strict=True), 1)
    ]
    pairs: list[tuple[str, object]] = [
        ("Gain per episode", form(gate.gain)),
        ("Standard error", _form(gate)(gate.std_error)),
        ("At least", form(gate.lower)),
        ("Confidence", share(gate.level)),
    ]
    if math.isfinite(gate.linear):
        later = join([form(gate.linear), element("small", f"at least {form(gate.linear_lower)}")])
        pairs.append(("Gain with what actions do many steps later", later))
    headings = ("Half", "Gain per episode", "States changed")
    caption = "What was gained on each half, by changes learnt on another one"
    return section("gate", heading, facts(pairs), table(caption, headings, [rows]))


def _recipe(found: Improvement) -> Markup:
    names = {
        "caution": "Standard errors by which a change must pay",
        "min_visits": "Times an action must have been tried in a state",
        "gate": "Gate",
        "level": "Confidence",
        "gamma": "Discount",
        "seed": "Seed",
    }
    pairs = [
        (names.get(name, name), SAID[name](value) if name in SAID else str(value))
        for name, value in found.settings.items()
    ]
    return section("recipe", "Recipe", facts(pairs))


def _form(gate: Gate | None) -> Format:
    """As many digits as mean something."""
    return values_like(1.0 if gate is None else max(gate.gain - gate.lower, 0.0))
