"""What a mix of estimates is made of: every estimate behind it, its share, and whether it contradicts."""

from __future__ import annotations

from deadweight.blend.headline import WORDS
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import Format, share
from deadweight.report.sections.pieces import note, row, table
from deadweight.results.blend import Blend, Part

NOTHING = element("span", "–", aria_hidden="true")


def blend_table(name: str, mix: Blend, form: Format) -> Markup:
    """The estimates behind a mix, from the one that assumes least to the one that varies least."""
    headings = ("Estimate", "Value", "Standard error", "Share", "Contradicts by")
    return element(
        "div",
        element("h3", f"What {name} is made of"),
        table(
            f"Estimates in {name}",
            headings,
            [[_row(part, WORDS[part.name], form) for part in mix.parts]],
        ),
        note(
            "Estimates further up assume less, those further down vary less. Those without a share are there "
            f"to object only. The interval of {name} allows for the largest number in the last column: by "
            "how much an estimate differs beyond noise. That is half as much for a model that is shown to be "
            "wrong, and all of the distance to LIN where LIN alone is not sure which policy is better.",
        ),
    )


def _row(part: Part, words: str, form: Format) -> Markup:
    cells = [
        form(part.value),
        form(part.std_error),
        share(part.share) if part.share else NOTHING,
        form(part.beyond) if part.beyond else NOTHING,
    ]
    return row([element("b", part.name), " ", element("small", words)], cells)
