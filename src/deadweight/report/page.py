"""The page: all sections in one file that needs nothing else and may ask for nothing else.

Its policy forbids every request, and every style and script but the two in the file, which it knows by hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from deadweight._version import __version__
from deadweight.errors import OutputError
from deadweight.report.content import Content, gather
from deadweight.report.opening import verdict_section
from deadweight.report.sections import (
    citing_section,
    conventions_section,
    data_section,
    estimates_section,
    path_section,
    states_section,
    weights_section,
)
from deadweight.report.svg import Markup, element, join, values_like
from deadweight.results.evaluation import Evaluation
from deadweight.tools.files import write_text

CONTENTS = (
    ("verdict", "Verdict"),
    ("estimates", "Estimates"),
    ("path", "How much to drop"),
    ("weights", "Weights"),
    ("states", "States"),
    ("data", "Data"),
    ("conventions", "Conventions"),
    ("citing", "Cite"),
)


def render(content: Content) -> str:
    """The report as HTML."""
    form = values_like(_uncertainty(content))
    heading = f"Off-policy evaluation with deadweight {content.version}, {content.made_on}"
    made = Made(content.title, heading, content.version, content.made_on)
    sections = [
        verdict_section(content, form),
        estimates_section(content, form),
        path_section(content, form),
        weights_section(content),
        states_section(content),
        data_section(content),
        conventions_section(content),
        citing_section(content),
    ]
    return document(made, CONTENTS, sections)


@dataclass(frozen=True)
class Made:
    """What a page is called, and when and by which version it was made."""

    title: str
    heading: str
    version: str
    made_on: str

    @classmethod
    def today(cls, title: str, about: str) -> Made:
        """By this version, on the present day (UTC)."""
        made_on = datetime.now(UTC).date().isoformat()
        return cls(title, f"{about}, deadweight {__version__}, {made_on}", __version__, made_on)


def document(made: Made, contents: Sequence[tuple[str, str]], sections: Sequence[Markup]) -> str:
    """A whole page: head, contents, sections, footer.

    Args:
      made: what it is called.
      contents: name and words of each section; the first has the answer.
      sections: in this order.
    """
    style, script = _asset("page.css"), _asset("page.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"deadweight {made.version}"),
        element("link", rel="icon", href="data:,"),
        element("title", made.title),
        element("style", style),
    )
    main = element("main", join(sections, "\n"))
    body = element("body", _header(made, contents), main, _footer(made), element("script", script))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _header(made: Made, contents: Sequence[tuple[str, str]]) -> Markup:
    links = [element("li", element("a", words, href=f"#{name}")) for name, words in contents]
    first, words = contents[0]
    return element(
        "header",
        element("a", f"Skip to the {words.lower()}", href=f"#{first}", class_="skip"),
        element("h1", made.title),
        element("p", made.heading, class_="note"),
        element("nav", element("ul", links), aria_label="Contents"),
    )


def _footer(made: Made) -> Markup:
    words = f"Made by deadweight {made.version} on {made.made_on}. This page needs no network."
    return element("footer", element("p", words))


def _uncertainty(content: Content) -> float:
    """The width that says how many digits mean something."""
    headline = content.headline
    if headline.lower is not None and headline.upper is not None:
        return (headline.upper - headline.lower) / 2
    low, high = content.data.returns[0], content.data.returns[-1]
    return (high - low) / math.sqrt(content.data.episodes)


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> Markup:
    """A file of this package; the page takes it as it is."""
    return Markup(files("deadweight.report").joinpath("assets", name).read_text(encoding="utf-8"))


# --------------------------------------------------------------------------------------------------------
# Write the report to a file, whole or not at all.


class ReportError(OutputError):
    """A report that cannot be written where it should go."""


def write_report(
    evaluation: Evaluation,
    path: str | os.PathLike[str],
    title: str | None = None,
    reward: str | None = None,
    truth: float | None = None,
) -> Path:
    """Write the report on an evaluation as one self-contained HTML file.

    Args:
      evaluation: made by `evaluate`.
      path: the file; an older one is replaced, in one step, when the new one is complete.
      title: heading of the report.
      reward: what the reward is, in words.
      truth: the exact value of the new policy, where it is known.

    Returns the path.
    """
    return write_page(render(gather(evaluation, title, reward=reward, truth=truth)), path)


def write_page(page: str, path: str | os.PathLike[str]) -> Path:
    """Write a page to a file, in one step."""
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
