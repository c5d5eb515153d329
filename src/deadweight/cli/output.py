"""Where everything goes that a command says: results to standard output, all else to standard error.

Text is made safe for a terminal on its way (`deadweight.terminal`), so that no command has to think of it. A
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

from deadweight.terminal import printable

NAME = "deadweight"
SCHEMA = 2
"""Version of all JSON documents."""
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
