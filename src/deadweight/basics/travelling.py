"""What passes between processes: functions, results, and failures that survive the journey."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

from deadweight.errors import EstimationError


def packed(what: Any) -> bytes:
    """Something as it travels; what cannot is refused."""
    try:
        return bytes(ForkingPickler.dumps(what))
    except Exception as error:  # what cannot be packed says so in many ways
        raise cannot_travel(error) from None


def attempted(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call, or a failure that can travel."""
    try:
        return function(*arguments)
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
    """A function that a worker has received and cannot read; says so when it is called."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, task: Any) -> Any:
        """Refused."""
        raise cannot_travel(self.error)
