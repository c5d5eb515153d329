"""Tables on the terminal: boxed for people, plain and uncut for other programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from deadweight.terminal import printable


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> None:
    """Print rows under headings; columns in `left` are aligned left, all others right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Piped output is for other programs: as wide as it needs, never cut to a guessed terminal.
    console = Console() if sys.stdout.isatty() else Console(width=240)
    table = Table(box=SIMPLE_HEAD if console.is_terminal else None, pad_edge=False)
    for i, heading in enumerate(headings):
        table.add_column(
            Text(printable(heading, keep="")), justify="left" if i in left else "right", no_wrap=True
        )
    for row in rows:
        # Text: labels with [brackets] are not markup.
        table.add_row(*(Text(printable(cell, keep="")) for cell in row))
    console.print(table)
