"""Markup: elements, the parts of a page and of a drawing that are made of them, and numbers as text.

Elements are built so that text can never become markup by accident: whatever is not `Markup` already is
escaped, in element content and in attributes. Labels come from other people's logs and may hold HTML, quotes
or line breaks; `deadweight.log.labels.visible` shows them as they are.

Drawings are SVG with a title and a description that say the numbers. Colours and letter sizes come from the
style sheet by class, so that one drawing serves light, dark, phone and paper. Letters grow on a phone;
margins are wide enough for that.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadweight.tools.arithmetic import UNDETERMINED

# Elements that are written without an end: HTML's void ones, and the shapes of SVG.
EMPTY = frozenset({"meta", "link", "input", "line", "path", "circle", "rect", "polygon", "polyline"})


class Markup(str):
    """Text that is markup already, and is not escaped again."""

    __slots__ = ()


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """An element; nested lists of children are joined, None is left out.

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


# --- Parts of a page


def section(name: str, heading: str, *children: object) -> Markup:
    """A section with its heading; the table of contents links to it."""
    title = element("h2", heading, id=f"{name}-heading")
    return element("section", title, children, id=name, aria_labelledby=f"{name}-heading")


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
    """An entry of a key: a small sample and its meaning."""
    sample = element(
        "svg", shape, viewBox="0 0 28 16", class_="sample", aria_hidden="true", focusable="false"
    )
    return element("span", sample, words, class_="entry")


def table(
    caption: str, headings: Sequence[str], bodies: Sequence[Sequence[Markup]], **attributes: object
) -> Markup:
    """A table with one body for each group of rows, in a box of its own that scrolls."""
    head = element("thead", element("tr", [element("th", heading, scope="col") for heading in headings]))
    body = [element("tbody", rows) for rows in bodies]
    whole = element("table", element("caption", caption), head, body, **attributes)
    # On a phone a table is wider than the screen, and nothing else would say so.
    hint = element("p", "There are more columns to the right.", class_="hint")
    return element("div", hint, scrolling(caption, whole))


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
    entries = [element("div", element("dt", term), element("dd", said)) for term, said in pairs]
    return element("dl", entries, class_=class_)


# --- Scales and drawings

WIDTH = 640
LEFT, RIGHT = 84.0, 624.0
# Room for the title of an axis: below its tick labels, or above the drawing.
TITLE = 26.0


@dataclass(frozen=True)
class Scale:
    """A linear map of [low, high] to [start, end]; values outside are put on the border.

    >>> scale = Scale(0.0, 10.0, 100.0, 200.0)
    >>> scale(2.5), scale(99.0), scale.ticks()
    (125.0, 200.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value."""
        if math.isnan(value):
            return self.start
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / (self.high - self.low) * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether the value lies within the drawing."""
        return self.low <= value <= self.high

    @property
    def step(self) -> float:
        """Distance of the tick marks: 1, 2 or 5 times a power of ten."""
        rough = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(rough))
        return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)

    def ticks(self) -> list[float]:
        """Round values within the scale, four to six of them as a rule."""
        step = self.step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def text(self, tick: float) -> str:
        """A tick as text, with no more digits than the step needs."""
        decimals = -math.floor(math.log10(self.step) + 1e-9)  # negative for steps of tens and more
        if decimals > 6 or abs(tick) >= 1e7:
            largest = math.floor(math.log10(max(abs(self.low), abs(self.high))))
            return f"{tick:.{max(1, largest + decimals + 1)}g}".replace("-", "−")
        return f"{tick + 0.0:,.{max(0, decimals)}f}".replace("-", "−")


def spanning(values: Iterable[float], start: float, end: float, room: float = 0.06) -> Scale:
    """A scale that holds all finite values with some room around them."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    # Values that are all alike still need a scale around them.
    alike = max(1e-9 * max(abs(low), abs(high)), 1e-300)  # below it a logarithm of the width has no meaning
    width = high - low if high - low > alike else max(abs(low), 1.0)
    return Scale(low - room * width, high + room * width, start, end)


def without_outliers(core: Iterable[float], ends: Iterable[float], most: float = 2.5) -> list[float]:
    """The core values, and those ends that do not blow their range up more than `most` times.

    One hopeless interval would otherwise press all others into a dot.
    """
    kept = [value for value in core if math.isfinite(value)] or [0.0]
    low, high = min(kept), max(kept)
    width = max(high - low, 1e-9 * max(abs(low), abs(high)))
    return kept + [end for end in ends if low - most * width <= end <= high + most * width]


def drawing(name: str, height: float, title: str, description: str, *children: object) -> Markup:
    """A picture of numbers for everyone: seen as a drawing, read as its description."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        children,
        viewBox=f"0 0 {WIDTH} {height:g}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def text(x: float, y: float, words: str, class_: str = "tick", anchor: str = "middle") -> Markup:
    """Words at a place; `anchor` says which end of them is there."""
    return element("text", words, x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, id: str | None = None) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, id=id)


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """A line through points."""
    return element("polyline", points=_points(points), class_=class_)


def band(lower: Sequence[tuple[float, float]], upper: Sequence[tuple[float, float]], class_: str) -> Markup:
    """The area between two lines."""
    return element("polygon", points=_points([*lower, *reversed(upper)]), class_=class_)


def bottom_axis(
    scale: Scale, bottom: float, labels: Sequence[tuple[float, str]] | None = None, title: str = ""
) -> list[Markup]:
    """Tick labels below the drawing, and what they measure; `labels` replaces the round ones."""
    marks = [(tick, scale.text(tick)) for tick in scale.ticks()] if labels is None else labels
    return [
        line(scale.start, bottom, scale.end, bottom, "axis"),
        *(line(scale(at), bottom, scale(at), bottom + 5, "axis") for at, _ in marks),
        *(text(scale(at), bottom + 24, words) for at, words in marks),
        *([text(scale.end, bottom + 24 + TITLE, title, "axis-title", "end")] if title else []),
    ]


def left_axis(scale: Scale, title: str = "") -> list[Markup]:
    """Tick labels left of the drawing, with a faint line across at each; above it what they measure."""
    return [
        *([text(0.0, min(scale.start, scale.end) - 20, title, "axis-title", "start")] if title else []),
        *(line(LEFT, scale(tick), RIGHT, scale(tick), "grid") for tick in scale.ticks()),
        *(text(LEFT - 10, scale(tick) + 5, scale.text(tick), anchor="end") for tick in scale.ticks()),
    ]


def circle(x: float, y: float, r: float, class_: str, id: str | None = None) -> Markup:
    """A circle."""
    return element("circle", cx=x, cy=y, r=r, class_=class_, id=id)


def square(x: float, y: float, class_: str) -> Markup:
    """A square around a place."""
    return element("rect", x=x - 5.5, y=y - 5.5, width=11, height=11, class_=class_)


def diamond(x: float, y: float, size: float, class_: str) -> Markup:
    """A square on its corner."""
    corners = [(x - size, y), (x, y - size), (x + size, y), (x, y + size)]
    return element("polygon", points=_points(corners), class_=class_)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


# --- Numbers as text

LARGEST_FIXED = 1e7
MOST_DECIMALS = 6
# What has fewer digits than three within these decimals is written as a power of ten, unless it is rounding.
SMALLEST_FIXED, ROUNDING = 1e-4, 1e-12
UNKNOWN = "unknown"

Format = Callable[[float | None], str]


def values_like(width: float) -> Format:
    """A format for values whose uncertainty is about `width`: three digits of it are shown.

    >>> form = values_like(0.34)
    >>> form(1.23456), form(-2.0), form(None), form(math.inf)
    ('1.235', '−2.000', 'unknown', '∞')
    >>> values_like(2e-9)(4.508e-07)
    '4.508e−07'
    """
    decimals = 3
    if math.isfinite(width) and width > 0:
        decimals = max(2 - math.floor(math.log10(width)), 0)

    def form(value: float | None) -> str:
        if decimals > MOST_DECIMALS and value is not None and ROUNDING < abs(value) < SMALLEST_FIXED:
            return significant(value, 4)
        return _fixed(value, min(decimals, MOST_DECIMALS))

    return form


def signed(form: Format) -> Format:
    """The format with a sign on positive numbers too."""

    def with_sign(value: float | None) -> str:
        return ("+" if value is not None and value > 0 else "") + form(value)

    return with_sign


def significant(value: float | None, digits: int = 3) -> str:
    """A number of any size with so many significant digits.

    >>> significant(1234.5), significant(0.012345), significant(-3.0), significant(1.5e-9)
    ('1,234', '0.0123', '−3', '1.5e−09')
    """
    if value is None or not math.isfinite(value) or value == 0:
        return _fixed(value, 0)
    size = abs(value)
    if size >= 10**digits and size < LARGEST_FIXED:
        return _fixed(value, 0)
    return f"{value:.{digits}g}".replace("-", "−")


def share(value: float | None) -> str:
    """A share in per cent.

    >>> share(0.1234), share(0.00001), share(0.0)
    ('12.3 %', 'below 0.1 %', '0 %')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if 0 < value < 0.001:
        return "below 0.1 %"
    return f"{100 * value:.3g} %"


def count(value: float) -> str:
    """A whole number with separators of thousands."""
    return f"{round(value):,}"


def between(lower: float, upper: float, form: Format) -> str:
    """An interval as text; one that holds every number has no ends to show.

    >>> between(0.5, 2.0, values_like(0.1)), between(-math.inf, math.inf, values_like(0.1))
    ('0.500 to 2.000', 'undetermined')
    """
    return UNDETERMINED if (lower, upper) == (-math.inf, math.inf) else f"{form(lower)} to {form(upper)}"


def _fixed(value: float | None, decimals: int) -> str:
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) >= LARGEST_FIXED:
        return f"{value:.3g}".replace("-", "−")
    text = f"{value:,.{decimals}f}"
    # A rounded zero has no sign.
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.removeprefix("-")
