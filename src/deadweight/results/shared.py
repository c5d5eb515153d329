"""What all results share: parts that are there only if they were asked for, and numbers that JSON can hold.

A result is computed when it is made. A part that takes a pass of its own over the log, and that nobody asked
for, is not in it; reading it raises `NotAsked`, which says how to ask.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Self

from deadweight.basics.arithmetic import freeze_fields
from deadweight.errors import NotAsked

SCHEMA = 2
"""Version of what `to_dict`, `--json` and saved files hold."""

ABSENT: Any = object()


def absent() -> Any:
    """The default of a field that is left out unless it is given; see `Result.ASK`."""
    return ABSENT


class Result:
    """Base of results.

    `ASK` says, for each field that may be absent, how to ask for it.
    """

    ASK: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        freeze_fields(self)
        for name in self.ASK:
            if self.__dict__.get(name) is ABSENT:
                del self.__dict__[name]

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for attributes that are not set.
        kind = type(self)
        if name in kind.ASK:
            raise NotAsked(f"This {kind.__name__} has no {name}: it was not asked for.", fix=kind.ASK[name])
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")

    def save(self, path: str | Path) -> Path:
        """Write the result to a JSON file, which `deadweight.load` reads; returns the path."""
        from deadweight.results.saved import save

        return save(self, path)

    def has(self, name: str) -> bool:
        """Whether a part that takes work of its own is there."""
        return name in self.__dict__

    def with_changes(self, **changes: Any) -> Self:
        """A copy in which some fields have other values."""
        kept = {one.name: self.__dict__[one.name] for one in fields(self) if self.has(one.name)}  # type: ignore[arg-type]
        return type(self)(**{**kept, **changes})


def finite(number: float | None) -> float | None:
    """The number for JSON, which has no infinity and no NaN: those are null."""
    return float(number) if number is not None and math.isfinite(number) else None


def json_label(label: Any) -> Any:
    """A label as JSON has it: a date as text, a tuple as a list, anything that JSON does not know as text.

    >>> json_label((1, datetime.date(2024, 5, 1)))
    [1, '2024-05-01']
    """
    if isinstance(label, float):
        return label if math.isfinite(label) else str(label)
    if label is None or isinstance(label, str | int):
        return label
    if isinstance(label, tuple | list):
        return [json_label(part) for part in label]
    return label.isoformat() if isinstance(label, datetime.date) else str(label)
