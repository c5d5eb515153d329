"""Progress: how far the passes over a log have come, for whoever asked to be told, and a line of logging.

    with dw.progress():          # a bar on standard error, where that is a terminal
        ev = dw.evaluate(log, policy)

    with dw.progress(print):     # or a function that is given a `Progress`
        ev = dw.evaluate("logs/", policy)

Every verb works so, since there is one loop over data. A verb that knows its passes says so before the first
(`expect_passes`); what the data alone decide, such as sums that left the range of doubles and are made again,
adds to them (`unforeseen_passes`). Each pass is also a line of Python's logging under the name `deadweight`,
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
from dataclasses import dataclass, replace
from typing import Any, TypeVar

LOGGER = logging.getLogger("deadweight")
LOGGER.addHandler(logging.NullHandler())
# Work that is done within so many seconds needs no bar.
PATIENCE = 1.0


@dataclass(frozen=True)
class Progress:
    """How far a pass over a log has come, and with it the work.

    Attributes:
      what: "summing"; or, before the first pass, "checking files", "sorting" and the like.
      rows, of: rows done, and all rows.
      seconds: since the pass began.
      number: which pass this is since somebody watches, from 1; 0 before the first.
      passes: how many there will be, this one included; None where that is not known.
      seconds_left: until the last of them is done, if the others take as long as those so far; None where
        nobody can tell.
    """

    what: str
    rows: int
    of: int
    seconds: float
    number: int = 0
    passes: int | None = None
    seconds_left: float | None = None

    @property
    def rows_per_second(self) -> float:
        """Since the pass began."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def title(self) -> str:
        """The pass and what it does, such as 'pass 2 of 5, summing'."""
        if not self.number:
            return self.what
        return f"pass {self.number}{f' of {self.passes}' if self.passes else ''}, {self.what}"

    @property
    def left(self) -> str:
        """The time that is left, as 'about 3 min left'; empty where none is, or nobody can tell."""
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


class _Watcher:
    """Who is told of progress, the passes so far, and how many there will be."""

    def __init__(self, tell: Watch) -> None:
        self.tell, self.passes = tell, 0
        self.expected: int | None = None
        self.unforeseen = False
        self.began: float | None = None

    def begin(self) -> None:
        """One more pass."""
        self.passes += 1
        if self.began is None:
            self.began = time.monotonic()
        if self.expected is not None:
            self.expected = max(self.passes, self.expected + self.unforeseen)

    def seconds_left(self, share: float) -> float | None:
        """The time that is left with such a share of the current pass done, at the pace so far."""
        done = self.passes - 1 + share
        if self.expected is None or self.began is None or not done:
            return None
        return (time.monotonic() - self.began) / done * (self.expected - done)


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
      pass 1 of 5, summing
      >>> seen[-1].rows == seen[-1].of
      True
    """
    with bar() if tell is None else nullcontext(tell) as watch:
        token = _WATCHER.set(_Watcher(watch))
        try:
            yield
        finally:
            _WATCHER.reset(token)


def is_watched() -> bool:
    """Whether anybody is told of progress: otherwise nobody need count passes."""
    return _WATCHER.get() is not None


def expect_passes(count: int | None) -> None:
    """Announce so many passes, as far as the log does not ask for more; None where nobody can tell."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher.expected = None if count is None else watcher.passes + count


@contextmanager
def unforeseen_passes(are: bool = True) -> Iterator[None]:
    """Count the passes that begin meanwhile on top of those that were expected, if they are unforeseen."""
    watcher = _WATCHER.get()
    if watcher is None or watcher.unforeseen or not are:
        yield
        return
    watcher.unforeseen = True
    try:
        yield
    finally:
        watcher.unforeseen = False


class Pass:
    """One pass over rows: `done(rows)` after each piece, `end()` after the last.

    `counted`: it is one of the passes that sum, rather than something that comes before them.
    """

    def __init__(self, of: int, what: str = "summing", counted: bool = True) -> None:
        self.what, self.of, self.rows, self._counted = what, of, 0, counted
        self._watcher, self._start = _WATCHER.get(), time.monotonic()
        if self._watcher is not None and counted:
            self._watcher.begin()

    @property
    def watched(self) -> bool:
        """Whether anybody wants to be told."""
        return self._watcher is not None

    def done(self, rows: int) -> None:
        """So many more rows are done."""
        self.rows += rows
        watcher = self._watcher
        if watcher is None:
            return
        now = Progress(self.what, self.rows, self.of, time.monotonic() - self._start)
        if self._counted:
            left = watcher.seconds_left(self.rows / self.of if self.of else 1.0)
            now = replace(now, number=watcher.passes, passes=watcher.expected, seconds_left=left)
        watcher.tell(now)

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
