"""The opening of every page: one answer, what it means in a paragraph, the numbers behind it, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deadweight.log.labels import visible
from deadweight.report.charts import difference
from deadweight.report.content import Content, EstimateRow
from deadweight.report.svg import UNKNOWN, Format, Markup, between, count, element, signed
from deadweight.results.comparison import NOT_KNOWN, Comparison, quoted
from deadweight.results.evaluation import Verdict

# --------------------------------------------------------------------------------------------------------
# Parts that several sections share: sections, figures, keys, tables that scroll within their box.


def section(name: str, heading: str, *children: object) -> Markup:
    """A section with its heading; the table of contents links to it."""
    return element(
        "section",
        element("h2", heading, id=f"{name}-heading"),
        children,
        id=name,
        aria_labelledby=f"{name}-heading",
    )


def note(*words: object) -> Markup:
    """A paragraph in quieter letters."""
    return element("p", words, class_="note")


def figure(picture: Markup, axes: str, key: Sequence[Markup] = (), *more: object) -> Markup:
    """A drawing with what its axes mean, and the key to its marks."""
    caption = [element("span", axes, class_="axes")]
    if key:
        caption.append(element("span", key, class_="key"))
    return element("figure", picture, element("figcaption", caption), more)


def key_entry(shape: Markup, words: str) -> Markup:
    """One entry of a key: a small sample and its meaning."""
    sample = element(
        "svg", shape, viewBox="0 0 28 16", class_="sample", aria_hidden="true", focusable="false"
    )
    return element("span", sample, words, class_="entry")


def table(
    caption: str, headings: Sequence[str], bodies: Sequence[Sequence[Markup]], **attributes: object
) -> Markup:
    """A table with one body for each group of rows, in a box of its own that scrolls."""
    head = element("tr", [element("th", heading, scope="col") for heading in headings])
    box = scrolling(
        caption,
        element(
            "table",
            element("caption", caption),
            element("thead", head),
            [element("tbody", rows) for rows in bodies],
            **attributes,
        ),
    )
    # On a phone a table is wider than the screen, and nothing else would say so.
    return element("div", element("p", "There are more columns to the right.", class_="hint"), box)


def scrolling(label: str, content: Markup, class_: str = "scroll") -> Markup:
    """A box that scrolls, and can be reached by keyboard to do so."""
    return element("div", content, class_=class_, role="region", aria_label=label, tabindex=0)


def row(first: object, cells: Sequence[object], **attributes: object) -> Markup:
    """A row with its own heading."""
    return element(
        "tr", element("th", first, scope="row"), [element("td", cell) for cell in cells], **attributes
    )


def facts(pairs: Sequence[tuple[str, object]], class_: str = "facts") -> Markup:
    """Terms with what holds for them."""
    return element(
        "dl",
        [element("div", element("dt", term), element("dd", said)) for term, said in pairs],
        class_=class_,
    )


# --------------------------------------------------------------------------------------------------------

# The condition of every answer here, in the words of somebody who has never heard of confounding.
ONLY_IF = (
    "All of this holds only if the log shows everything that the old policy looked at when it decided, and "
    "if the world stays as it was."
)


def the_log(episodes: float) -> str:
    """What every paragraph begins with."""
    return f"The log has {count(episodes)} episodes in which the old policy acted."


def unit(reward: str | None) -> str:
    """What the reward is, for the end of a sentence."""
    return "" if reward is None else f" ({visible(reward)})"


def range_says(verdict: Verdict, who: str) -> str:
    """What the range of a difference says, in words that are true of its numbers."""
    lower, upper = verdict.interval
    if verdict.doubts and verdict.answer != "cannot tell":
        range_is = "a gain" if verdict.answer == "better" else "a loss"
        return f"all of that range is {range_is}, if the doubt below turns out to be groundless."
    if verdict.answer == "better":
        return f"all of that range is a gain, so {who} is better."
    if verdict.answer == "worse":
        return f"all of that range is a loss, so {who} is worse."
    if lower <= 0 <= upper:
        return "that range has room for a gain and for a loss, so this log cannot tell which it is."
    return "but these numbers cannot be trusted here (the reasons are below), so the answer is left open."


@dataclass(frozen=True)
class Answer:
    """What the page answers: a sign, a word, its colour (`tone`), and what the word is the answer to."""

    sign: str
    word: str
    tone: str
    kind: str


def opening(
    answer: Answer,
    lead: str,
    means: Iterable[str],
    numbers: Sequence[tuple[str, object]],
    drawn: Markup | None,
    reasons: Iterable[str],
) -> Markup:
    """The first section of a page.

    Args:
      answer: shown as the heading; a screen reader also hears what kind of answer it is.
      lead: the answer in one sentence.
      means: sentences of the paragraph on what it means; the condition of all of it is added here.
      numbers: terms and values, the few that matter.
      drawn: a figure, or None.
      reasons: sentences under "Why".
    """
    return element(
        "section",
        element(
            "h2",
            element("span", answer.sign, class_="sign", aria_hidden="true"),
            element("span", f"{answer.kind}: ", class_="hidden"),
            answer.word,
            id="verdict-heading",
        ),
        element("p", lead, class_="lead"),
        element("p", " ".join([*means, ONLY_IF]), id="meaning"),
        facts(numbers, "numbers"),
        drawn,
        element("h3", "Why"),
        element("ul", [element("li", reason) for reason in reasons], class_="reasons"),
        id="verdict",
        class_=f"verdict {answer.tone}",
        aria_labelledby="verdict-heading",
    )


# --------------------------------------------------------------------------------------------------------
# What this means: the verdict in one paragraph, for somebody who has never heard of a weight.


def meaning(content: Content, form: Format) -> list[str]:
    """Sentences: what was asked, the best guess, and how sure it is."""
    verdict, baseline = content.verdict, content.baseline
    said = [
        f"{the_log(content.data.episodes)} How would the new policy have done in its place?",
        f"The best guess is {form(content.headline.centre)} for each episode, against {form(baseline.value)} "
        f"for the {baseline.name}{unit(content.reward)}.",
    ]
    lower, upper = verdict.interval
    if all(map(math.isfinite, (lower, upper))):
        say = signed(form)
        said.append(
            f"The difference lies between {say(lower)} and {say(upper)}, by a method that is meant to be "
            f"right {100 * content.confidence:.3g} times in 100; {range_says(verdict, 'the new policy')}"
        )
    if (verdict.answer == "cannot tell" or verdict.doubts) and verdict.next_step:
        said.append(verdict.next_step)
    return said


# --------------------------------------------------------------------------------------------------------
# The verdict, first of all: one answer, the reasons, and the numbers behind it.

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


# --------------------------------------------------------------------------------------------------------
# The recommendation of a comparison, first of all: which policy to choose, and what that is based on.


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
