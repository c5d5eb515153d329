"""The rows of an experiment: kept run by run as records, and published as one Parquet file.

The records (`rows/<protocol>/<experiment>.jsonl`) are what is read again; the Parquet file beside them is
written from all of them whenever they are gathered, and its bytes depend on the rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path

from deadweight.basics.atomic import write_whole, writing
from deadweight.records import Record, Store
from deadweight.studies.reproduction.measure import Row
from deadweight.studies.reproduction.spec import EXPERIMENTS

RunKey = tuple[int, int]  # setting, run
FIELDS = ("setting", "run", "column", "value", "n_dropped", "dropped_share")


class RowStore:
    """The rows of one experiment under one protocol.

    Args:
      folder: the output folder.
      made_with: the fingerprint of everything that the rows depend on, with "protocol" and "experiment".
    """

    def __init__(self, folder: Path, made_with: Mapping[str, str]) -> None:
        self.made_with = made_with
        self.experiment = EXPERIMENTS[made_with["experiment"]]
        self.records = Store(
            self.records_file(folder, made_with["protocol"], self.experiment.name), made_with
        )
        self.path = self.records.path.with_suffix(".parquet")

    @staticmethod
    def records_file(folder: Path, protocol: str, experiment: str) -> Path:
        """Where the records of an experiment are."""
        return folder / "rows" / protocol / f"{experiment}.jsonl"

    @property
    def runs(self) -> dict[RunKey, list[Row]]:
        """Rows of every finished run, in the order of the settings."""
        order = {setting: i for i, setting in enumerate(self.experiment.settings)}
        found = {(int(key[0]), int(key[1])): record["rows"] for key, record in self.records.items()}
        return {
            key: [Row(*key, *values) for values in found[key]]
            for key in sorted(found, key=lambda key: (order[key[0]], key[1]))
        }

    def add(self, setting: int, run: int, rows: list[Row]) -> None:
        """Put a finished run on disk."""
        self.records.put((setting, run), as_record(rows))

    def gather(self) -> None:
        """Sort the records, and write all rows into one file."""
        import pyarrow
        import pyarrow.parquet

        self.records.tidy()
        types = (
            pyarrow.int32(),
            pyarrow.int32(),
            pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
            pyarrow.float64(),
            pyarrow.int32(),
            pyarrow.float64(),
        )
        schema = pyarrow.schema(list(zip(FIELDS, types, strict=True)), metadata=dict(self.made_with))
        columns = zip(*(astuple(row) for rows in self.runs.values() for row in rows), strict=True)
        arrays = [pyarrow.array(values, type=type_) for values, type_ in zip(columns, types, strict=True)]
        table = pyarrow.table(arrays, schema=schema)
        with writing(self.path):
            write_whole(self.path, lambda file: pyarrow.parquet.write_table(table, file, compression="zstd"))


def as_record(rows: list[Row]) -> Record:
    """The rows of one run; setting and run are the key."""
    return {"rows": [list(astuple(row)[2:]) for row in rows]}
