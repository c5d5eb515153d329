"""The recommendation of a comparison, first of all: which policy to choose, and what that is based on."""

from __future__ import annotations

import math

from deadweight.log.labels import visible
from deadweight.report.markup import Markup
from deadweight.report.numbers import Format, count, signed
from deadweight.report.sections.opening import Answer, opening, range_says, the_log, unit
from deadweight.results.comparison import NOT_KNOWN, Comparison, quoted


def recommendation_section(found: Comparison, form: Format, reward: str | None) -> Markup:
    """The policy to choose, or that none is recommended."""
    chosen, baseline = found.recommendation, _in_words(found, found.baseline)
    numbers: list[tuple[str, object]] = [
        ("Policies compared", count(len(found))),
        ("Those that may be the best", count(len(found.candidates))),
        (f"Those shown to be better than {baseline}", count(len(found.better))),
    ]
    if chosen is None:
        answer = Answer("?", "No recommendation", "cannot-tell", "Recommendation")
        lead = f"No policy is shown to be better than {baseline}."
    else:
        answer = Answer("▲", f"Choose {visible(chosen)}", "better", "Recommendation")
        lead = f"Of those that are shown to be better than {baseline} it has the highest value."
        numbers.append(("Lost by this choice, at most", lost_at_most(found, chosen, form)))
    reasons = [visible(reason, 2000) for reason in found.reasons]
    return opening(answer, lead, _meaning(found, form, reward), numbers, None, reasons)


def _in_words(found: Comparison, name: str) -> str:
    """A policy in a sentence, in quotes; "the old policy" and numbers are words by themselves."""
    return quoted(visible(name)) if name in found.ranking else visible(name)


def lost_at_most(found: Comparison, name: str, form: Format) -> str:
    """What choosing a policy may cost against the best, where that is known."""
    most = found.regret_bound[name]
    return form(most) if math.isfinite(most) else NOT_KNOWN


def _meaning(found: Comparison, form: Format, reward: str | None) -> list[str]:
    """What was asked, the best guess, and how sure it is."""
    shown = found.recommendation or found.ranking[0]
    name, baseline = _in_words(found, shown), _in_words(found, found.baseline)
    values = [form(value) for value in (found[shown].headline.value, found.baseline_value)]
    said = [
        f"{the_log(found.n_episodes)} How would each of {count(len(found))} policies have done in its place?",
        f"For {name} the best guess is {values[0]} for each episode, against {values[1]} for "
        f"{baseline}{unit(reward)}.",
    ]
    verdict = found.difference(shown)
    lower, upper = verdict.interval
    if not all(map(math.isfinite, (lower, upper))):
        return said
    say = signed(form)
    said.append(
        f"The difference lies between {say(lower)} and {say(upper)}, by a method that is meant to be right "
        f"about all policies at once {100 * found.level:.3g} times in 100; {range_says(verdict, name)}"
    )
    return said
