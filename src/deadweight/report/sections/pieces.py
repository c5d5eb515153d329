"""Parts that several sections share: sections, figures, keys, tables that scroll within their box."""

from __future__ import annotations

from collections.abc import Sequence

from deadweight.report.markup import Markup, element


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
