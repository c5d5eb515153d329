"""Errors: one class a cause, each with its remedy; and text that is safe on a terminal.

Every message answers four questions: what was expected, what was found, where, and what to do. The
remedy goes on a line of its own, so that the command line can print an error as it is.

What a log, a policy or a file is called may hold anything. A label with an escape sequence could move the
cursor, colour the screen or plant a link; one with a bidirectional control could show a word that is not
there. Every command prints through `printable`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from itertools import islice

# Neither letters, marks, digits, signs nor plain spaces: what `str.isprintable` refuses, found quickly.
MAYBE_NOT_PRINTABLE = re.compile(r"[^ -~]")
# A table of a hundred thousand columns would be compared for half a minute.
MOST_COMPARED = 1_000


def printable(text: str, keep: str = "\n") -> str:
    r"""The text with every character that is not printable shown as an escape, except those in `keep`.

    >>> print(printable("ward\x1b]8;;http://x\x07 \u202egnp.exe\u2028"))
    ward\x1b]8;;http://x\x07 \u202egnp.exe\u2028
    """
    return MAYBE_NOT_PRINTABLE.sub(lambda match: _shown(match[0], keep), text)


def _shown(character: str, keep: str) -> str:
    if character in keep or character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


class DeadweightError(ValueError):
    """Base of all errors that a user of deadweight can cause and fix; `code` tells programs the kind."""

    code = "DW900"

    def __init__(self, problem: str, *, fix: str = "") -> None:
        self.problem = problem
        self.fix = fix
        super().__init__(f"{problem}\n  {fix}" if fix else problem)


class DataError(DeadweightError):
    """A log whose columns do not describe episodes."""

    code = "DW100"


class PolicyError(DeadweightError):
    """A policy that is not a table of probabilities, or does not fit the log."""

    code = "DW901"


class SupportError(DeadweightError):
    """A logged action to which the behaviour policy gives probability zero."""

    code = "DW902"


class MDPError(DeadweightError):
    """Transition, reward or start arrays that are not an MDP, or a value that does not exist."""

    code = "DW903"


class DropError(DeadweightError):
    """A drop that names unknown states or has the wrong shape."""

    code = "DW904"


class OptionError(DeadweightError):
    """An option that does not exist, or a value that it cannot take."""

    code = "DW905"


class UnknownEstimator(DeadweightError):
    """An estimator name that is not in the table."""

    code = "DW906"


class EstimationError(DeadweightError):
    """An estimate that this log, these policies or these options cannot give."""

    code = "DW907"


class OutputError(DeadweightError):
    """A file or folder that cannot be written where it should go."""

    code = "DW909"


class TooLarge(DeadweightError):
    """A table or an array that would not fit in memory; see `deadweight.tools.limits`."""

    code = "DW109"

    def __init__(self, problem: str, *, fix: str = "") -> None:
        super().__init__(f"{self.code}: {problem}", fix=fix)
        self.problem = problem


class NotAsked(DeadweightError, AttributeError):
    """A part of a result that takes work of its own and was not asked for.

    It is an AttributeError as well: `hasattr` says False, and `getattr` takes a default.
    """

    code = "DW911"


class MissingExtra(DeadweightError, ImportError):
    """A feature whose optional dependency is not installed."""

    code = "DW908"

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional dependency that is not installed.",
            fix=f"Install it with: pip install 'deadweight[{extra}]'",
        )


class Assumption(UserWarning):
    """Something about a log that nobody said and that was inferred, or that was said in two ways.

    The message says what was taken, and how to say otherwise.
    """


def assume(message: str) -> None:
    """Warn of an assumption, in the name of the first caller outside this package."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "deadweight":
        following = frame.f_back
        if following is None:
            break
        frame, level = following, level + 1
    warnings.warn(message, Assumption, stacklevel=level)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint " Did you mean 'X'?" for the closest known word, or an empty string."""
    import difflib  # only a message needs it

    by_upper = {name.upper(): name for name in islice(known, MOST_COMPARED)}
    close = difflib.get_close_matches(word.upper(), list(by_upper), n=1, cutoff=0.5)
    return f" Did you mean '{by_upper[close[0]]}'?" if close else ""


def first_few(items: Iterable[object], most: int = 5) -> str:
    """The first few items, comma-separated, with how many more there are."""
    shown = list(items)
    text = ", ".join(printable(str(item), keep="") for item in shown[:most])
    return text + (f" and {len(shown) - most} more" if len(shown) > most else "")


def how_many(number: int, noun: str) -> str:
    """'1 row', '2,000 rows'."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
