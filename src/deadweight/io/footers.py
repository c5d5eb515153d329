"""What the footers of Parquet files say, and whether they agree with themselves and with each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deadweight.io.columns import is_text
from deadweight.io.findings import LogProblem, show, unfit_files


@dataclass(frozen=True)
class Bounds:
    """Smallest and largest whole number of a column."""

    low: int
    high: int


def bounds_of(parquet: Any, number: int, column: str) -> Bounds | None:
    """Bounds of a column of whole numbers in a row group, if its statistics have them."""
    import pyarrow as pa

    schema = parquet.schema_arrow
    if column not in schema.names or not pa.types.is_integer(schema.field(column).type):
        return None  # times and durations are whole numbers in a file, and something else outside
    group = parquet.metadata.row_group(number)
    for i in range(group.num_columns):
        found = group.column(i)
        if found.path_in_schema != column:
            continue
        statistics = found.statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
            return None
        return Bounds(statistics.min, statistics.max)
    return None


def check_counts(path: str, metadata: Any) -> None:
    """Refuse a file whose footer counts its rows in several ways that do not agree.

    Readers believe the count of a row group: were it too small, rows would be left out without a word.
    """
    rows = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        rows += group.num_rows
        for i in range(group.num_columns):
            column = group.column(i)
            flat = metadata.schema.column(i).max_repetition_level == 0
            if flat and column.num_values != group.num_rows:
                raise _miscounted(
                    repr(path),
                    f"row group {number} has {group.num_rows:,} rows, and {column.num_values:,} values in "
                    f"column {show(column.path_in_schema)}",
                )
    if rows != metadata.num_rows:
        raise _miscounted(repr(path), f"{metadata.num_rows:,} rows in all, and {rows:,} in its row groups")


def check_read(where: str, promised: int, found: int) -> None:
    """Refuse rows of which fewer or more can be read than the footer says."""
    if promised != found:
        raise _miscounted(where, f"{promised:,} rows, of which {found:,} can be read")


def check_kinds(path: str, own: Any, common: Any, names: list[str]) -> None:
    """Refuse a column that is text in one file and something else in another: '01' would become 1."""
    for name in names:
        if name not in own.names or name not in common.names:
            continue
        kinds = [_stored_kind(schema.field(name).type) for schema in (common, own)]
        if is_text(kinds[0]) != is_text(kinds[1]):
            raise unfit_files(f"column {show(name)} is {kinds[0]} in the first, and {kinds[1]} in {path!r}.")


def _stored_kind(kind: Any) -> Any:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _miscounted(where: str, claim: str) -> LogProblem:
    return LogProblem(
        "DW102",
        f"{where} is damaged: its footer says that it has {claim}.",
        fix="Copy or write the file again.",
    )
