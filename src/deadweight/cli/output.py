"""Where everything goes that a command says: results to standard output, all else to standard error.

Text is made safe for a terminal on its way (`deadweight.errors`), so that no command has to think of it. A
reader that has seen enough does not end the work: the exit code is still that of the command.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from deadweight._version import SCHEMA
from deadweight.errors import printable

NAME = "deadweight"
COMMANDS = ("Run: ", "See: ")
"""What a line begins with that is to be pasted."""


def program() -> str:
    """The command as it can be typed here: after `make demo` it is in .venv/bin, where no shell looks."""
    typed = sys.argv[0] if sys.argv else NAME
    return typed if os.path.basename(typed) == NAME and shutil.which(NAME) is None else NAME


def tell(text: str = "") -> None:
    """A line of the result."""
    sys.stdout.write(printable(text) + "\n")


def say(text: str) -> None:
    """A line beside the result: progress, warnings, errors."""
    sys.stderr.write(fitted(printable(text), terminal_width(sys.stderr)) + "\n")


def tell_words(text: str) -> None:
    """Sentences of the result: at a terminal lines end between words."""
    sys.stdout.write(fitted(printable(text), terminal_width(sys.stdout)) + "\n")


def tell_flags(flags: Sequence[tuple[str, Sequence[str], str]]) -> None:
    """What flags say: each flag with the rows that have it."""
    if flags:
        tell("\nFlags:")
    for flag, names, said in flags:
        tell_words(f"  {flag} ({', '.join(names)}): {said}")


def terminal_width(stream: Any) -> int | None:
    """Columns of the terminal that a stream is; None if it is a file or a pipe, which take any width."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def fitted(text: str, width: int | None) -> str:
    r"""The text with lines that end between words; commands stay in one piece, to be pasted.

    >>> print(fitted("  One sentence, indented.\n  Run: deadweight doctor log.csv", 16))
      One sentence,
        indented.
      Run: deadweight doctor log.csv
    """
    if width is None:
        return text
    return "\n".join(_fitted_line(line, width) for line in text.split("\n"))


def _fitted_line(line: str, width: int) -> str:
    words = line.lstrip(" ")
    if len(line) <= width or words.startswith(COMMANDS):
        return line
    indent = line[: len(line) - len(words)]
    return textwrap.fill(
        words,
        max(width, len(indent) + 20),
        initial_indent=indent,
        subsequent_indent=2 * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def out_json(document: Mapping[str, Any]) -> None:
    """The result as one JSON document, in plain ASCII; what is not finite is null."""
    text = json.dumps({"schema": SCHEMA, **_plain(document)}, indent=2, allow_nan=False)
    # The one control character that JSON leaves as it is.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def _plain(value: Any) -> Any:
    """The value in what JSON knows: no infinity, no NaN, no numbers of other libraries."""
    from deadweight.log.labels import plain  # brings numpy, for which `--help` need not wait

    value = plain(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | None) else str(value)


class Outlet:
    """A stream that can be written to whatever happens to its reader; `problem` says what did."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def write(self, text: str) -> int:
        """Write, or do nothing once the reader is gone."""
        if self.problem is None:
            try:
                self._stream.write(text)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written."""
        if self.problem is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    @property
    def is_full(self) -> bool:
        """Whether something was lost that a reader still waits for."""
        return self.problem is not None and self.problem.errno != errno.EPIPE

    def _give_up(self, error: OSError) -> None:
        self.problem = error
        with suppress(OSError, ValueError):  # what is still buffered goes nowhere, at exit as well
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def outlets() -> Iterator[Outlet]:
    """Standard output and error as outlets, for as long as a command runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_outlet(stream) for stream in before)
    try:
        yield sys.stdout
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _outlet(stream: Any) -> Outlet:
    if stream is None:  # closed by whoever started the command
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    with suppress(AttributeError, ValueError):
        stream.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII only
    return Outlet(stream)


# --------------------------------------------------------------------------------------------------------
# Tables on the terminal: no wider than it is, and nothing is cut off; piped, as wide as they need to be.
#
# What does not fit is folded, where a column is text, or goes into a second table below that begins with the
# same column: a number without its end, or a table without its numbers, is worse than a long one.

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
