"""Episode ids of every Arrow type that a Parquet file can hold, among them those that floats merge."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EPISODES = 24
COUNT = range(EPISODES)
BIG = 2**53
EPOCH = 1_700_000_000_000_000_000
DAYS = [dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in COUNT]
TEXT = [f"e{i % 7}-{i}" for i in COUNT]
ESCAPED = [rb"\x%02x" % (256 - i) if i % 2 else bytes([255 - i]) for i in COUNT]
BYTES = [bytes([i, 255 - i]) for i in COUNT]


def _numbers(kind: Any, value: Callable[[int], Any]) -> pa.Array:
    return pa.array([value(i) for i in COUNT], kind)


IDS: dict[str, pa.Array] = {
    **{
        str(kind): pa.array(COUNT, kind)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32())
    },
    "int64 from end to end": _numbers(pa.int64(), lambda i: i - 2**63 if i % 2 else 2**63 - 1 - i),
    "uint64 around 2^63": _numbers(pa.uint64(), lambda i: 2**63 - 12 + i),
    "uint64 far apart": _numbers(pa.uint64(), lambda i: i if i % 2 else 2**64 - 1 - i),
    "float16": pa.array(np.array([i / 2 for i in COUNT], dtype=np.float16)),
    "float32": _numbers(pa.float32(), lambda i: i / 2),
    "whole floats": _numbers(pa.float64(), float),
    "some fractions": _numbers(pa.float64(), lambda i: i / 2),
    "one fraction": _numbers(pa.float64(), lambda i: 0.5 if i == 3 else float(i)),
    "floats beyond 2^53": _numbers(pa.float64(), lambda i: float(BIG + 2 * i if i % 2 else i)),
    "infinity": _numbers(pa.float64(), lambda i: float("inf") if i == 3 else float(i)),
    "whole decimals": _numbers(pa.decimal128(10, 2), Decimal),
    "decimals": _numbers(pa.decimal128(10, 2), lambda i: Decimal(i) / 2),
    "decimals of 20 digits": _numbers(pa.decimal128(38, 0), lambda i: Decimal(10**20 * (i % 2) + i)),
    "long decimals": _numbers(pa.decimal128(38, 2), lambda i: 10**17 * (i % 3) + Decimal(i) / 100),
    "decimal256": _numbers(pa.decimal256(60, 0), lambda i: Decimal(10**40 * (i % 2) + i)),
    "string": pa.array(TEXT),
    "large_string": pa.array(TEXT, pa.large_string()),
    "string_view": pa.array(TEXT, pa.string_view()),
    "numbers as text": pa.array([*(f"{i // 2:02d}" if i % 2 else str(i // 2) for i in range(20)),
                                 "010", "0x10", "1e1", "10.0"]),
    "dictionary": pa.array(TEXT).dictionary_encode(),
    "binary": pa.array(BYTES),
    "large_binary": pa.array(BYTES, pa.large_binary()),
    "binary_view": pa.array(BYTES, pa.binary_view()),
    "bytes and their escapes": pa.array(ESCAPED),
    "fixed_size_binary": pa.array(BYTES, pa.binary(2)),
    "uuid": pa.array([bytes([i] * 16) for i in COUNT], pa.uuid()),
    "date32": pa.array(DAYS),
    "date64": pa.array(DAYS, pa.date64()),
    "time32": _numbers(pa.time32("ms"), lambda i: 1_000 * i),
    "time64": _numbers(pa.time64("us"), lambda i: 1_000 * i + 1),
    "timestamp[s]": _numbers(pa.timestamp("s"), int),
    "timestamp[ns]": _numbers(pa.timestamp("ns"), lambda i: EPOCH + i),
    "timestamp with a zone": _numbers(pa.timestamp("ns", "UTC"), lambda i: EPOCH + i),
    "duration": _numbers(pa.duration("ns"), lambda i: EPOCH + i),
}  # fmt: skip
REFUSED: dict[str, tuple[str, pa.Array]] = {
    "two flags for all episodes": ("DW201", pa.array([bool(i % 2) for i in COUNT])),
    "no id at all": ("DW301", pa.nulls(EPISODES)),
    "an integer missing": ("DW301", _numbers(pa.int64(), lambda i: None if i == 5 else i)),
    "text missing": ("DW301", pa.array([None if i == 5 else name for i, name in enumerate(TEXT)])),
    "not a number": ("DW301", _numbers(pa.float64(), lambda i: float("nan") if i == 5 else i / 2)),
    "a whole float missing": ("DW301", _numbers(pa.float64(), lambda i: None if i == 5 else float(i))),
    "lists": ("DW311", pa.array([[i] for i in COUNT])),
    "records": ("DW311", pa.array([{"a": i} for i in COUNT])),
}


def can_be_written(column: pa.Array) -> bool:
    """Whether this version of pyarrow writes the type to Parquet: older ones have no views there."""
    try:
        pq.write_table(pa.table({"column": column}), io.BytesIO())
    except pa.ArrowNotImplementedError:
        return False
    return True


IDS = {kind: ids for kind, ids in IDS.items() if can_be_written(ids)}


def taken(ids: pa.Array, rows: np.ndarray) -> pa.Array:
    """The ids of these rows, also of types that Arrow has no kernel for."""
    if isinstance(ids, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(ids.type, ids.storage.take(pa.array(rows)))
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(ids.type)
    return ids.take(pa.array(rows)) if plain is None else ids.cast(plain).take(pa.array(rows)).cast(ids.type)


def orders(rows: int) -> dict[str, np.ndarray]:
    """Which rows come one after the other: parts and batches of every composition."""
    return {
        "in order": np.arange(rows),
        "backwards from the middle": np.roll(np.arange(rows)[::-1], rows // 2),
        "shuffled": np.random.default_rng(0).permutation(rows),
    }


def written(folder: Path, table: pa.Table, ids: pa.Array, rows: np.ndarray, group_rows: int = 15) -> Path:
    """The rows of a table in this order, with these ids for its episodes 0, 3, 6, ..., in two files."""
    folder.mkdir(exist_ok=True)
    episodes = table["episode"].to_numpy()[rows] // 3
    changed = table.drop_columns("episode").take(rows).append_column("episode", taken(ids, episodes))
    half = table.num_rows // 2
    for name, some in (("a", changed.slice(0, half)), ("b", changed.slice(half))):
        pq.write_table(some, folder / f"{name}.parquet", row_group_size=group_rows)
    return folder
