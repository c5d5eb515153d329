"""Tables in memory: pandas, polars (eager and lazy), pyarrow, duckdb, or a plain dict of columns.

Narwhals gives one path through the frame libraries; each column becomes an Arrow column. A column of Python
objects of several types has no Arrow type: it becomes text, and what was found in it is kept, so that a check
can say it.
"""

from __future__ import annotations

import decimal
import numbers
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deadweight.errors import assume
from deadweight.io.columns import pa
from deadweight.io.files import columns_of, read_files, text_in, unique_names
from deadweight.io.schema import LogProblem, show
from deadweight.log.labels import plain

Kinds = dict[str, list[int]]
"""Kind of value ("text", "numbers", ...) -> its rows, in a column that has several."""


@dataclass(frozen=True)
class Columns:
    """Arrow columns by the user's names, and what stood in those of several types."""

    arrow: dict[str, Any]
    mixed: dict[str, Kinds] = field(default_factory=dict)
    all_names: tuple[str, ...] = ()


def read_columns(
    source: Any,
    choose: Callable[[list[str], list[str], str], Mapping[str, str]],
    tell: Callable[[str], None] = assume,
) -> Columns:
    """The chosen columns of any source.

    Args:
      source: as for `read`.
      choose: from all names (those of columns known to be text, and a hint for messages) to our name ->
        theirs of the columns that are wanted.
      tell: is told what of a folder is no data.
    """
    seen: list[str] = []

    def chosen(names: list[str], text: list[str], hint: str = "") -> Mapping[str, str]:
        seen.extend(names)
        return choose(names, text, hint)

    columns, mixed = _columns(source, chosen, tell)
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{show(name)} {len(column):,}" for name, column in columns.items())
        raise LogProblem(
            "DW103",
            f"All columns of a table have the same length; found {lengths}.",
            fix="Check that the columns come from the same rows.",
        )
    return Columns(columns, mixed, tuple(dict.fromkeys(seen)))


def _columns(
    source: Any, choose: Callable[..., Mapping[str, str]], tell: Callable[[str], None]
) -> tuple[dict[str, Any], dict[str, Kinds]]:
    if isinstance(source, (str, Path)):
        source = [source]
    if isinstance(source, (list, tuple)) and source and all(isinstance(path, (str, Path)) for path in source):
        return _of_arrow(read_files(source, choose, tell)), {}
    if isinstance(source, Mapping):
        names = columns_of(choose([name for name in source if isinstance(name, str)], []))
        return _of_values({name: source[name] for name in names})
    if isinstance(source, pa.RecordBatchReader):
        source = source.read_all()
    datasets = sys.modules.get("pyarrow.dataset")  # whoever has one has imported it, and nobody else should
    if datasets is not None and isinstance(source, datasets.Dataset):
        names = columns_of(choose(unique_names(source.schema.names), text_in(source.schema)))
        return _of_arrow(source.to_table(columns=names)), {}
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        names = columns_of(choose(unique_names(source.column_names), text_in(source.schema)))
        return _of_arrow(source.select(names)), {}
    return _of_frame(source, choose)


def _of_arrow(table: Any) -> dict[str, Any]:
    return {name: table[name] for name in table.column_names}


def _of_frame(
    source: Any, choose: Callable[..., Mapping[str, str]]
) -> tuple[dict[str, Any], dict[str, Kinds]]:
    import narwhals as nw

    if hasattr(source, "index") and hasattr(source, "columns"):
        unique_names([name for name in source.columns if isinstance(name, str)])
    try:
        frame = nw.from_native(source)
    except TypeError:
        raise LogProblem(
            "DW103",
            f"Expected a table; found {type(source).__module__}.{type(source).__qualname__}.",
            fix="Pass a path, a pandas or polars frame, a pyarrow table, a duckdb relation, or a dict of "
            "columns.",
        ) from None
    schema = frame.collect_schema()
    names = [name for name in schema.names() if isinstance(name, str)]
    text = [name for name in names if schema[name] in (nw.String, nw.Categorical, nw.Enum)]
    index = [name for name in getattr(getattr(source, "index", None), "names", []) or [] if name is not None]
    shown = ", ".join(show(name) for name in index)  # pandas keeps some columns there: they do not count
    hint = f" The index holds {shown}: call reset_index() first." if index else ""
    wanted = columns_of(choose(names, text, hint))
    eager = frame.select(wanted)
    if isinstance(eager, nw.LazyFrame):
        eager = eager.collect()
    return _of_values({name: eager[name] for name in wanted})


def _of_values(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Kinds]]:
    columns: dict[str, Any] = {}
    mixed: dict[str, Kinds] = {}
    for name, values in given.items():
        columns[name], kinds = _as_arrow(name, values)
        if kinds:
            mixed[name] = kinds
    return columns, mixed


def _as_arrow(name: str, values: Any) -> tuple[Any, Kinds]:
    """A column as an Arrow array, and its kinds if it has several."""
    import narwhals as nw

    if isinstance(values, nw.Series) and values.dtype == nw.Object:
        values = values.to_list()  # polars would hand over the addresses of the objects
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        if isinstance(values, nw.Series):
            return values.to_arrow(), {}
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            return values, {}
        return pa.array(values, from_pandas=True), {}
    return _of_objects(name, values)


def _of_objects(name: str, values: Any) -> tuple[Any, Kinds]:
    try:
        items = values.to_list() if hasattr(values, "to_list") else list(values)
    except TypeError:
        raise LogProblem(
            "DW103",
            f"Column {show(name)} must be a sequence of values; found {type(values).__name__}.",
            fix="Pass a list or an array with one entry a row.",
        ) from None
    kinds: Kinds = {}
    for row, item in enumerate(items):
        kind = _kind(item)
        if kind is not None:
            kinds.setdefault(kind, []).append(row)
    if set(kinds) == {"numbers"}:
        column = _of_numbers([None if _kind(item) is None else plain(item) for item in items])
        if column is not None:
            return column, {}
    text = [None if _kind(item) is None else _text(item) for item in items]
    return pa.array(text, pa.large_string()), {} if set(kinds) <= {"text"} else kinds


def _of_numbers(items: list[Any]) -> Any:
    """Numbers as an Arrow array in which they keep all their digits; None where no type of it holds them.

    What has the digits of no Arrow type passes through floats only if these part whatever differs.
    """
    try:
        floats = [None if item is None else float(item) for item in items]
    except (OverflowError, TypeError, ValueError):  # beyond floating point, or complex
        floats = None
    if floats is not None and all(number == item for number, item in zip(floats, items, strict=True)):
        return pa.array(floats, pa.float64())
    try:
        return pa.array([None if item is None else decimal.Decimal(str(item)) for item in items])
    except (pa.ArrowException, ArithmeticError, ValueError):  # too many digits, or a fraction of two numbers
        merged = floats is not None and len(set(floats)) < len(set(items))
        return None if floats is None or merged else pa.array(floats, pa.float64())


def _text(item: Any) -> str:
    """A value as text that Arrow can hold."""
    try:
        return str(item).encode("utf-8", "backslashreplace").decode()
    except ValueError:  # an integer of thousands of digits
        return f"a {type(item).__name__} too large to write"


def _kind(item: Any) -> str | None:
    """What a value is, in words; None for a missing one."""
    if item is None or (isinstance(item, float) and item != item):
        return None
    if isinstance(item, bool):
        return "True and False"
    if isinstance(item, (numbers.Number, decimal.Decimal)):
        return "numbers"
    if isinstance(item, (str, bytes)):
        return "text"
    return type(item).__name__
