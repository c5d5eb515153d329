"""The page: all sections in one file that needs nothing else and may ask for nothing else.

Its policy forbids every request, and every style and script but the two in the file, which it knows by hash.
Every page opens alike: one answer, what it means in a paragraph, the numbers behind it, and why.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from deadweight._version import __version__
from deadweight.errors import OutputError
from deadweight.log.labels import visible
from deadweight.report.charts import difference
from deadweight.report.markup import (
    UNKNOWN,
    Format,
    Markup,
    between,
    count,
    element,
    facts,
    join,
    section,
    signed,
    values_like,
)
from deadweight.report.sections import (
    data_section,
    estimates_section,
    path_section,
    states_section,
    weights_section,
)
from deadweight.results.evaluation import Evaluation, Verdict
from deadweight.tools.files import write_text


class ReportError(OutputError):
    """A report that cannot be written where it should go."""


def write_page(page: str, path: str | os.PathLike[str]) -> Path:
    """Write a page to a file, whole or not at all: an older one is replaced when the new one is complete."""
    target = Path(path)
    try:
        # Half a character, as a file name or a title may have, is shown as an escape.
        write_text(target, page.encode("utf-8", "backslashreplace").decode("utf-8"))
    except OSError as error:
        raise ReportError(
            f"The report cannot be written to {target}: {error.strerror or error}.",
            fix="Name a file in a folder that exists and may be written to.",
        ) from None
    return target


def document(title: str, heading: str, sections: Sequence[tuple[str, str, Markup]]) -> str:
    """A whole page: head, contents, sections, footer.

    Args:
      title: its name.
      heading: what it is about, below the title.
      sections: each with its name and its words in the contents; the first has the answer.
    """
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"deadweight {__version__}"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", style),
    )
    links = [element("li", element("a", words, href=f"#{name}")) for name, words, _ in sections]
    first, words, _ = sections[0]
    header = element(
        "header",
        element("a", f"Skip to the {words.lower()}", href=f"#{first}", class_="skip"),
        element("h1", title),
        element("p", heading, class_="note"),
        element("nav", element("ul", links), aria_label="Contents"),
    )
    imprint = f"Made by deadweight {__version__} on {today()}. This page needs no network."
    footer = element("footer", element("p", imprint))
    main = element("main", join([markup for _, _, markup in sections], "\n"))
    body = element("body", header, main, footer, element("script", script))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def today() -> str:
    """The present day (UTC)."""
    return datetime.now(UTC).date().isoformat()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> Markup:
    """A file of this package; the page takes it as it is."""
    return Markup(files("deadweight.report").joinpath("assets", name).read_text(encoding="utf-8"))


# --- The opening

# The condition of every answer here, in the words of somebody who has never heard of confounding.
ONLY_IF = (
    "All of this holds only if the log shows everything that the old policy looked at when it decided, and "
    "if the world stays as it was."
)


@dataclass(frozen=True)
class Answer:
    """The answer of a page: its kind, a sign, a word, its colour (`tone`), and a sentence."""

    kind: str
    sign: str
    word: str
    tone: str
    lead: str


def opening(
    answer: Answer,
    means: Iterable[str],
    numbers: Sequence[tuple[str, object]],
    drawn: Markup | None,
    reasons: Iterable[str],
) -> Markup:
    """The first section of a page.

    Args:
      answer: its word is the heading; a screen reader also hears what kind of answer it is.
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
        element("p", answer.lead, class_="lead"),
        element("p", " ".join([*means, ONLY_IF]), id="meaning"),
        facts(numbers, "numbers"),
        drawn,
        element("h3", "Why"),
        element("ul", [element("li", reason) for reason in reasons], class_="reasons"),
        id="verdict",
        class_=f"verdict {answer.tone}",
        aria_labelledby="verdict-heading",
    )


def the_log(episodes: float) -> str:
    """The sentence that every paragraph begins with."""
    return f"The log has {count(episodes)} episodes in which the old policy acted."


def unit(reward: str | None) -> str:
    """The unit of the reward, for the end of a sentence."""
    return "" if reward is None else f" ({visible(reward)})"


def range_says(verdict: Verdict, who: str) -> str:
    """The end of a sentence on what the range of a difference says."""
    lower, upper = verdict.interval
    if verdict.answer != "cannot tell":
        range_is = "a gain" if verdict.answer == "better" else "a loss"
        if verdict.doubts:
            return f"all of that range is {range_is}, if the doubt below turns out to be groundless."
        return f"all of that range is {range_is}, so {who} is {verdict.answer}."
    if lower <= 0 <= upper:
        return "that range has room for a gain and for a loss, so this log cannot tell which it is."
    return "but these numbers cannot be trusted here (the reasons are below), so the answer is left open."


# --- An evaluation

LEADS = {
    "better": ("▲", "The new policy does better than the {}."),
    "worse": ("▼", "The new policy does worse than the {}."),
    "cannot tell": ("?", "This log does not decide between the new policy and the {}."),
}
DOUBTED = "By these numbers the new policy does {} than the {}; but there is a grave doubt about them."
PAPER = (
    "David M. Bossens and Philip S. Thomas (2024). Low Variance Off-policy Evaluation with State-based "
    "Importance Sampling. IEEE Conference on Artificial Intelligence (CAI)."
)


def render(
    evaluation: Evaluation,
    title: str | None = None,
    reward: str | None = None,
    truth: float | None = None,
) -> str:
    """The report on an evaluation as HTML, see `Evaluation.report`."""
    form = values_like(_uncertainty(evaluation))
    conventions = facts([*evaluation.background.conventions, ("deadweight", __version__), ("Date", today())])
    sections = [
        ("verdict", "Verdict", verdict_section(evaluation, form, reward, truth)),
        ("estimates", "Estimates", estimates_section(evaluation, form, reward, truth)),
        ("path", "How much to drop", path_section(evaluation, form)),
        ("weights", "Weights", weights_section(evaluation)),
        ("states", "States", states_section(evaluation)),
        ("data", "Data", data_section(evaluation, reward)),
        ("conventions", "Conventions", section("conventions", "Conventions", conventions)),
        ("citing", "Cite", _citing()),
    ]
    heading = f"Off-policy evaluation with deadweight {__version__}, {today()}"
    return document(title or "Off-policy evaluation", heading, sections)


def _uncertainty(evaluation: Evaluation) -> float:
    """The width that says how many digits mean something."""
    interval, card = evaluation.headline.interval, evaluation.background.data
    if interval is not None:
        return (interval[1] - interval[0]) / 2
    return (card.returns[-1] - card.returns[0]) / math.sqrt(card.episodes)


def verdict_section(
    evaluation: Evaluation, form: Format, reward: str | None = None, truth: float | None = None
) -> Markup:
    """The answer with a sign, a word and a sentence."""
    verdict, baseline = evaluation.verdict, evaluation.baseline_name
    word, (sign, lead) = verdict.answer, LEADS[verdict.answer]
    said = lead.format(baseline)
    if verdict.doubts and word != "cannot tell":
        said = DOUBTED.format(word, baseline)
    drawn = None
    if all(map(math.isfinite, (verdict.difference, *verdict.interval))):
        confidence = f"{100 * evaluation.background.confidence:.3g} %"
        caption = f"New policy minus {baseline}, with its {confidence} interval"
        picture = difference(verdict.difference, verdict.interval, baseline, signed(form))
        drawn = element("figure", picture, element("figcaption", caption))
    return opening(
        Answer("Verdict", sign, word.capitalize(), word.replace(" ", "-"), said),
        meaning(evaluation, form, reward),
        _numbers(evaluation, form, truth),
        drawn,
        verdict.sentences,
    )


def meaning(evaluation: Evaluation, form: Format, reward: str | None = None) -> list[str]:
    """The paragraph: question, best guess, and how sure it is, for readers who know nothing of weights."""
    verdict, background = evaluation.verdict, evaluation.background
    said = [
        f"{the_log(background.data.episodes)} How would the new policy have done in its place?",
        f"The best guess is {form(evaluation.headline.centre)} for each episode, against "
        f"{form(evaluation.baseline_value)} for the {evaluation.baseline_name}{unit(reward)}.",
    ]
    lower, upper = map(signed(form), verdict.interval)
    if all(map(math.isfinite, verdict.interval)):
        said.append(
            f"The difference lies between {lower} and {upper}, by a method that is meant to be "
            f"right {100 * background.confidence:.3g} times in 100; {range_says(verdict, 'the new policy')}"
        )
    if (verdict.answer == "cannot tell" or verdict.doubts) and verdict.next_step:
        said.append(verdict.next_step)
    return said


def _numbers(evaluation: Evaluation, form: Format, truth: float | None) -> list[tuple[str, object]]:
    headline, verdict = evaluation.headline, evaluation.verdict
    # The average of the log has an interval of its own.
    naive = next((estimate for estimate in evaluation.estimates.values() if estimate.about.naive), None)
    known = None if naive is None or naive.value != evaluation.baseline_value else naive.interval
    pairs: list[tuple[str, object]] = [
        ("New policy", _with_range(headline.centre, headline.interval, form)),
        (evaluation.baseline_name.capitalize(), _with_range(evaluation.baseline_value, known, form)),
    ]
    if math.isfinite(verdict.difference):
        pairs.append(("Difference", _with_range(verdict.difference, verdict.interval, signed(form))))
    if truth is not None:
        held: list[object] = []
        if headline.interval is not None:
            holds = headline.interval[0] <= truth <= headline.interval[1]
            held = [" ", element("small", f"{'inside' if holds else 'outside'} the interval")]
        pairs.append(("Truth (simulated)", [form(truth), *held]))
    if headline.ess is not None:
        of_all = element("small", f"of {count(evaluation.background.data.episodes)}")
        pairs.append(("Effective episodes", headline.ess_words or [count(headline.ess), " ", of_all]))
    return pairs


def _with_range(value: float, interval: tuple[float, float] | None, form: Format) -> object:
    if interval is None or form(value) == UNKNOWN:
        return form(value)
    return [form(value), " ", element("small", between(*interval, form))]


def _citing() -> Markup:
    """The paper, and the program with its version."""
    program = f"The deadweight developers ({today()[:4]}). deadweight {__version__}: off-policy evaluation "
    return section(
        "citing",
        "How to cite",
        element("p", "The method:"),
        element("p", PAPER, class_="citation"),
        element("p", "The program:"),
        element("p", program + "without the dead weight.", class_="citation"),
    )
