"""The verdict, first of all: one answer, the reasons, and the numbers behind it."""

from __future__ import annotations

import math

from deadweight.report.charts.difference import difference
from deadweight.report.content import Content
from deadweight.report.content.estimate_rows import EstimateRow
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import UNKNOWN, Format, between, count, signed
from deadweight.report.sections.meaning import meaning
from deadweight.report.sections.opening import Answer, opening

ANSWERS = {
    "better": ("▲", "Better", "The new policy does better than the {}."),
    "worse": ("▼", "Worse", "The new policy does worse than the {}."),
    "cannot tell": ("?", "Cannot tell", "This log does not decide between the new policy and the {}."),
}
DOUBTED = "By these numbers the new policy does {} than the {}; but there is a grave doubt about them."


def verdict_section(content: Content, form: Format) -> Markup:
    """The answer with a sign, a word and a sentence."""
    found = content.verdict
    sign, word, sentence = ANSWERS[found.answer]
    lead = sentence.format(content.baseline.name)
    if found.doubts and found.answer != "cannot tell":
        lead = DOUBTED.format(found.answer, content.baseline.name)
    drawn = None
    if all(math.isfinite(number) for number in (found.difference, *found.interval)):
        caption = (
            f"New policy minus {content.baseline.name}, with its {100 * content.confidence:.3g} % interval"
        )
        drawn = element(
            "figure", difference(found, content.baseline.name, signed(form)), element("figcaption", caption)
        )
    return opening(
        Answer(sign, word, found.answer.replace(" ", "-"), "Verdict"),
        lead,
        meaning(content, form),
        _numbers(content, form),
        drawn,
        found.sentences,
    )


def _numbers(content: Content, form: Format) -> list[tuple[str, object]]:
    headline, found = content.headline, content.verdict
    pairs: list[tuple[str, object]] = [
        ("New policy", _with_range(form(headline.centre), headline.lower, headline.upper, form)),
        (content.baseline.name.capitalize(), _baseline(content, form)),
    ]
    if math.isfinite(found.difference):
        pairs.append(
            ("Difference", _with_range(signed(form)(found.difference), *found.interval, signed(form)))
        )
    if content.truth is not None:
        pairs.append(("Truth (simulated)", [form(content.truth), *_inside(content.truth, headline)]))
    if headline.ess is not None:
        of_all = element("small", f"of {count(content.data.episodes)}")
        said = [headline.ess_words] if headline.ess_words else [count(headline.ess), " ", of_all]
        pairs.append(("Effective episodes", said))
    return pairs


def _baseline(content: Content, form: Format) -> object:
    """What the verdict compares with; the average of the log has an interval of its own."""
    naive = next((row for row in content.estimates if row.naive), None)
    if naive is None or naive.value != content.baseline.value:
        return form(content.baseline.value)
    return _with_range(form(naive.value), naive.lower, naive.upper, form)


def _inside(truth: float, headline: EstimateRow) -> list[object]:
    """Whether the interval holds the truth."""
    if headline.lower is None or headline.upper is None:
        return []
    holds = headline.lower <= truth <= headline.upper
    return [" ", element("small", f"{'inside' if holds else 'outside'} the interval")]


def _with_range(value: str, lower: float | None, upper: float | None, form: Format) -> object:
    if lower is None or upper is None or value == UNKNOWN:
        return value
    return [value, " ", element("small", between(lower, upper, form))]
