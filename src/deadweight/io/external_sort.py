"""An external sort for logs whose episodes are scattered over the files.

One pass writes every row to one of several temporary files, chosen by a hash of the row's episode, so that
each file holds whole episodes and fits in memory; reading a file sorts it. Memory is a bounded number of
rows that wait to be written, disk one copy of the columns that are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.basics.temporary import NO_ROOM
from deadweight.errors import DataError
from deadweight.io.parquet import ParquetFiles
from deadweight.io.part_ids import share_of
from deadweight.io.parts import Part

BATCH_ROWS = 1 << 18
# Every open file buffers what was written to it.
MOST_FILES = 512
BUFFERED_ROWS = 1 << 20
FEWEST_ROWS = 1 << 12


def by_episode(
    files: ParquetFiles,
    rows: int,
    part_rows: int,
    folder: Path,
    progress: Callable[[int], None] = lambda rows: None,
) -> tuple[ParquetFiles, list[Part]]:
    """Files in `folder` that hold whole episodes, and the parts that they are.

    Args:
      files: the log as it is.
      rows: how many it has.
      part_rows: about how many a part shall have.
      folder: an empty folder with room for them.
      progress: called with the number of rows of each batch that was written.
    """
    count = max(1, min(MOST_FILES, -(-rows // part_rows)))
    paths = [folder / f"part-{i:04d}.parquet" for i in range(count)]
    try:
        sizes = _scatter(files, paths, progress)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise DataError(
            f"The episodes of this log are scattered over its files, and there is no room in {str(folder)!r} "
            "for the copy in which they are together.",
            fix="Free some space or name another folder (TMPDIR=...); or write the log sorted by episode.",
        ) from None
    used = [i for i, (rows_of, _) in enumerate(sizes) if rows_of]
    written = replace(
        files,
        paths=tuple(str(paths[i]) for i in used),
        names={ours: ours for ours in files.names},
        constants=({},) * len(used),
    )
    parts = []
    for file, i in enumerate(used):
        size, groups = sizes[i]
        parts.append(Part(((file, tuple(range(groups))),), rows=size, share=(i, count)))
    return written, parts


def _scatter(
    files: ParquetFiles, paths: list[Path], progress: Callable[[int], None]
) -> list[tuple[int, int]]:
    """Write every row to its file; the rows and row groups of each."""
    import pyarrow as pa

    schema = pa.schema([(ours, files.types[ours]) for ours in files.names])
    outlets = [_Outlet(path, schema, max(FEWEST_ROWS, BUFFERED_ROWS // len(paths))) for path in paths]
    try:
        for batch in files.batches(BATCH_ROWS):
            number = share_of(batch["episode"], len(paths))
            order = np.argsort(number, kind="stable")
            cuts = np.searchsorted(number[order], np.arange(len(paths) + 1))
            together = batch.take(order)
            for outlet, lo, hi in zip(outlets, cuts[:-1], cuts[1:], strict=True):
                outlet.add(together.slice(lo, hi - lo))
            progress(batch.num_rows)
        return [outlet.close() for outlet in outlets]
    finally:
        for outlet in outlets:
            outlet.abandon()


class _Outlet:
    """One of the temporary files: rows are kept until they are worth a row group."""

    def __init__(self, path: Path, schema: Any, worth: int) -> None:
        self.path, self.schema, self.worth = path, schema, worth
        self.waiting: list[Any] = []
        self.writer: Any = None
        self.rows = self.kept = self.groups = 0

    def add(self, rows: Any) -> None:
        if rows.num_rows:
            self.waiting.append(rows)
            self.rows += rows.num_rows
            self.kept += rows.num_rows
        if self.kept >= self.worth:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.writer is None:
            self.writer = pq.ParquetWriter(self.path, self.schema)
        self.writer.write_table(pa.concat_tables(self.waiting), row_group_size=self.kept)
        self.waiting, self.kept, self.groups = [], 0, self.groups + 1

    def close(self) -> tuple[int, int]:
        """Rows and row groups of the finished file."""
        if self.waiting:
            self._write()
        if self.writer is not None:
            self.writer.close()
        self.writer = None
        return self.rows, self.groups

    def abandon(self) -> None:
        """Let go of a file that is not finished; it goes away with its folder."""
        if self.writer is not None:
            with suppress(OSError):
                self.writer.close()
