"""Tables on disk: Parquet or CSV (also compressed), one file or a folder of them, read through pyarrow.

Only the columns that are asked for leave a Parquet file. A file that cannot be read is named in the message,
also when it is one of many in a folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deadweight.errors import DeadweightError, assume, first_few
from deadweight.io.columns import is_text
from deadweight.io.csv_files import as_written, parse_csv
from deadweight.io.findings import LogProblem, not_parquet, show, unfit_files
from deadweight.io.folders import COMPRESSED, PARQUET, list_folder
from deadweight.io.footers import check_counts, check_kinds, check_read
from deadweight.io.schema import labels_in
from deadweight.io.sizes import require_rows, require_text, unreadable

PARQUET_MAGIC = b"PAR1"
CSV = (".csv", ".tsv", ".txt")
NOT_UTF_8 = (
    "It is not written in UTF-8. From a spreadsheet: save it as 'CSV UTF-8'. In a shell: iconv -f "
    "WINDOWS-1252 -t UTF-8 old.csv > new.csv."
)

Chosen = Callable[[list[str], list[str]], Mapping[str, str]]
"""From the names of all columns, and of those of text, to those that are to be read: our name -> theirs."""


def read_files(paths: Sequence[str | Path], choose: Chosen, tell: Callable[[str], None] = assume) -> Any:
    """A pyarrow Table of the chosen columns of one file, a folder, or several files of one kind.

    `tell` is told what of a folder is no data.
    """
    import pyarrow as pa

    parts = [_read_one(file, choose) for path in paths for file in _files_of(Path(path).expanduser(), tell)]
    if any(names is None for _, names in parts):
        parts = [(table if names is None else as_written(table, names), None) for table, names in parts]
    try:
        tables = [table for table, _ in parts]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
        # All text before any of it gets a type: what is 1 in one file may be 01 in another.
        return as_written(table, {k: v for _, names in parts for k, v in (names or {}).items()})
    except (pa.ArrowException, ValueError) as error:
        raise unfit_files(brief(error)) from None


def _read_one(path: Path, choose: Chosen) -> tuple[Any, Mapping[str, str] | None]:
    """The table of a file; of one without types also the names of its columns, the labels being text yet."""
    found = unreadable(path)
    if not found and path.is_dir():
        return _read_parquet(list(list_folder(path).files), path, choose), None
    try:
        head = b"" if found else _head(path)
    except (OSError, ValueError) as error:
        found = brief(error)
    if found:
        raise LogProblem(
            "DW101",
            f"Expected a log at {str(path)!r}; found: {found.removesuffix('.')}.",
            fix="Check the path: a .parquet or .csv file, or a folder of either, such as logs/2025.csv.",
        )
    if not head:
        raise LogProblem("DW104", f"{str(path)!r} is an empty file.", fix="Check how the log was written.")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if head == PARQUET_MAGIC or suffixes[-1:] in [[suffix] for suffix in PARQUET]:
        return _read_parquet([path], None, choose), None
    if suffixes[-1:] in [[suffix] for suffix in CSV] or (
        suffixes[-2:-1] in [[suffix] for suffix in CSV] and suffixes[-1] in COMPRESSED
    ):
        return _read_csv(path, choose)
    raise LogProblem(
        "DW103",
        f"{str(path)!r} is not a table that can be read: expected Parquet ({', '.join(PARQUET)}) or CSV "
        f"({', '.join(CSV)}).",
        fix="From a spreadsheet: save it as 'CSV UTF-8'. Rename the file if it is one of these; in Python "
        "load it yourself and pass a pandas or polars frame.",
    )


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(PARQUET_MAGIC))


def _files_of(path: Path, tell: Callable[[str], None]) -> list[Path]:
    """A folder of CSV as its files; anything else as it is."""
    if unreadable(path) or not path.is_dir():
        return [path]
    found = list_folder(path)
    found.say(tell)
    return [path] if found.is_parquet else list(found.files)


def _read_parquet(files: list[Path], base: Path | None, choose: Chosen) -> Any:
    """All files as one table; folder names such as `ward=3` become columns."""
    import pyarrow as pa

    try:
        if len(files) == 1 and base is None:
            return _read_one_parquet(files[0], choose)
        import pyarrow.dataset as ds

        hive = {} if base is None else {"partitioning": "hive", "partition_base_dir": str(base)}
        data = ds.dataset([str(file) for file in files], format="parquet", **hive)
        names = choose(unique_names(data.schema.names), text_in(data.schema))
        footers = []
        for fragment in data.get_fragments():
            check_counts(fragment.path, fragment.metadata)
            check_kinds(fragment.path, fragment.physical_schema, data.schema, labels_in(names))
            footers.append(fragment.metadata)
        require_rows(footers, columns_of(names), repr(str(base)))
        table = data.to_table(columns=columns_of(names))
        check_read(repr(str(base)), sum(footer.num_rows for footer in footers), table.num_rows)
        return check_text(table)
    except (pa.ArrowException, OSError, UnicodeError, ValueError) as error:
        if isinstance(error, DeadweightError | MemoryError):
            raise
        raise _unreadable_file(files, error) from None


def _read_one_parquet(file: Path, choose: Chosen) -> Any:
    """One file, without `pyarrow.dataset`: importing that imports pandas, where it is installed."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(str(file)) as opened:
        check_counts(str(file), opened.metadata)
        schema = opened.schema_arrow
        wanted = columns_of(choose(unique_names(schema.names), text_in(schema)))
        require_rows([opened.metadata], wanted, repr(str(file)))
        table = opened.read(columns=wanted)
        check_read(repr(str(file)), opened.metadata.num_rows, table.num_rows)
        return check_text(table)


def columns_of(names: Mapping[str, str]) -> list[str]:
    """The columns that are to be read, each once."""
    return list(dict.fromkeys(names.values()))


def text_in(schema: Any) -> list[str]:
    """The columns of text."""
    import pyarrow as pa

    kinds = {
        field.name: field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        for field in schema
    }
    return [name for name, kind in kinds.items() if is_text(kind)]


def check_text(table: Any) -> Any:
    """The table, if all its text is UTF-8: Parquet may say so of any bytes."""
    import pyarrow as pa

    for name in table.column_names:
        column = table[name]
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                raise LogProblem(
                    "DW102",
                    f"Column {show(name)} must be text in UTF-8; found bytes that are not.",
                    fix="Write the column again as text, or as whole numbers.",
                ) from None
    return table


def _unreadable_file(files: list[Path], error: Exception) -> LogProblem:
    """The file that cannot be read, or, if each can, that they do not fit together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        try:
            pq.read_table(str(file), partitioning=None)
        except (pa.ArrowException, OSError, UnicodeError, ValueError) as reason:
            return not_parquet(str(file), brief(reason))
    return unfit_files(brief(error), f"The {len(files)} Parquet files under {str(files[0].parent)!r}")


def _read_csv(path: Path, choose: Chosen) -> tuple[Any, Mapping[str, str]]:
    import pyarrow as pa

    try:
        require_text(path, compressed=path.suffix.lower() in COMPRESSED)
        return parse_csv(path, lambda schema: choose(unique_names(schema.names), text_in(schema)))
    except (pa.ArrowException, OSError, UnicodeError, ValueError) as error:
        if isinstance(error, DeadweightError | MemoryError):
            raise
        empty = "Empty CSV" in str(error)
        raise LogProblem(
            "DW104" if empty else "DW102",
            f"{str(path)!r} cannot be read as CSV: {brief(error)}",
            fix=NOT_UTF_8
            if "UTF8" in str(error)
            else "Expected text in UTF-8 with a header line and as many fields in every line.",
        ) from None


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, if no two columns have the same."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        shown = first_few([show(name) for name in twice])
        raise LogProblem(
            "DW108",
            f"Every column needs a name of its own; found twice: {shown}.",
            fix="Rename or remove one of them.",
        )
    return list(names)


def brief(error: Exception) -> str:
    """The first line of another library's message, without control characters, as one sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = "".join(c if c.isprintable() else "?" for c in lines[0])[:200]
    return text if text.endswith(".") else text + "."
