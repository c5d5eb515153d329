"""Standard input as a file: `-` in place of a path, for logs that come out of a pipe.

A table is looked at more than once (its header, its types, its footer), and a pipe can be read only once: so
what comes is kept in a temporary file for as long as it is needed. Its first bytes say what it is.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from deadweight.basics.temporary import NO_ROOM, TemporaryFolder, no_folder
from deadweight.errors import DeadweightError
from deadweight.io.findings import LogProblem

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
    error.args = tuple(ours(one) if isinstance(one, str) else one for one in error.args)
    return error
