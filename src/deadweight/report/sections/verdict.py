"""The verdict, first of all: one answer, the reasons, and the numbers behind it."""

from __future__ import annotations

import math

from deadweight.report.charts.difference import difference
from deadweight.report.content import Content
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import UNKNOWN, Format, count, signed
from deadweight.report.sections.parts import facts

ANSWERS = {
    "better": ("▲", "Better", "The new policy does better than the {}."),
    "worse": ("▼", "Worse", "The new policy does worse than the {}."),
    "cannot tell": ("?", "Cannot tell", "This log does not decide between the new policy and the {}."),
}


def verdict_section(content: Content, form: Format) -> Markup:
    """The answer with a sign, a word and a sentence."""
    found = content.verdict
    sign, word, sentence = ANSWERS[found.answer]
    drawn = None
    if all(math.isfinite(number) for number in (found.difference, *found.interval)):
        caption = (
            f"New policy minus {content.baseline.name}, with its {100 * content.confidence:.3g} % interval"
        )
        drawn = element(
            "figure", difference(found, content.baseline.name, signed(form)), element("figcaption", caption)
        )
    return element(
        "section",
        element(
            "h2",
            element("span", sign, class_="sign", aria_hidden="true"),
            element("span", "Verdict: ", class_="hidden"),
            word,
            id="verdict-heading",
        ),
        element("p", sentence.format(content.baseline.name), class_="lead"),
        _numbers(content, form),
        drawn,
        element("h3", "Why"),
        element("ul", [element("li", reason) for reason in found.sentences], class_="reasons"),
        id="verdict",
        class_="verdict " + found.answer.replace(" ", "-"),
        aria_labelledby="verdict-heading",
    )


def _numbers(content: Content, form: Format) -> Markup:
    headline, found = content.headline, content.verdict
    pairs: list[tuple[str, object]] = [
        ("New policy", _with_range(form(headline.centre), headline.lower, headline.upper, form)),
        (content.baseline.name.capitalize(), form(content.baseline.value)),
    ]
    if math.isfinite(found.difference):
        pairs.append(
            ("Difference", _with_range(signed(form)(found.difference), *found.interval, signed(form)))
        )
    if headline.ess is not None:
        of_all = element("small", f"of {count(content.data.episodes)}")
        pairs.append(("Effective episodes", [count(headline.ess), " ", of_all]))
    return facts(pairs, "numbers")


def _with_range(value: str, lower: float | None, upper: float | None, form: Format) -> object:
    if lower is None or upper is None or value == UNKNOWN:
        return value
    return [value, " ", element("small", f"{form(lower)} to {form(upper)}")]
