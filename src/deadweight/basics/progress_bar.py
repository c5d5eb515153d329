"""The bar that shows progress at a terminal: one line on standard error, which goes when a pass is done.

Where standard error is a file or a pipe there is nothing, and work of less than a second shows nothing.
Between passes there is no bar either: whoever prints something then has the terminal to himself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deadweight.basics.progress import Progress, Watch

# Work that is done so soon needs no bar.
PATIENCE = 1.0


@contextmanager
def bar() -> Iterator[Watch]:
    """What draws a bar when it is told."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _nothing
        return
    drawn = _Bar(console)
    try:
        yield drawn
    finally:
        drawn.go()


def _nothing(now: Progress) -> None:
    """No terminal, no bar."""


class _Bar:
    """A bar that appears with the first news after a while, and goes with the last of a pass."""

    def __init__(self, console: Any) -> None:
        self._console, self._start = console, time.monotonic()
        self._drawn: Any = None
        self._task: Any = None

    def __call__(self, now: Progress) -> None:
        if self._drawn is None:
            if time.monotonic() - self._start < PATIENCE:
                return
            self._appear()
        self._drawn.update(self._task, description=now.title, completed=now.rows, total=now.of, left=now.left)
        if now.rows >= now.of:
            self.go()

    def go(self) -> None:
        """Leave the line as it was."""
        if self._drawn is not None:
            self._drawn.stop()
        self._drawn = None

    def _appear(self) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Drawn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[left]}"),
        )
        # Standard output stays what it is: rich would send it to this console, which is standard error.
        self._drawn = Drawn(*columns, console=self._console, transient=True, redirect_stdout=False)
        self._task = self._drawn.add_task("reading", total=None, left="")
        self._drawn.start()
