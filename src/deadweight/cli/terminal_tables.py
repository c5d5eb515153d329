"""Tables on the terminal: no wider than it is, and nothing is cut off; piped, as wide as they need to be.

What does not fit is folded, where a column is text, or goes into a second table below that begins with the
same column: a number without its end, or a table without its numbers, is worse than a long one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from deadweight.cli.output import terminal_width
from deadweight.terminal import printable

GAP = "  "
# Text is folded to no less than this: below, it would be a pile of single words.
NARROWEST = 20


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> None:
    """Print rows under headings; columns in `left` are text and aligned left, all others right."""
    for line in table_lines(headings, rows, left, terminal_width(sys.stdout)):
        sys.stdout.write(line + "\n")


def table_lines(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[int] = (0,),
    width: int | None = None,
) -> list[str]:
    r"""The lines of a table that is no wider than `width`.

    >>> rows = [("a", "1.0", "all of it"), ("b", "22.5", "")]
    >>> print("\n".join(table_lines(("name", "value", "words"), rows, (0, 2))))
    name  value  words
    a       1.0  all of it
    b      22.5
    """
    from rich.cells import cell_len

    cells = [[printable(cell, keep="") for cell in row] for row in (headings, *rows)]
    needed = [max(cell_len(row[j]) for row in cells) for j in range(len(headings))]
    least = [min(one, NARROWEST) if j in left and j else one for j, one in enumerate(needed)]
    lines: list[str] = []
    for place, group in enumerate(_groups(least, width)):
        widths = _shrunk([needed[j] for j in group], [least[j] for j in group], width)
        lines += [""] if lines else []
        for number, row in enumerate(cells):
            chosen = [row[j] for j in group]
            if place and number and not any(chosen[1:]):
                continue  # nothing to add to the table above
            lines += _row_lines(chosen, widths, [j in left for j in group])
    return lines


def _groups(least: Sequence[int], width: int | None) -> list[list[int]]:
    """The columns of each table: as many as fit beside the first one, which all of them begin with."""
    groups, taken = [[0]], least[0]
    for j in range(1, len(least)):
        taken += len(GAP) + least[j]
        if width is not None and taken > width and len(groups[-1]) > 1:
            groups.append([0])
            taken = least[0] + len(GAP) + least[j]
        groups[-1].append(j)
    return groups


def _shrunk(needed: Sequence[int], least: Sequence[int], width: int | None) -> list[int]:
    """Widths of the columns of a table: the widest text gives way first."""
    widths = list(needed)
    over = 0 if width is None else sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        widest = max(range(len(widths)), key=lambda j: (widths[j] > least[j], widths[j]))
        gives = min(over, widths[widest] - least[widest])
        if gives <= 0:
            break
        widths[widest] -= gives
        over -= gives
    return widths


def _row_lines(row: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> list[str]:
    """The lines of one row, more than one if a cell is folded."""
    from rich.cells import cell_len

    folded = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for k in range(max(len(cell) for cell in folded)):
        parts = []
        for cell, width, is_left in zip(folded, widths, left, strict=True):
            text = cell[k] if k < len(cell) else ""
            blank = " " * (width - cell_len(text))
            parts.append(text + blank if is_left else blank + text)
        lines.append(GAP.join(parts).rstrip())
    return lines


def _folded(cell: str, width: int) -> list[str]:
    from rich.cells import cell_len

    if cell_len(cell) <= width:
        return [cell]
    from rich.console import Console
    from rich.text import Text

    return [line.plain.rstrip() for line in Text(cell).wrap(Console(), width)]
