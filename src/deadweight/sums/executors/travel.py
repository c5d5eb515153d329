"""What passes between a worker and whoever waits for it: results, and failures that survive the journey."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from deadweight.errors import EstimationError
from deadweight.sums.executors.base import Work

# How often a part is tried again after the worker that had it was killed.
RETRIES = 3


def attempt(work: Work, part: int) -> Any:
    """What a worker does with a part: its result, or a failure that can travel."""
    _one_thread()
    try:
        return work.add_up(work.load(part))
    except Exception as error:
        return Failure.of(error)


@dataclass(frozen=True)
class Failure:
    """An error in a worker. Errors with arguments of their own do not survive the journey; this does."""

    kind: type[Exception]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]
    trace: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """From the error that is being handled."""
        plain = isinstance(error, ValueError | OSError | ArithmeticError | LookupError | TypeError)
        if plain:
            return cls(type(error), error.args, dict(vars(error)), traceback.format_exc())
        return cls(RuntimeError, (f"{type(error).__name__}: {error}",), {}, traceback.format_exc())

    def error(self) -> Exception:
        """The error again."""
        again = self.kind.__new__(self.kind, *self.arguments)
        again.args = self.arguments
        again.__dict__.update(self.attributes)
        if not isinstance(again, ValueError):
            again.add_note(f"In a worker:\n{self.trace}")
        return again


def opened(result: Any) -> Any:
    """A worker's result; its failure is raised here."""
    if isinstance(result, Failure):
        raise result.error()
    return result


def cannot_travel(error: Exception) -> EstimationError:
    """The error for work that other processes cannot be given."""
    return EstimationError(
        f"Worker processes cannot be given this work: {type(error).__name__}: {error}",
        fix="What is summed of a block must be a function or a class of a module that workers can import, "
        "not a lambda, a closure or part of a script; or use workers=1.",
    )


class Unreadable:
    """Work that a worker has received and cannot read; says so when it is asked for a part."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def load(self, part: int) -> Any:
        """Refused."""
        raise cannot_travel(self.error)

    def add_up(self, loaded: Any) -> Any:
        """Never reached."""
        raise cannot_travel(self.error)


def lost(part: int, why: str) -> EstimationError:
    """The error for a part that no worker survived."""
    return EstimationError(
        f"Part {part} of the log was given up: its worker was killed {RETRIES + 1} times ({why}).",
        fix="Most often memory ran out: use fewer workers, or smaller parts (part_rows).",
    )


def _one_thread() -> None:
    """Workers share the processors by being many."""
    import pyarrow as pa

    if pa.cpu_count() > 1:
        pa.set_cpu_count(1)
