"""What a file unpacks to, told before it is unpacked: a few megabytes may hold gigabytes.

Parquet says in its footer how many rows it has; a compressed CSV is unpacked once, piece by piece, to be
measured. A path that is no file (a pipe, a device) is refused here as well: reading it could wait for ever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deadweight.basics.memory import NUMBER, allowed, in_words, require
from deadweight.io.findings import LogProblem

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
    """Why nothing can be read at a path: 'no such file', 'a pipe'; empty for a file or a folder.

    >>> unreadable("/dev/null"), unreadable("/")
    ('a device, not a file', '')
    """
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
    import pyarrow as pa

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
