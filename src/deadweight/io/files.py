"""Tables on disk: a Parquet file, a folder of them, or CSV (also compressed), read through pyarrow.

Only the columns that are asked for leave a Parquet file. A file that cannot be read is named in the message,
also when it is one of many in a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deadweight.io.findings import LogProblem, show

PARQUET_MAGIC = b"PAR1"
PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".txt")
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
DELIMITERS = (",", ";", "\t", "|")

Chosen = Callable[[list[str]], list[str]]
"""From the names of all columns to those that are to be read."""


def read_files(paths: Sequence[str | Path], choose: Chosen) -> Any:
    """A pyarrow Table of the chosen columns of one file, a folder, or several files of one kind."""
    import pyarrow as pa

    parts = [_read_one(Path(path).expanduser(), choose) for path in paths]
    if len(parts) == 1:
        return parts[0]
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except (pa.ArrowException, ValueError) as error:
        raise LogProblem(
            "DW102",
            f"The files do not fit together: {brief(error)}",
            fix="Write them with the same columns and types.",
        ) from None


def _read_one(path: Path, choose: Chosen) -> Any:
    if path.is_dir():
        return _read_parquet(parquet_in(path), path, choose)
    try:
        with path.open("rb") as file:
            head = file.read(len(PARQUET_MAGIC))
    except (OSError, ValueError) as error:
        found = "no such file" if isinstance(error, FileNotFoundError) else brief(error)
        raise LogProblem(
            "DW101",
            f"Expected a log at {str(path)!r}; found: {found}.",
            fix="Check the path: a .parquet or .csv file, or a folder of .parquet files.",
        ) from None
    if not head:
        raise LogProblem("DW104", f"{str(path)!r} is an empty file.", fix="Check how the log was written.")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if head == PARQUET_MAGIC or suffixes[-1:] in [[suffix] for suffix in PARQUET]:
        return _read_parquet([path], None, choose)
    if suffixes[-1:] in [[suffix] for suffix in CSV] or (
        suffixes[-2:-1] in [[suffix] for suffix in CSV] and suffixes[-1] in COMPRESSED
    ):
        return _read_csv(path, choose)
    raise LogProblem(
        "DW103",
        f"{str(path)!r} is not a table that can be read: expected Parquet ({', '.join(PARQUET)}) or CSV "
        f"({', '.join(CSV)}).",
        fix="Rename the file if it is one of these, or load it yourself and pass a pandas or polars frame.",
    )


def parquet_in(folder: Path) -> list[Path]:
    """The Parquet files of a folder and the folders in it, by name."""
    files = sorted(file for suffix in PARQUET for file in folder.rglob(f"*{suffix}") if file.is_file())
    if not files:
        raise LogProblem(
            "DW101",
            f"Expected .parquet files in the folder {str(folder)!r}; found none.",
            fix="Check the folder; CSV files are read one at a time.",
        )
    return files


def _read_parquet(files: list[Path], base: Path | None, choose: Chosen) -> Any:
    """All files as one table; folder names such as `ward=3` become columns."""
    import pyarrow as pa

    try:
        if len(files) == 1 and base is None:
            return _read_one_parquet(files[0], choose)
        import pyarrow.dataset as ds

        hive = {} if base is None else {"partitioning": "hive", "partition_base_dir": str(base)}
        data = ds.dataset([str(file) for file in files], format="parquet", **hive)
        names = unique_names(data.schema.names)
        return data.to_table(columns=choose(names))
    except (pa.ArrowException, OSError, UnicodeError, ValueError) as error:
        if isinstance(error, LogProblem):
            raise
        raise _blame(files, error) from None


def _read_one_parquet(file: Path, choose: Chosen) -> Any:
    """One file, without `pyarrow.dataset`: importing that imports pandas, where it is installed."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(str(file)) as opened:
        return opened.read(columns=choose(unique_names(opened.schema_arrow.names)))


def _blame(files: list[Path], error: Exception) -> LogProblem:
    """The file that cannot be read, or, if each can, that they do not fit together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        try:
            pq.read_table(str(file), partitioning=None)
        except (pa.ArrowException, OSError, UnicodeError, ValueError) as reason:
            return LogProblem(
                "DW102",
                f"{str(file)!r} is not a readable Parquet file, or was cut short: {brief(reason)}",
                fix="Copy or write the file again.",
            )
    return LogProblem(
        "DW102",
        f"The {len(files)} Parquet files under {str(files[0].parent)!r} do not fit together: {brief(error)}",
        fix="Write them with the same columns and types.",
    )


def _read_csv(path: Path, choose: Chosen) -> Any:
    import pyarrow as pa

    try:
        delimiter = _delimiter(path)
        try:
            table = _parse_csv(path, delimiter, as_text=False)
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
            # The types are guessed from the first megabyte; what comes later may not fit.
            table = _parse_csv(path, delimiter, as_text=True)
        return table.select(choose(unique_names(table.column_names)))
    except (pa.ArrowException, OSError, UnicodeError, ValueError) as error:
        if isinstance(error, LogProblem):
            raise
        empty = "Empty CSV" in str(error)
        raise LogProblem(
            "DW104" if empty else "DW102",
            f"{str(path)!r} cannot be read as CSV: {brief(error)}",
            fix="Expected text in UTF-8 with a header line and as many fields in every line.",
        ) from None


def _delimiter(path: Path) -> str:
    """The delimiter that the header line has most of; a comma if it has none."""
    import pyarrow as pa

    with pa.input_stream(str(path)) as stream:
        header = stream.read(65_536).split(b"\n", 1)[0].decode("utf-8", "replace")
    return max(DELIMITERS, key=header.count)


def _parse_csv(path: Path, delimiter: str, as_text: bool) -> Any:
    import pyarrow as pa
    import pyarrow.csv as csv

    # Only an empty field is nothing: a ward may well be called "NA". Numbers take more words, see `columns`.
    convert = csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    if not as_text:
        return csv.read_csv(path, parse_options=parse, convert_options=convert)
    names = csv.open_csv(path, parse_options=parse).schema.names
    convert.column_types = dict.fromkeys(names, pa.string())
    table = csv.read_csv(path, parse_options=parse, convert_options=convert)
    return pa.table({name: _narrowed(table[name]) for name in table.column_names})


def _narrowed(column: Any) -> Any:
    """Text as whole numbers or numbers if all of it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for kind in (pa.int64(), pa.float64()):
        try:
            return pc.cast(column, kind)
        except pa.ArrowInvalid:
            continue
    return column


def unique_names(names: Sequence[str]) -> list[str]:
    """The names, if no two columns have the same."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise LogProblem(
            "DW108",
            f"Every column needs a name of its own; found twice: {', '.join(show(name) for name in twice)}.",
            fix="Rename or remove one of them.",
        )
    return list(names)


def brief(error: Exception) -> str:
    """The first line of another library's message, without control characters, as one sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = "".join(c if c.isprintable() else "?" for c in lines[0])[:200]
    return text if text.endswith(".") else text + "."
