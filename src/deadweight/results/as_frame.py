"""Results as a frame of the library that the user works with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from deadweight.errors import MissingExtra, OptionError

LIBRARIES = ("pandas", "polars", "pyarrow")


def frame(rows: list[dict[str, Any]], columns: Sequence[str] = (), library: str | None = None) -> Any:
    """Rows as a frame.

    Args:
      rows: plain values by column.
      columns: are there even if there is no row; by default they are those of the rows.
      library: "pandas", "polars" or "pyarrow". None takes the one of the first two that the program has
        imported, else pandas if it is installed, else pyarrow.

    >>> frame([{"a": 1}], library="pyarrow").column_names
    ['a']
    """
    if library is not None and library not in LIBRARIES:
        raise OptionError(
            f"A frame is made by {', '.join(LIBRARIES[:-1])} or {LIBRARIES[-1]}; found {library!r}.",
            fix="For example to_frame('polars').",
        )
    names = list(columns or (rows[0] if rows else ()))
    by_column = {name: [row[name] for row in rows] for name in names}
    found = library or _in_use()
    try:
        module = import_module(found)
    except ImportError:
        if library is not None:
            raise MissingExtra(f"A {library} frame", "frames") from None
        module, found = import_module("pyarrow"), "pyarrow"
    if found == "pandas":
        return module.DataFrame(by_column)
    make = module.array if found == "pyarrow" else module.Series
    made = {name: _made(make, [_struct(value) for value in column]) for name, column in by_column.items()}
    return module.table(made) if found == "pyarrow" else module.DataFrame(made)


def _made(make: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    """A column; of text where labels are numbers for which the library has no type in common."""
    try:
        return make(values)
    except (ValueError, TypeError, OverflowError):
        return make([None if value is None else str(value) for value in values])


def _struct(value: Any) -> Any:
    """A mapping with names for keys, as structs of polars and pyarrow have them; anything else as it is."""
    return {str(key): one for key, one in value.items()} if isinstance(value, Mapping) else value


def _in_use() -> str:
    return next((name for name in ("pandas", "polars") if name in sys.modules), "pandas")
