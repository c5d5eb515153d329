"""Where everything goes that a command says: results to standard output, all else to standard error.

Text is made safe for a terminal on its way (`deadweight.terminal`), so that no command has to think of it. A
reader that has seen enough does not end the work: the exit code is still that of the command.
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from deadweight.log.labels import plain
from deadweight.terminal import printable

SCHEMA = 2
"""Version of all JSON documents."""


def tell(text: str = "") -> None:
    """A line of the result."""
    sys.stdout.write(printable(text) + "\n")


def say(text: str) -> None:
    """A line beside the result: progress, warnings, errors."""
    sys.stderr.write(printable(text) + "\n")


def out_json(document: Mapping[str, Any]) -> None:
    """The result as one JSON document, in plain ASCII; what is not finite is null."""
    text = json.dumps({"schema": SCHEMA, **_plain(document)}, indent=2, allow_nan=False)
    # The one control character that JSON leaves as it is.
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def _plain(value: Any) -> Any:
    """The value in what JSON knows: no infinity, no NaN, no numbers of other libraries."""
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
