"""Progress: how far the passes over a log have come, for whoever asked to be told, and a line of logging.

    with dw.progress():          # a bar on standard error, where that is a terminal
        ev = dw.evaluate(log, policy)

    with dw.progress(print):     # or a function that is given a `Progress`
        ev = dw.evaluate("logs/", policy)

Every verb works so, since there is one loop over data. Which pass it is is known, how many follow is not:
whatever needs the log asks for it when it needs it (`deadweight.answers.rounds`). Each pass is also a line of
Python's logging under the name `deadweight`,
level DEBUG; verdicts are lines of level INFO.

The bar is one line on standard error, which goes when a pass is done. There is none where standard error is a
file or a pipe, for work of less than a second, or between passes: whoever prints something then has the
terminal to himself.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

LOGGER = logging.getLogger("deadweight")
LOGGER.addHandler(logging.NullHandler())
# Work that is done within so many seconds needs no bar.
PATIENCE = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a pass over a log has come.

    Attributes:
      what: "summing"; or, before the first pass, "checking files", "sorting" and the like.
      rows, of: rows done, and all rows.
      seconds: since the pass began.
      number: which pass this is since somebody watches, from 1; 0 before the first.
    """

    what: str
    rows: int
    of: int
    seconds: float
    number: int = 0

    @property
    def rows_per_second(self) -> float:
        """Since the pass began."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Until the pass is done, at its pace so far; None where nothing is done yet.

        >>> Progress("summing", 5, 20, 3.0).seconds_left
        9.0
        """
        return (self.of - self.rows) * self.seconds / self.rows if self.rows else None

    @property
    def title(self) -> str:
        """What is being done.

        >>> Progress("summing", 0, 10, 0.0, 2).title
        'pass 2, summing'
        """
        return f"pass {self.number}, {self.what}" if self.number else self.what

    @property
    def left(self) -> str:
        """The time that the pass still takes, in words; empty where nothing is left, or nobody can tell.

        >>> Progress("summing", 5, 10, 200.0, 2).left
        'about 3 min left'
        """
        return "" if not self.seconds_left else f"about {duration(self.seconds_left)} left"

    def __str__(self) -> str:
        done = f"{self.title}: {self.rows:,} of {self.of:,} rows"
        return f"{done}, {self.left}" if self.left else done


def duration(seconds: float) -> str:
    """A rough time in words, such as '42 s', '10 min' or '2.5 h'."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


Watch = Callable[[Progress], None]
T = TypeVar("T")


@dataclass
class _Watcher:
    """Who is told of progress, and the passes so far."""

    tell: Watch
    passes: int = 0


_WATCHER: ContextVar[_Watcher | None] = ContextVar("deadweight_progress", default=None)


@contextmanager
def progress(tell: Watch | None = None) -> Iterator[None]:
    """Be told of every pass over a log while the block runs.

    Args:
      tell: is given a `Progress` now and then; None draws a bar on standard error, if that is a terminal and
        the work takes more than a second.

    Example:
      >>> import deadweight as dw
      >>> lift, seen = dw.domains.deterministic_lift(7), []
      >>> with progress(seen.append):
      ...     ev = dw.evaluate(lift.sample(100), lift.pi_e, lift.pi_b)
      >>> print(seen[0].title)
      pass 1, summing
      >>> seen[-1].rows == seen[-1].of
      True
    """
    with bar() if tell is None else nullcontext(tell) as watch:
        token = _WATCHER.set(_Watcher(watch))
        try:
            yield
        finally:
            _WATCHER.reset(token)


class Pass:
    """One pass over rows: `done(rows)` after each piece, `end()` after the last.

    `counted`: it is one of the passes that sum, rather than something that comes before them.
    """

    def __init__(self, of: int, what: str = "summing", counted: bool = True) -> None:
        self.what, self.of, self.rows, self._counted = what, of, 0, counted
        self._watcher, self._start = _WATCHER.get(), time.monotonic()
        if self._watcher is not None and counted:
            self._watcher.passes += 1

    @property
    def watched(self) -> bool:
        """Whether anybody wants to be told."""
        return self._watcher is not None

    def done(self, rows: int) -> None:
        """So many more rows are done."""
        self.rows += rows
        if self._watcher is not None:
            number = self._watcher.passes if self._counted else 0
            seconds = time.monotonic() - self._start
            self._watcher.tell(Progress(self.what, self.rows, self.of, seconds, number))

    def end(self) -> None:
        """A line in the log of the program."""
        LOGGER.debug("%s: %d rows in %.2f s", self.what, self.of, time.monotonic() - self._start)


def before_passes(results: Iterable[T], rows: Sequence[int], what: str) -> Iterator[T]:
    """The results of parts of so many rows, by work that comes before the passes."""
    work = Pass(sum(rows), what, counted=False)
    for result, size in zip(results, rows, strict=True):
        work.done(size)
        yield result
    work.end()


@contextmanager
def bar() -> Iterator[Watch]:
    """A function that draws a bar when it is told."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda now: None
        return
    drawn = _Bar(console)
    try:
        yield drawn
    finally:
        drawn.go()


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
        """Remove the bar."""
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
