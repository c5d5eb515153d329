"""Progress: how far the passes over a log have come, for whoever asked to be told, and a line of logging.

    with dw.progress():          # a bar on standard error, where that is a terminal
        ev = dw.evaluate(log, policy)

    with dw.progress(print):     # or a function that is given a `Progress`
        ev = dw.evaluate("logs/", policy)

Every verb works so, since there is one loop over data. A verb that knows its passes says so before the first
(`expect_passes`); what the data alone decide, such as sums that left the range of doubles and are made again,
adds to them (`unforeseen_passes`). Each pass is also a line of Python's logging under the name `deadweight`,
level DEBUG; verdicts are lines of level INFO.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

LOGGER = logging.getLogger("deadweight")
LOGGER.addHandler(logging.NullHandler())


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
        """What is being done.

        >>> Progress("summing", 0, 10, 0.0, 2, 5).title
        'pass 2 of 5, summing'
        """
        if not self.number:
            return self.what
        return f"pass {self.number}{f' of {self.passes}' if self.passes else ''}, {self.what}"

    @property
    def left(self) -> str:
        """The time that is left, in words; empty where nothing is, or nobody can tell.

        >>> Progress("summing", 5, 10, 3.0, 2, 5, 200.0).left
        'about 3 min left'
        """
        return "" if not self.seconds_left else f"about {duration(self.seconds_left)} left"

    def __str__(self) -> str:
        done = f"{self.title}: {self.rows:,} of {self.of:,} rows"
        return f"{done}, {self.left}" if self.left else done


def duration(seconds: float) -> str:
    """A rough time in words.

    >>> duration(0.2), duration(42), duration(600), duration(9000)
    ('1 s', '42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


Watch = Callable[[Progress], None]
T = TypeVar("T")


class _Watcher:
    """Somebody who wants to be told, the passes so far, and how many there will be."""

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
        """With such a share of the current pass done, at the pace so far."""
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
    if tell is not None:
        with _watched(tell):
            yield
        return

    with bar() as draw, _watched(draw):
        yield


@contextmanager
def _watched(tell: Watch) -> Iterator[None]:
    token = _WATCHER.set(_Watcher(tell))
    try:
        yield
    finally:
        _WATCHER.reset(token)


def is_watched() -> bool:
    """Whether anybody wants to be told: otherwise nobody need count passes."""
    return _WATCHER.get() is not None


def expect_passes(count: int | None) -> None:
    """So many passes will follow, as far as the log does not ask for more; None where nobody can tell."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher.expected = None if count is None else watcher.passes + count


@contextmanager
def unforeseen_passes(are: bool = True) -> Iterator[None]:
    """Passes that begin here come on top of those that were expected, if they are unforeseen."""
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
        if self._watcher is not None:
            self._watcher.tell(self._now(self._watcher))

    def _now(self, watcher: _Watcher) -> Progress:
        seconds = time.monotonic() - self._start
        if not self._counted:
            return Progress(self.what, self.rows, self.of, seconds)
        left = watcher.seconds_left(self.rows / self.of if self.of else 1.0)
        return Progress(self.what, self.rows, self.of, seconds, watcher.passes, watcher.expected, left)

    def end(self) -> None:
        """A line in the log of the program."""
        LOGGER.debug("%s: %d rows in %.2f s", self.what, self.of, time.monotonic() - self._start)


def before_passes(found: Iterable[T], rows: Sequence[int], what: str) -> Iterator[T]:
    """What is found in each part, of so many rows, by work that comes before the passes."""
    work = Pass(sum(rows), what, counted=False)
    for one, size in zip(found, rows, strict=True):
        work.done(size)
        yield one
    work.end()


# --------------------------------------------------------------------------------------------------------
# The bar that shows progress at a terminal: one line on standard error, which goes when a pass is done.
#
# Where standard error is a file or a pipe there is nothing, and work of less than a second shows nothing.
# Between passes there is no bar either: whoever prints something then has the terminal to himself.

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
