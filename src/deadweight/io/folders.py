"""Folders of files: which are data, which other programs left behind, and which folders are no plain ones.

A name that begins with _ or . below the folder that was named is no data, as in Spark, Hive and Arrow: half
written files, checkpoints of notebooks, what a system keeps beside a file. Read as rows they would change
every number, so they are left out and counted. The folder of a Delta, Iceberg or Hudi table also holds rows
that were deleted or replaced since, and only its own log tells which: it is refused.

What a file unpacks to is told before it is unpacked: a few megabytes may hold gigabytes. Parquet says in its
footer how many rows it has (whether footers agree with themselves and with each other is checked here as
well); a compressed CSV is unpacked once, piece by piece, to be measured. A path that is no file (a pipe, a
device) is refused: reading it could wait for ever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadweight.errors import how_many
from deadweight.io.columns import is_text, pa
from deadweight.io.schema import LogProblem, show, unfit_files
from deadweight.tools.limits import NUMBER, allowed, in_words, require

# A column is held as it was read, as numbers, sorted, and in the log: measured 3 to 4 times its numbers.
COPIES = 4
TEXT = 24
"""Bytes of a text label and of its place in the column, where a dictionary hides how long it is."""
PIECE = 1 << 22
ROW_GROUPS = "Write it with smaller row groups (a million rows), so that it can be read in parts (--stream)."
KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def unreadable(path: str | Path) -> str:
    """Why nothing can be read at a path: 'no such file', 'a pipe'; empty for a file or a folder."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "no such file"
    except (OSError, ValueError) as error:  # such as a name of 5,000 letters, or one with a null in it
        return getattr(error, "strerror", None) or str(error)
    return next((f"{words}, not a file" for holds, words in KINDS if holds(mode)), "")


def require_path(path: str | Path) -> None:
    """Refuse an empty text, which would otherwise mean the folder that one happens to be in."""
    if not str(path).strip():
        raise LogProblem(
            "DW101",
            "Expected the path of a file or folder; found an empty text.",
            fix="Check the variable that the path comes from; the folder you are in is '.'.",
        )


def require_rows(metadata: Sequence[Any], columns: Sequence[str], what: str) -> None:
    """Refuse Parquet whose rows, all of them in memory, would be too large; `metadata` are the footers."""
    size = sum(
        _group_size(footer.row_group(g), columns) for footer in metadata for g in range(footer.num_row_groups)
    )
    rows = sum(footer.num_rows for footer in metadata)
    require(
        max(size, rows * NUMBER * len(columns)) * COPIES,
        f"{what}: {rows:,} rows",
        "Read it in parts (--stream), or take fewer rows.",
    )


def require_group(metadata: Any, number: int, columns: Sequence[str], what: str) -> None:
    """Refuse a row group that is too large, the smallest piece in which Parquet is read in parts."""
    group = metadata.row_group(number)
    require(
        _group_size(group, columns) * COPIES,
        f"Row group {number} of {what}: {group.num_rows:,} rows",
        ROW_GROUPS,
    )


def require_episode(rows: int, columns: int) -> None:
    """Refuse an episode whose rows, all of them in one part, would be too large."""
    require(
        rows * columns * NUMBER * COPIES,
        f"An episode of {rows:,} rows and more",
        "Check that the episode column is what tells episodes apart.",
    )


def _group_size(group: Any, columns: Sequence[str]) -> float:
    """Bytes of these columns of a row group once they are decoded."""
    size, wanted = 0.0, set(columns)
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema.split(".")[0] in wanted:
            width = TEXT if column.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY") else NUMBER
            size += max(group.num_rows * width, column.total_uncompressed_size)
    return size


def require_text(path: Path, compressed: bool) -> None:
    """Refuse CSV that would be too large in memory, compressed or not."""
    fix = "Take fewer rows or columns, or convert the log to Parquet, which can be read in parts."
    what = repr(str(path))
    size, most = path.stat().st_size, allowed() / COPIES
    if compressed:
        with pa.input_stream(str(path)) as stream:
            size = 0
            while size <= most and (piece := stream.read(PIECE)):
                size += len(piece)
    if compressed and size > most:
        what += f", which unpacks to {in_words(size)} and more,"
    require(size * COPIES, what, fix)


# --- Folders

PARQUET = (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
# A folder of data often has notes in a .txt beside them.
CSV_IN_FOLDERS = tuple(kind + packed for kind in (".csv", ".tsv") for packed in ("", *COMPRESSED))
LEFT_BEHIND = ("_", ".")
OWN_READER = {
    "Delta": "pass deltalake.DeltaTable({0!r}).to_pyarrow_table()",
    "Iceberg": "load the table from its catalogue with pyiceberg, and pass table.scan().to_arrow()",
    "Hudi": "pass spark.read.format('hudi').load({0!r}).toPandas()",
}


@dataclass(frozen=True)
class Listing:
    """What a folder holds."""

    folder: Path
    files: tuple[Path, ...]  # by name: all Parquet in it or, where there is none, all CSV
    is_parquet: bool
    left_out: int = 0  # files of data that other programs left behind
    links: int = 0  # to folders elsewhere, which are not followed

    def say(self, tell: Callable[[str], None]) -> None:
        """Tell in one line what was not read, if there is any such thing."""
        said = []
        if self.left_out:
            said.append(
                f"{_were(self.left_out, 'file')} left out, whose names, or those of folders they are in, "
                "begin with _ or . as what other programs leave behind does (to read one of them, name it)"
            )
        if self.links:
            folders = "a folder elsewhere" if self.links == 1 else "folders elsewhere"
            said.append(
                f"{_were(self.links, 'link', f' to {folders}')} not followed (name what they lead to)"
            )
        if said:
            tell(f"In the folder {str(self.folder)!r} {', and '.join(said)}.")


def list_folder(folder: Path) -> Listing:
    """The files of a folder and of the folders in it; an error where there are none."""
    above = folder.resolve()
    while "=" in above.name or above.name == "data":  # a partition of a table, as in `log/site=A`
        above = above.parent
        _require_plain(above)
    data, aside, links = _walked(folder)
    parquet = [path for path in data if _ends(path.name, PARQUET)]
    kinds = PARQUET if parquet else (*PARQUET, *CSV_IN_FOLDERS)
    files = parquet or [path for path in data if _ends(path.name, kinds)]
    left_out = sum(_ends(name, kinds) for name in aside)
    if not files:
        raise _no_data(folder, left_out)
    for path in files:
        wrong = unreadable(path)
        if wrong:  # a link to nothing, or a pipe, that has the name of a file of data
            raise LogProblem(
                "DW101",
                f"Expected a file at {str(path)!r}; found: {wrong}.",
                fix="Mend the link, or move it out of the folder.",
            )
    return Listing(folder, tuple(sorted(files)), bool(parquet), left_out, links)


def _walked(folder: Path) -> tuple[list[Path], list[str], int]:
    """The files below a folder, the names of those left behind there, and the links to folders elsewhere."""
    data, aside, links = list[Path](), list[str](), 0
    for place, folders, names in os.walk(folder, onerror=_unlisted):
        _require_plain(Path(place))
        hidden = [name for name in folders if name.startswith(LEFT_BEHIND)]
        folders[:] = [name for name in folders if not name.startswith(LEFT_BEHIND)]
        linked = [path for name in folders if (path := Path(place, name)).is_symlink()]
        links += sum(not path.resolve().is_relative_to(folder.resolve()) for path in linked)
        unlinked = [path for name in hidden if not (path := Path(place, name)).is_symlink()]
        aside += [name for path in unlinked for _, _, inside in os.walk(path) for name in inside]
        aside += [name for name in names if name.startswith(LEFT_BEHIND)]
        data += [Path(place, name) for name in names if not name.startswith(LEFT_BEHIND)]
    return data, aside, links


def _no_data(folder: Path, left_out: int) -> LogProblem:
    """The error of a folder without files of data; `left_out` are those that other programs left behind."""
    what, fix = "none", f"Check the folder, for example with: ls {folder}"
    if left_out:
        what = f"none but {left_out:,} whose names, or those of folders they are in, begin with . or _"
        fix = "Other programs leave such files behind. If one is the log, name that file or folder itself."
    where = f"in the folder {str(folder)!r}"
    return LogProblem("DW101", f"Expected .parquet or .csv files {where}; found {what}.", fix=fix)


def files_of(path: Path) -> tuple[Path, ...]:
    """The files that a path is read from; none where there is nothing, as at that of standard input."""
    if unreadable(path):
        return ()
    return list_folder(path).files if path.is_dir() else (path,)


def _ends(name: str, endings: tuple[str, ...]) -> bool:
    return name.lower().endswith(endings)


def _were(number: int, noun: str, more: str = "") -> str:
    return f"{how_many(number, noun)}{more} {'was' if number == 1 else 'were'}"


def _require_plain(place: Path) -> None:
    """Refuse the folder of a table whose own log says which of its files count."""
    kind = None
    if (place / "_delta_log").is_dir():
        kind = "Delta"
    elif (place / ".hoodie").is_dir():
        kind = "Hudi"
    elif next((place / "metadata").glob("*.metadata.json"), None) is not None:
        kind = "Iceberg"
    if kind is not None:
        article = "an" if kind == "Iceberg" else "a"
        raise LogProblem(
            "DW103",
            f"{str(place)!r} is {article} {kind} table: its folder also holds rows that were deleted or "
            "replaced, and only the table's own log says which.",
            fix=f"In Python, {OWN_READER[kind].format(str(place))} in place of the path. For the command "
            "line, write that to a Parquet file first.",
        )


def _unlisted(error: OSError) -> None:
    raise LogProblem(
        "DW101",
        f"Expected to read every folder in a log; {str(error.filename)!r} cannot be listed: "
        f"{error.strerror}.",
        fix="Change who may read it, move it out of the log, or name the other files.",
    )


# --- Footers


def bounds_of(parquet: Any, number: int, column: str) -> tuple[int, int] | None:
    """Smallest and largest whole number of a column of a row group, if its statistics have them."""
    schema = parquet.schema_arrow
    if column not in schema.names or not pa.types.is_integer(schema.field(column).type):
        return None  # times and durations are whole numbers in a file, and something else outside
    group = parquet.metadata.row_group(number)
    for i in range(group.num_columns):
        if group.column(i).path_in_schema != column:
            continue
        statistics = group.column(i).statistics
        if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
            return None
        return statistics.min, statistics.max
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


def check_read(where: str, promised: int, rows: int) -> None:
    """Refuse rows of which fewer or more can be read than the footer says."""
    if promised != rows:
        raise _miscounted(where, f"{promised:,} rows, of which {rows:,} can be read")


def check_kinds(path: str, of_file: Any, common: Any, names: list[str]) -> None:
    """Refuse a column that is text in one file and something else in another: '01' would become 1."""
    for name in names:
        if name not in of_file.names or name not in common.names:
            continue
        kinds = [stored_kind(schema.field(name).type) for schema in (common, of_file)]
        if is_text(kinds[0]) != is_text(kinds[1]):
            raise unfit_files(f"column {show(name)} is {kinds[0]} in the first, and {kinds[1]} in {path!r}.")


def stored_kind(kind: Any) -> Any:
    """The Arrow type of what categories stand for; another type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _miscounted(where: str, claim: str) -> LogProblem:
    return LogProblem(
        "DW102",
        f"{where} is damaged: its footer says that it has {claim}.",
        fix="Copy or write the file again.",
    )
