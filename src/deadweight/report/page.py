"""The page: all sections in one file that needs nothing else and may ask for nothing else.

Its policy forbids every request, and every style and script but the two in the file, which it knows by hash.
"""

from __future__ import annotations

import base64
import hashlib
import math
from importlib.resources import files

from deadweight.report.content import Content
from deadweight.report.markup import Markup, element, join
from deadweight.report.numbers import Format, values_like
from deadweight.report.sections.background import citing_section, conventions_section, data_section
from deadweight.report.sections.estimates import estimates_section
from deadweight.report.sections.path import path_section
from deadweight.report.sections.states import states_section
from deadweight.report.sections.verdict import verdict_section
from deadweight.report.sections.weights import weights_section

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
    style, script = _asset("page.css"), _asset("page.js")
    form = values_like(_uncertainty(content))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"deadweight {content.version}"),
        element("link", rel="icon", href="data:,"),
        element("title", content.title),
        element("style", style),
    )
    body = element(
        "body", _header(content), _main(content, form), _footer(content), element("script", script)
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _header(content: Content) -> Markup:
    links = [element("li", element("a", words, href=f"#{name}")) for name, words in CONTENTS]
    return element(
        "header",
        element("a", "Skip to the verdict", href="#verdict", class_="skip"),
        element("h1", content.title),
        element(
            "p", f"Off-policy evaluation with deadweight {content.version}, {content.made_on}", class_="note"
        ),
        element("nav", element("ul", links), aria_label="Contents"),
    )


def _main(content: Content, form: Format) -> Markup:
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
    return element("main", join(sections, "\n"))


def _footer(content: Content) -> Markup:
    return element(
        "footer",
        element(
            "p", f"Made by deadweight {content.version} on {content.made_on}. This page needs no network."
        ),
    )


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
