"""Findings: what is wrong with a log, where, and what to do.

A check is a small function in a table, with a code that never changes its meaning. Checks of severity
"error" say what `read` refuses; the doctor runs them too and adds "warning" (the log can be evaluated, but
look first) and "info".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from deadweight.errors import DataError
from deadweight.log.labels import plain
from deadweight.typing import AnyArray

Severity = Literal["error", "warning", "info"]
MOST_SHOWN = 5
LONGEST_LABEL = 60

Subject = TypeVar("Subject")


class LogProblem(DataError):
    """A table that is not a log; `code` is that of the doctor's finding."""

    def __init__(self, code: str, problem: str, *, fix: str = "") -> None:
        super().__init__(f"{code}: {problem}", fix=fix)
        self.code, self.problem = code, problem


def not_parquet(path: str, reason: str) -> LogProblem:
    """A file whose bytes are not what its name says."""
    return LogProblem(
        "DW102",
        f"{path!r} is not a readable Parquet file, or was cut short: {reason}",
        fix="Copy or write the file again.",
    )


def unfit_files(reason: str, which: str = "The files") -> LogProblem:
    """Files that cannot be put one below the other."""
    return LogProblem(
        "DW102",
        f"{which} do not fit together: {reason}",
        fix="Write them with the same columns and types.",
    )


def _no_rows() -> AnyArray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Found:
    """What a check found: a sentence, a remedy, and the rows (of the user's table) that it is about."""

    problem: str
    fix: str
    rows: AnyArray = field(default_factory=_no_rows)
    columns: tuple[str, ...] = ()  # those that other checks had better not look at


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """One line of a table of checks.

    `needs` are the columns without which, or after an error in which, the check is not run.
    """

    code: str
    severity: Severity
    title: str
    needs: tuple[str, ...]
    run: Callable[[Subject], Found | None]


@dataclass(frozen=True)
class Finding:
    """One finding of the doctor, in the user's own labels.

    Attributes:
      code: such as "DW202".
      severity: "error", "warning" or "info".
      title: what kind of thing it is.
      problem: what was expected and found, and where.
      fix: what to do.
      count: how many rows are concerned; 0 where it is not about rows.
      rows: the first few of them, each with row (counting from 0) and, where readable, episode and step.
      all_rows: the numbers of all of them.
    """

    code: str
    severity: Severity
    title: str
    problem: str
    fix: str
    count: int = 0
    rows: tuple[dict[str, Any], ...] = ()
    all_rows: AnyArray = field(default_factory=_no_rows, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        return {
            "code": self.code,
            "severity": self.severity,
            "title": self.title,
            "problem": self.problem,
            "fix": self.fix,
            "count": self.count,
            "rows": [dict(row) for row in self.rows],
        }


def show(label: Any) -> str:
    """A label as it may safely stand in a message: quoted if text, control characters escaped, not too long.

    >>> show("a\\nb"), show(3), show(np.float64(0.5))
    ("'a\\\\nb'", '3', '0.5')
    """
    value = plain(label)
    text = (
        repr(value)
        if isinstance(value, (str, bytes, int, float, bool)) or value is None
        else ascii(str(value))
    )
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 4] + "..." + text[-1]
