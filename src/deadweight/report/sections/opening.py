"""The opening of every page: one answer, what it means in a paragraph, the numbers behind it, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deadweight.log.labels import visible
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import count
from deadweight.report.sections.pieces import facts
from deadweight.results import Verdict

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
