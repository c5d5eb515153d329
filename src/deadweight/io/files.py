"""Tables on disk: Parquet or CSV (also compressed), one file or a folder of them, read through pyarrow.

Only the columns that are asked for leave a Parquet file. A file that cannot be read is named in the message,
also when it is one of many in a folder.

CSV is text that has to be given types, without making one label of two: a column of labels is text unless
all of it is numbers that read back as they are written. 1, 2 and 10 are whole numbers, but one 01 among them
makes the column text, and 0x10, 12:00, True and ids of twenty digits stay what they are. Other columns get
the types that pyarrow finds.

Standard input (`-` in place of a path) is kept in a temporary file for as long as it is needed: a table is
looked at more than once (its header, its types, its footer), and a pipe can be read only once.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from deadweight.errors import DeadweightError, assume, first_few
from deadweight.io.columns import decoded, is_text, pa, pc, trimmed
from deadweight.io.folders import (
    COMPRESSED,
    PARQUET,
    check_counts,
    check_kinds,
    check_read,
    list_folder,
    require_rows,
    require_text,
    stored_kind,
    unreadable,
)
from deadweight.io.schema import AS_WRITTEN, LogProblem, labels_in, not_parquet, show, unfit_files
from deadweight.log.labels import EXACT_IN_FLOAT
from deadweight.tools.files import NO_ROOM, TemporaryFolder, no_folder
from deadweight.typing import BoolArray

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""How a text begins that a spreadsheet works out when it opens a CSV."""
NUMBER = re.compile(r"[+-](\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DELIMITERS = (",", ";", "\t", "|")
SAYS = "sep="
"""How a spreadsheet names the delimiter, in a line of its own before the header."""
# How a file begins that a spreadsheet has saved as "Unicode text".
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def parse_csv(path: Path, choose: Callable[[Any], Mapping[str, str]]) -> tuple[Any, Mapping[str, str]]:
    """The columns chosen from a schema, with labels as text; and our names of them -> theirs."""
    import pyarrow.csv as csv

    way = _way_to_read(path)
    with csv.open_csv(path, *way) as opened:
        names = choose(opened.schema)
    wanted, labels = columns_of(names), labels_in(names)
    try:
        table = _read(path, way, wanted, labels)
    except pa.ArrowInvalid as error:
        if "conversion error" not in str(error):
            raise
        # The types are guessed from the first megabyte; what comes later may not fit.
        table = _read(path, way, wanted, wanted)
        for name in wanted:
            if name not in labels:
                table = replaced(table, name, _narrowed(table[name]))
    step = names.get("step", "")
    if step in wanted and pa.types.is_floating(table[step].type):
        # Whole numbers beyond 64 bits are guessed to be floats, which may merge neighbours.
        text = _read(path, way, [step], [step])[step]
        if len(pc.unique(text)) > len(pc.unique(table[step])):
            table = replaced(table, step, text)
    return _without_blank_end(table), names


def as_written(table: Any, names: Mapping[str, str]) -> Any:
    """A table with labels as text, with those columns as numbers that read back as they are written."""
    state, following = names.get("state"), names.get("next_state")
    for ours in AS_WRITTEN:
        name = names.get(ours)
        if name is None or name == following or (name == state and following is not None):
            continue
        numbers = as_numbers(table[name])
        if numbers is not None:
            table = replaced(table, name, numbers)
    if state is not None and following is not None:
        # The two are compared with each other, so they are of one kind.
        both = as_numbers(table[state]), as_numbers(without_words(table[following]))
        if both[0] is not None and both[1] is not None:
            table = replaced(replaced(table, state, both[0]), following, both[1])
    return table


def as_numbers(text: Any) -> Any:
    """A column of text as numbers if every cell reads back as it is written; None otherwise.

    >>> import pyarrow as pa
    >>> as_numbers(pa.chunked_array([["1", "10"]])).type, as_numbers(pa.chunked_array([["1", "01"]]))
    (DataType(int64), None)
    """
    with suppress(pa.ArrowInvalid):
        whole = pc.cast(text, pa.int64())
        if pc.all(pc.equal(pc.cast(whole, text.type), text)).as_py() is not False:
            return whole
    distinct = pc.unique(text.drop_null())
    try:
        numbers = pc.cast(distinct, pa.float64())
    except pa.ArrowInvalid:
        return None
    values = numbers.to_numpy(zero_copy_only=False)
    if not np.isfinite(values).all() or np.unique(values).size < len(distinct):
        return None
    for cell in distinct.filter(pc.not_equal(pc.cast(numbers, distinct.type), distinct)).to_pylist():
        number = float(cell)
        whole = abs(number) < EXACT_IN_FLOAT and number.is_integer()
        if cell not in (repr(number), str(int(number)) if whole else repr(number)):
            return None
    return pc.cast(text, pa.float64())


def is_formula(text: Any) -> bool:
    """Whether a spreadsheet would take a text for a formula; a number with a sign is none.

    >>> [is_formula(text) for text in ("=1+1", "-b", "@c", "-0.5", "'=x", -1)]
    [True, True, True, False, False, False]
    """
    return isinstance(text, str) and text.startswith(FORMULAS) and not NUMBER.fullmatch(text)


def guarded(column: Any) -> tuple[Any, BoolArray]:
    """A column with an apostrophe before each text that is a formula, and where that is."""
    column = decoded(column)
    if not is_text(column.type):
        return column, np.zeros(len(column), dtype=bool)
    texts = column.to_pylist()
    formulas = np.array([is_formula(text) for text in texts], dtype=bool)
    marked = [f"'{text}" if formula else text for text, formula in zip(texts, formulas, strict=True)]
    return pa.array(marked, pa.string()), formulas


def without_words(text: Any) -> Any:
    """The column with words for nothing as nothing: a hole among numbers."""
    return pc.if_else(pa.array(trimmed(text)[1]), pa.scalar(None, text.type), text)


def _way_to_read(path: Path) -> tuple[Any, Any]:
    """The options of a file: its encoding, and the delimiter that its header has most of, a comma if none."""
    import pyarrow.csv as csv

    with pa.input_stream(str(path)) as stream:
        beginning = stream.read(65_536)
    encoding = "utf-16" if beginning.startswith(UTF_16) else "utf-8"
    header = beginning.decode(encoding, "replace").split("\n", 1)[0].lstrip("\ufeff").strip("\r\n")
    said = header[len(SAYS) :] if header.lower().startswith(SAYS) else ""
    delimiter = said or max(DELIMITERS, key=header.count)
    reading = csv.ReadOptions(encoding=encoding, skip_rows=1 if said else 0)
    return reading, csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _read(path: Path, way: tuple[Any, Any], columns: Sequence[str], as_text: Sequence[str]) -> Any:
    import pyarrow.csv as csv

    # Only an empty field is nothing: a ward may well be called "NA". Numbers take more words, see `columns`.
    convert = csv.ConvertOptions(
        null_values=[""],
        strings_can_be_null=True,
        include_columns=list(columns),
        column_types=dict.fromkeys(as_text, pa.string()),
    )
    return csv.read_csv(path, *way, convert)


def _without_blank_end(table: Any) -> Any:
    """The table without the rows of nothing but commas that spreadsheets leave at its end."""
    rows = table.num_rows
    while rows and not any(column[rows - 1].is_valid for column in table.columns):
        rows -= 1
    return table.slice(0, rows)


def _narrowed(column: Any) -> Any:
    """Text as whole numbers or numbers if all of it is."""
    for kind in (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            return pc.cast(column, kind)
    return column


def replaced(table: Any, name: str, column: Any) -> Any:
    """The table with another column in the place of one."""
    return table.set_column(table.column_names.index(name), name, column)


# --- Files and folders

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
    wrong, head = unreadable(path), b""
    if not wrong and path.is_dir():
        return _read_parquet(list(list_folder(path).files), path, choose), None
    try:
        if not wrong:
            with path.open("rb") as file:
                head = file.read(len(PARQUET_MAGIC))
    except (OSError, ValueError) as error:
        wrong = brief(error)
    if wrong:
        raise LogProblem(
            "DW101",
            f"Expected a log at {str(path)!r}; found: {wrong.removesuffix('.')}.",
            fix="Check the path: a .parquet or .csv file, or a folder of either, such as logs/2025.csv.",
        )
    if not head:
        raise LogProblem("DW104", f"{str(path)!r} is an empty file.", fix="Check how the log was written.")
    before, last = ["", "", *(suffix.lower() for suffix in path.suffixes)][-2:]
    if head == PARQUET_MAGIC or last in PARQUET:
        return _read_parquet([path], None, choose), None
    if last in CSV or (before in CSV and last in COMPRESSED):
        return _read_csv(path, choose)
    raise LogProblem(
        "DW103",
        f"{str(path)!r} is not a table that can be read: expected Parquet ({', '.join(PARQUET)}) or CSV "
        f"({', '.join(CSV)}).",
        fix="From a spreadsheet: save it as 'CSV UTF-8'. Rename the file if it is one of these; in Python "
        "load it yourself and pass a pandas or polars frame.",
    )


def are_parquet(paths: Sequence[str | Path]) -> bool:
    """Whether all of these are Parquet files, or folders that are not of CSV."""
    return all(_is_parquet(Path(path).expanduser()) for path in paths)


def _is_parquet(path: Path) -> bool:
    if not unreadable(path) and path.is_dir():
        return list_folder(path).is_parquet
    if path.suffix.lower() in PARQUET:
        return True
    try:
        if unreadable(path):
            return False
        with path.open("rb") as file:
            return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
    except OSError:
        return False


def _files_of(path: Path, tell: Callable[[str], None]) -> list[Path]:
    """A folder of CSV as its files; anything else as it is."""
    if unreadable(path) or not path.is_dir():
        return [path]
    listing = list_folder(path)
    listing.say(tell)
    return [path] if listing.is_parquet else list(listing.files)


def _read_parquet(files: list[Path], base: Path | None, choose: Chosen) -> Any:
    """All files as one table; folder names such as `ward=3` become columns."""
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
    return [field.name for field in schema if is_text(stored_kind(field.type))]


def check_text(table: Any) -> Any:
    """The table, if all its text is UTF-8: Parquet may say so of any bytes."""
    for name in table.column_names:
        column, kind = table[name], stored_kind(table[name].type)
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
    import pyarrow.parquet as pq

    for file in files:
        try:
            pq.read_table(str(file), partitioning=None)
        except (pa.ArrowException, OSError, UnicodeError, ValueError) as reason:
            return not_parquet(str(file), brief(reason))
    return unfit_files(brief(error), f"The {len(files)} Parquet files under {str(files[0].parent)!r}")


def _read_csv(path: Path, choose: Chosen) -> tuple[Any, Mapping[str, str]]:
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


# --- Standard input

DASH = "-"
KINDS = (
    (b"PAR1", "log.parquet"),
    (b"\x1f\x8b", "log.csv.gz"),
    (b"BZh", "log.csv.bz2"),
    (b"\x28\xb5\x2f\xfd", "log.csv.zst"),
)
LONGEST = 4


@contextmanager
def from_stdin(source: Any) -> Iterator[Any]:
    """The source; for "-" the path of a temporary file with what comes from standard input."""
    if not (isinstance(source, str | Path) and str(source) == DASH):
        yield source
        return
    given = sys.stdin  # None in a program that was started without
    if given is not None and given.isatty():  # else it looks as if the program had stopped
        sys.stderr.write("Waiting for a log on standard input; Ctrl-D ends it.\n")
    with closing(TemporaryFolder()) as folder:
        path = _kept(BytesIO() if given is None else given.buffer, folder.path)
        try:
            yield path
        except DeadweightError as error:
            raise _renamed(error, str(path)) from None


def _kept(stream: BinaryIO, folder: Path) -> Path:
    head = stream.read(LONGEST)
    if not head:
        raise LogProblem(
            "DW104",
            "Expected a table from standard input; nothing came.",
            fix="For example: zcat log.csv.gz | deadweight doctor -",
        )
    name = next((name for magic, name in KINDS if head.startswith(magic)), "log.csv")
    path = folder / name
    try:
        with path.open("wb") as file:
            file.write(head)
            shutil.copyfileobj(stream, file)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise no_folder("", str(folder.parent), error) from None
    return path


def _renamed(error: DeadweightError, path: str) -> DeadweightError:
    """The error with the user's name of the source: a temporary path says nothing to anybody."""

    def ours(text: str) -> str:
        return text.replace(repr(path), "standard input").replace(path, DASH)

    error.problem, error.fix = ours(error.problem), ours(error.fix)
    error.args = tuple(ours(text) if isinstance(text, str) else text for text in error.args)
    return error
