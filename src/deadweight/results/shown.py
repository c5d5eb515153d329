"""Results as people see them: tables as text and as HTML for notebooks, frames, and figures by matplotlib."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from deadweight.errors import MissingExtra, OptionError
from deadweight.log.labels import visible

if TYPE_CHECKING:
    from deadweight.results.estimate import Estimate

ROW = 0.34  # inches
LIBRARIES = ("pandas", "polars", "pyarrow")


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """A table in columns of even width; those in `left` begin at the left, all others end at the right."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    pads = [str.ljust if j in left else str.rjust for j in range(len(widths))]
    return "\n".join(
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, line, widths, strict=True)).rstrip()
        for line in lines
    )


def html_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], title: str, notes: Sequence[str] = ()
) -> str:
    """A table with its title above and sentences below; all text is escaped, colours are inherited."""
    head = "".join(f'<th style="text-align:left">{_text(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{_text(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = "".join(f'<p style="margin:.3em 0;max-width:60em">{_text(note)}</p>' for note in notes)
    return (
        f'<div style="color:inherit;background:transparent"><strong>{_text(title)}</strong>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"
    )


def _text(text: str) -> str:
    from html import escape

    return escape(visible(text, 2_000))


def new_figure(what: str, width: float, height: float) -> Any:
    """A figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra(what, "figures") from None
    return Figure(figsize=(width, height), layout="constrained")


def forest(
    estimates: Sequence[Estimate], headline: str, baseline: float | None, names: Sequence[str] | None = None
) -> Any:
    """A figure of estimates with their intervals, the first at the top; the thick part is sampling error.

    `names` are what the lines are called, where that is not the estimators' names.
    """
    figure = new_figure("The figure of a table", 7, 1.2 + ROW * len(estimates))
    axes = figure.subplots()
    several = len(estimates) > 1
    for place, estimate in enumerate(estimates):
        first = several and estimate.name == headline
        colour = "C1" if first else "C0"
        bounds = estimate.bounds
        if bounds is not None and math.isfinite(bounds.lower) and math.isfinite(bounds.upper):
            axes.plot([bounds.lower, bounds.upper], [place, place], color=colour, linewidth=1)
            axes.plot(bounds.by_sampling, [place, place], color=colour, linewidth=4, solid_capstyle="butt")
        if math.isfinite(estimate.value):
            label = "behind the verdict" if first else None
            axes.plot(estimate.value, place, "o", color=colour, markeredgecolor="white", label=label)
    if baseline is not None and math.isfinite(baseline):
        axes.axvline(baseline, color="grey", linestyle=":", label="baseline")
    key_beside(axes)
    axes.set_yticks(range(len(estimates)), names or [estimate.name for estimate in estimates])
    axes.set_ylim(len(estimates) - 0.5, -0.5)
    axes.set_xlabel("value of an episode; thick: sampling error, thin: bias allowed for as well")
    return figure


def key_beside(axes: Any) -> None:
    """Put the key above the drawing, where it hides nothing; none where no colour or line has a label."""
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False)


def frame(rows: list[dict[str, Any]], columns: Sequence[str] = (), library: str | None = None) -> Any:
    """Rows as a frame.

    Args:
      rows: plain values by column.
      columns: are there even if there is no row; by default they are those of the rows.
      library: "pandas", "polars" or "pyarrow". None takes the one of the first two that the program has
        imported, else pandas if it is installed, else pyarrow.
    """
    if library is not None and library not in LIBRARIES:
        raise OptionError(
            f"A frame is made by {', '.join(LIBRARIES[:-1])} or {LIBRARIES[-1]}; found {library!r}.",
            fix="For example to_frame('polars').",
        )
    names = list(columns or (rows[0] if rows else ()))
    by_column = {name: [row[name] for row in rows] for name in names}
    maker = library or next((name for name in LIBRARIES[:2] if name in sys.modules), "pandas")
    try:
        module = import_module(maker)
    except ImportError:
        if library is not None:
            raise MissingExtra(f"A {library} frame", "frames") from None
        module, maker = import_module("pyarrow"), "pyarrow"
    if maker == "pandas":
        return module.DataFrame(by_column)
    make = module.array if maker == "pyarrow" else module.Series
    arrays = {name: _column(make, [_struct(value) for value in column]) for name, column in by_column.items()}
    return module.table(arrays) if maker == "pyarrow" else module.DataFrame(arrays)


def _column(make: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    """A column; of text where labels are numbers for which the library has no type in common."""
    try:
        return make(values)
    except (ValueError, TypeError, OverflowError):
        return make([None if value is None else str(value) for value in values])


def _struct(value: Any) -> Any:
    """A mapping with names for keys, as structs of polars and pyarrow have them; anything else as it is."""
    return {str(key): part for key, part in value.items()} if isinstance(value, Mapping) else value
