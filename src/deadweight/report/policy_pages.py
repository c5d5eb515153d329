"""The pages of a comparison and of an improvement.

A comparison says which policy to choose, with all differences at once and the states that they come from; an
improvement what to change, as a list short enough to be read and vetoed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deadweight._version import __version__
from deadweight.diagnostics.background import FINISHED, UNSEEN
from deadweight.log.labels import visible
from deadweight.report.charts import difference, rivals
from deadweight.report.markup import (
    Format,
    Markup,
    count,
    diamond,
    element,
    facts,
    figure,
    join,
    key_entry,
    note,
    row,
    section,
    share,
    signed,
    significant,
    table,
    values_like,
)
from deadweight.report.page import Answer, document, opening, range_says, the_log, today, unit
from deadweight.results.comparison import BASELINE, NOT_KNOWN, Comparison, PairStates, quoted
from deadweight.results.estimate import remarks
from deadweight.results.improvement import Change, Gate, Improvement
from deadweight.tools.arithmetic import UNDETERMINED

# Settings of both verbs, as their pages name them and say what was chosen; a verb may say it in its own way.
CONVENTIONS = {
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
RECIPE = {
    "caution": "Standard errors by which a change must pay",
    "min_visits": "Times an action must have been tried in a state",
    "gate": "Gate",
    "level": "Confidence",
    "gamma": "Discount",
    "seed": "Seed",
}
GATES = {
    "halves": "On halves of the log that they were not learnt from",
    "strict": "On the half that the policy was not learnt from",
    "none": "On the episodes that the policy was learnt from",
}
SOLVED = {"settled": "until its values settle", "longest": "those of the longest episode"}
CHOSEN: dict[str, Callable[[Any], str]] = {
    "gamma": significant,
    "caution": significant,
    "level": share,
    "resamples": count,
    "time_limit": lambda steps: f"{count(steps)} steps",
    "solve": lambda how: SOLVED[how],
    "drop": lambda rule: (
        "those that the automatic rule chooses from the log" if rule == "auto" else str(rule)
    ),
    "gate": lambda kind: GATES.get(str(kind), str(kind)),
}
MEANT = {
    "finished": FINISHED,
    "unseen": UNSEEN,
    "interval": {"simultaneous": "hold for all policies at once"},
}


def _choices(settings: Mapping[str, Any], names: Mapping[str, str]) -> Markup:
    return facts([(names.get(name, name), _choice(name, value)) for name, value in settings.items()])


def _choice(name: str, value: Any) -> str:
    """The value of a setting, in words where it has any."""
    if value is None:
        return "none"
    if name in CHOSEN:
        return CHOSEN[name](value)
    words = MEANT.get(name, {})
    return f"{value}: they {words[value]}" if value in words else str(value)


def _heading(about: str) -> str:
    return f"{about}, deadweight {__version__}, {today()}"


# --- A comparison

VERDICTS = {"better": "▲ better", "worse": "▼ worse", "cannot tell": "cannot tell"}
POLICY_HEADINGS = (
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


def render_comparison(comparison: Comparison, title: str | None = None, reward: str | None = None) -> str:
    """The page on a comparison as HTML, see `Comparison.report`."""
    about = f"{count(len(comparison))} policies on {count(comparison.n_episodes)} episodes"
    # As many digits as mean something: those of the narrowest interval of a difference.
    halves = [float(half) for half in comparison.differences.baseline_half_widths.flat if 0 < half < math.inf]
    form = values_like(min(halves, default=1.0))
    conventions = section("conventions", "Conventions", _choices(comparison.conventions, CONVENTIONS))
    sections = [
        ("verdict", "Recommendation", _recommendation(comparison, form, reward)),
        ("differences", "Differences", _differences(comparison, form)),
        ("policies", "Policies", _policies(comparison, form)),
        ("where", "Where they differ", _where(comparison, form)),
        ("conventions", "Conventions", conventions),
    ]
    return document(title or "Which policy?", _heading(about), sections)


def _recommendation(comparison: Comparison, form: Format, reward: str | None) -> Markup:
    """The policy to choose, or that none is recommended."""
    chosen, baseline = comparison.recommendation, _in_words(comparison, comparison.baseline)
    numbers: list[tuple[str, object]] = [
        ("Policies compared", count(len(comparison))),
        ("Those that may be the best", count(len(comparison.candidates))),
        (f"Those shown to be better than {baseline}", count(len(comparison.better))),
    ]
    if chosen is None:
        lead = f"No policy is shown to be better than {baseline}."
        answer = Answer("Recommendation", "?", "No recommendation", "cannot-tell", lead)
    else:
        lead = f"Of those that are shown to be better than {baseline} it has the highest value."
        answer = Answer("Recommendation", "▲", f"Choose {visible(chosen)}", "better", lead)
        numbers.append(("Lost by this choice, at most", _lost_at_most(comparison, chosen, form)))
    reasons = [visible(reason, 2000) for reason in comparison.reasons]
    return opening(answer, _recommended(comparison, form, reward), numbers, None, reasons)


def _recommended(comparison: Comparison, form: Format, reward: str | None) -> list[str]:
    """The paragraph: what was asked, the best guess, and how sure it is."""
    shown = comparison.recommendation or comparison.ranking[0]
    name, baseline = _in_words(comparison, shown), _in_words(comparison, comparison.baseline)
    value, against = form(comparison[shown].headline.value), form(comparison.baseline_value)
    policies = count(len(comparison))
    said = [
        f"{the_log(comparison.n_episodes)} How would each of {policies} policies have done in its place?",
        f"For {name} the best guess is {value} for each episode, against {against} for "
        f"{baseline}{unit(reward)}.",
    ]
    verdict = comparison.difference(shown)
    if all(map(math.isfinite, verdict.interval)):
        lower, upper = map(signed(form), verdict.interval)
        said.append(
            f"The difference lies between {lower} and {upper}, by a method that is meant to be right about "
            f"all policies at once {100 * comparison.level:.3g} times in 100; {range_says(verdict, name)}"
        )
    return said


def _in_words(comparison: Comparison, name: str) -> str:
    """A policy in a sentence, in quotes; "the old policy" and numbers are words by themselves."""
    return quoted(visible(name)) if name in comparison.ranking else visible(name)


def _lost_at_most(comparison: Comparison, name: str, form: Format) -> str:
    """The regret bound of a policy as text."""
    most = comparison.regret_bound[name]
    return form(most) if math.isfinite(most) else NOT_KNOWN


def _differences(comparison: Comparison, form: Format) -> Markup:
    kept = element("svg", diamond(14, 8, 7, "marker headline"), viewBox="0 0 28 16", class_="sample")
    return section(
        "differences",
        f"Compared with {visible(comparison.baseline)}",
        note(
            f"All intervals hold together with {share(comparison.level)} confidence: looking at several "
            "policies does not make a lucky one look better than it is."
        ),
        figure(
            rivals(comparison, signed(form)),
            f"Difference from {visible(comparison.baseline)}, for each episode",
            [key_entry(kept, "may be the best of all")],
        ),
    )


def _policies(comparison: Comparison, form: Format) -> Markup:
    rows = []
    for name in comparison.ranking:
        headline, verdict = comparison[name].headline, comparison.difference(name)
        ess = comparison.ess[name]
        cells = (
            form(headline.value),
            _ends(headline.interval, form),
            signed(form)(verdict.difference),
            _ends(verdict.interval, signed(form)),
            "" if ess is None else count(ess),
            _lost_at_most(comparison, name, form),
            "yes" if name in comparison.may_be_best else "no",
            VERDICTS[verdict.answer],
        )
        rows.append(row(visible(name), cells))
    headlines = [comparison[name].headline for name in comparison.ranking]
    flagged = remarks((headline.about, headline.flags) for headline in headlines)
    flags = []
    for flag, _, sentence in flagged:
        names = ", ".join(map(visible, comparison.with_flag(flag)))
        flags.append(element("li", element("strong", flag), f" ({names}): {sentence}"))
    return section(
        "policies",
        "All policies, best first",
        table("Policies with what each is worth", POLICY_HEADINGS, [rows], class_="many"),
        element("ul", flags) if flags else None,
    )


def _where(comparison: Comparison, form: Format) -> Markup:
    heading = "Where they differ, and what that is worth"
    if not comparison.where:
        words = "This log has no states that can be named, or too many: there is no list to show."
        return section("where", heading, note(words))
    return section(
        "where",
        heading,
        note(
            "What each state adds to the difference of two policies, by the model fitted to the log: how "
            "often the second policy comes there, times what the first gains by acting otherwise. It is no "
            "proof, but a list of places to look at."
        ),
        [_pair(pair, comparison, form) for pair in comparison.where],
    )


def _pair(pair: PairStates, comparison: Comparison, form: Format) -> Markup:
    say, verdict = signed(form), comparison.difference(pair.first, pair.second)
    first = visible(pair.first)
    second = visible(comparison.baseline if pair.second == BASELINE else pair.second)
    summary = (
        f"{first} against {second}: {say(verdict.difference)} "
        f"({_ends(verdict.interval, say)}), {verdict.answer}"
    )
    rows = [
        row(
            visible(state.state),
            (_action(state.first), _action(state.second), say(state.worth), count(state.visits)),
        )
        for state in pair.states
    ]
    if pair.other_states:
        rows.append(row(f"{count(pair.other_states)} more states", ("", "", say(pair.elsewhere), "")))
    inside = note("They do the same in every state that the log visits.")
    if rows:
        headings = ("State", first, second, "Adds", "Visits in the log")
        inside = table(f"States in which {first} and {second} differ", headings, [rows])
    return element("details", element("summary", summary), inside)


def _action(taken: tuple[Any, float]) -> str:
    label, often = taken
    return f"{visible(label)} ({share(often)})"


def _ends(ends: tuple[float, float] | None, form: Format) -> str:
    if ends is None or not all(map(math.isfinite, ends)):
        return UNDETERMINED
    return f"{form(ends[0])} to\u00a0{form(ends[1])}"


# --- An improvement

# More changes than this nobody reads on a page; `to_frame` has them all.
MOST_SHOWN = 200
NOT_SURE = "The log does not show a policy that is surely better."
ANSWERS = {
    "improved": Answer("Answer", "▲", "Improved", "better", "The log shows a better policy."),
    "no change": Answer("Answer", "?", "No change", "cannot-tell", NOT_SURE),
}
CHANGED = (
    "Everything that the policy does otherwise, the most valuable first. Whoever knows better strikes a line "
    "out: in that state the old policy stays."
)


def render_improvement(improvement: Improvement, title: str | None = None, reward: str | None = None) -> str:
    """The page on an improvement as HTML, see `Improvement.report`."""
    about = f"A better policy from {count(improvement.n_episodes)} episodes"
    sections = [
        ("verdict", "Answer", _answer(improvement, reward)),
        ("changes", "Changes", _changes(improvement)),
        ("gate", "How it was judged", _judged(improvement.gate)),
        ("recipe", "Recipe", section("recipe", "Recipe", _choices(improvement.settings, RECIPE))),
    ]
    return document(title or "A better policy?", _heading(about), sections)


def _answer(improvement: Improvement, reward: str | None) -> Markup:
    gate, form = improvement.gate, _form(improvement.gate)
    drawn, gain = None, signed(form)(improvement.gain)
    ends = (math.nan, math.nan) if gate is None else (gate.lower, gate.upper)
    if gate is not None and all(map(math.isfinite, ends)) and any(gate.changed) and not gate.vetoed:
        sure = "" if gate.kind == "none" else f"; each end holds with {share(gate.level)} confidence"
        caption = f"{GATES[gate.kind]}: gain per episode{sure}{unit(reward)}"
        picture = difference(gate.gain, ends, "old policy", signed(form))
        drawn = element("figure", picture, element("figcaption", caption))
    judged = bool(improvement.changes) and gate is not None and gate.kind != "none"
    about = f"of {improvement.interval_about}: {_between(improvement, form)}"
    numbers: list[tuple[str, object]] = [
        ("Gain per episode", join([gain, element("small", about)]) if judged else gain),
        ("States changed", f"{count(len(improvement.changes))} of {count(improvement.n_states)}"),
    ]
    means = _meaning(improvement, form, reward)
    return opening(ANSWERS[improvement.answer], means, numbers, drawn, improvement.sentences)


def _between(improvement: Improvement, form: Format) -> str:
    return " to ".join(signed(form)(end) for end in improvement.interval)


def _meaning(improvement: Improvement, form: Format, reward: str | None) -> list[str]:
    """The paragraph: what was asked, what came of it, and how sure it is."""
    asked = f"{the_log(improvement.n_episodes)} In which states would it have paid to do something else?"
    gate = improvement.gate
    if not improvement.changes or gate is None:
        return [asked, "None is sure enough: everything stays as it is."]
    states = f"{count(len(improvement.changes))} of {count(improvement.n_states)}"
    gain = signed(form)(improvement.gain)
    said = f"In {states} states; that is worth about {gain} for each episode{unit(reward)}"
    if gate.kind == "none":
        how = "but this was measured on the episodes that the changes were found in, where they look better "
        return [asked, f"{said}, {how}than they are."]
    sure = f"by a method that is meant to be right {100 * gate.level:.3g} times in 100"
    return [asked, f"{said}: for this policy {_between(improvement, form)}, {sure}."]


def _changes(improvement: Improvement) -> Markup:
    if improvement.changes:
        return section("changes", "What to change", note(CHANGED), _table(improvement.changes))
    if not improvement.considered:
        return section("changes", "What to change", note("Nothing: no other action pays by enough."))
    words = "These changes were considered and are not made: they did not pass the gate below."
    return section("changes", "What was considered", note(words), _table(improvement.considered))


def _table(changes: Sequence[Change]) -> Markup:
    headings = ("State", "Do", "Instead of", "Worth per visit", "Standard error", "Seen")
    rows = [
        row(
            visible(change.state),
            (
                visible(change.new),
                change.instead_of,
                signed(significant)(change.gain),
                significant(change.std_error, 2),
                f"{count(change.visits)} times",
            ),
        )
        for change in changes[:MOST_SHOWN]
    ]
    more = len(changes) - MOST_SHOWN
    shown = table("Changes of the policy", headings, [rows])
    return shown if more <= 0 else join([shown, note(f"{count(more)} more are in the file of the policy.")])


def _judged(gate: Gate | None) -> Markup:
    heading = "How it was judged"
    if gate is None:
        return section("gate", heading, note("There was nothing to judge, or too little to judge it by."))
    form = signed(_form(gate))
    rows = [
        row(f"{half}", (form(gain), count(changed)))
        for half, (gain, changed) in enumerate(zip(gate.by_half, gate.changed, strict=True), 1)
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


def _form(gate: Gate | None) -> Format:
    """A format with as many digits as the gain's uncertainty warrants."""
    return values_like(1.0 if gate is None else max(gate.gain - gate.lower, 0.0))
