"""Markup: elements built so that text can never become markup by accident.

Whatever is not `Markup` already is escaped, in element content and in attributes. Labels come from other
people's logs and may hold HTML, quotes or line breaks;
`deadweight.log.labels.visible` shows them as they are.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from typing import Any

# Elements that are written without an end: HTML's void ones, and the shapes of SVG.
EMPTY = frozenset({"meta", "link", "input", "line", "path", "circle", "rect", "polygon", "polyline"})


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """One element; nested lists of children are joined, None is left out.

    In names of attributes an underscore stands for a hyphen, and one at the end is dropped (`class_`).
    None and False leave an attribute out; True writes its name alone.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    words = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        words.append(key if value is True else f'{key}="{html.escape(_text(value))}"')
    if tag in EMPTY:
        return Markup(f"<{' '.join(words)}/>")
    return Markup(f"<{' '.join(words)}>{join(children)}</{tag}>")


def join(children: Iterable[object], between: str = "") -> Markup:
    """Children one after another, escaped where they are not markup."""
    return Markup(between.join(_child(child) for child in children if child is not None))


def data_block(name: str, value: Mapping[str, Any]) -> Markup:
    """JSON for the page's script; it cannot close its own element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return element("script", Markup(text), type="application/json", id=name)


def _child(child: object) -> str:
    if isinstance(child, Markup):
        return child
    if isinstance(child, (list, tuple)):
        return join(child)
    return html.escape(_text(child), quote=False)


def _text(value: object) -> str:
    # Coordinates need no more than a tenth of a pixel.
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
