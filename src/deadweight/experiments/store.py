"""The store: finished runs on disk, so that what was computed once is never lost and never computed again.

Each finished run becomes one small Parquet file, written under a temporary name and renamed: it is there as a
whole or not at all. When all runs are there they are gathered into one file, sorted, whose bytes depend on
the rows alone, not on their order of arrival or on how often the work was interrupted. Rows of another
version of the package, or of other policies, are never mixed in: each file carries the fingerprint of what
made it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

from deadweight.errors import DeadweightError
from deadweight.experiments.measure import Row
from deadweight.experiments.spec import EXPERIMENTS

RunKey = tuple[int, int]  # setting, run
FIELDS = ("setting", "run", "column", "value", "n_dropped", "dropped_share")


class OutputError(DeadweightError):
    """Results that cannot be written."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure of the disk into one message that names the place."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"'{path}' could not be written: {error.strerror or error}.",
            fix="Free some space or choose another folder with --out. Finished runs are kept.",
        ) from None


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it: a file is whole or not there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(temporary)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))


class Store:
    """The rows of one experiment under one protocol.

    Args:
      folder: the output folder.
      protocol: name of the protocol.
      experiment: name of the experiment.
      fingerprint: of everything that the rows depend on; None takes whatever is there.
    """

    def __init__(
        self, folder: Path, protocol: str, experiment: str, fingerprint: dict[str, str] | None
    ) -> None:
        self.experiment = EXPERIMENTS[experiment]
        self.path = folder / "rows" / protocol / f"{experiment}.parquet"
        self.pieces = self.path.with_suffix("")
        self.fingerprint = fingerprint
        self._runs: dict[RunKey, list[Row]] | None = None

    @property
    def runs(self) -> dict[RunKey, list[Row]]:
        """Rows of every finished run."""
        if self._runs is None:
            self._runs = {}
            for path in [self.path, *sorted(self.pieces.glob("*.parquet"))]:
                for row in self._read(path):
                    self._runs.setdefault((row.setting, row.run), []).append(row)
        return self._runs

    def made_with(self) -> dict[str, str]:
        """The fingerprint of the gathered file; empty when there is none."""
        import pyarrow.parquet

        if not self.path.exists():
            return {}
        return _metadata(pyarrow.parquet.read_schema(self.path))

    def add(self, setting: int, run: int, rows: list[Row]) -> None:
        """Put a finished run on disk."""
        name = f"{setting:05d}-{run:05d}.parquet" if run >= 0 else f"{setting:05d}-exact.parquet"
        self._write(self.pieces / name, rows)
        self.runs[setting, run] = rows

    def gather(self) -> None:
        """Put all finished runs into one file and remove the small ones."""
        order = {setting: i for i, setting in enumerate(self.experiment.settings)}
        keys = sorted(self.runs, key=lambda key: (order[key[0]], key[1]))
        self._write(self.path, [row for key in keys for row in self.runs[key]])
        with writing(self.pieces):
            for piece in self.pieces.glob("*.parquet"):
                piece.unlink()
            if self.pieces.exists():
                for leftover in self.pieces.glob(".*.part"):  # of a process that was killed while writing
                    leftover.unlink()
                self.pieces.rmdir()

    def _read(self, path: Path) -> Iterable[Row]:
        import pyarrow
        import pyarrow.parquet

        if not path.exists():
            return []
        try:
            table = pyarrow.parquet.read_table(path)
        except (OSError, pyarrow.ArrowInvalid) as error:
            raise OutputError(
                f"'{path}' is not a file of results: {error}.", fix="Remove it; its runs will be made again."
            ) from None
        if self.fingerprint is not None and _metadata(table.schema) != self.fingerprint:
            return []
        columns = [table.column(name).to_pylist() for name in FIELDS]
        done = set(self._runs or ())
        rows = [Row(*values) for values in zip(*columns, strict=True)]
        return [row for row in rows if (row.setting, row.run) not in done]

    def _write(self, path: Path, rows: list[Row]) -> None:
        import pyarrow
        import pyarrow.parquet

        types = (
            pyarrow.int32(),
            pyarrow.int32(),
            pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
            pyarrow.float64(),
            pyarrow.int32(),
            pyarrow.float64(),
        )
        schema = pyarrow.schema(list(zip(FIELDS, types, strict=True)), metadata=self.fingerprint or {})
        columns = zip(*(astuple(row) for row in rows), strict=True)
        arrays = [pyarrow.array(values, type=type_) for values, type_ in zip(columns, types, strict=True)]
        table = pyarrow.table(arrays, schema=schema)
        write_whole(path, lambda temporary: pyarrow.parquet.write_table(table, temporary, compression="zstd"))


def _metadata(schema: Any) -> dict[str, str]:
    stored = schema.metadata or {}
    return {key.decode(): value.decode() for key, value in stored.items() if key != b"ARROW:schema"}
