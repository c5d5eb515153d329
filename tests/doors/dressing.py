"""A table as somebody may hold it: in any order and type, in Arrow, pandas, CSV or Parquet."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import gzip
import io
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from doors.asking import cell
from doors.worlds import Columns, World

LABEL_COLUMNS = ("episode", "state", "action", "next_state", "behaviour_id")
FLAG_COLUMNS = ("terminated", "truncated")


def scattered(world: World, rng: np.random.Generator) -> Columns:
    """The table with its rows and its columns in any order, and with columns that nobody asked for."""
    table = world.columns()
    size = len(table["state"])
    if rng.random() < 0.3:
        table["unused"] = [float(x) for x in rng.normal(size=size)]
        table["note"] = [None if rng.random() < 0.5 else "x" for _ in range(size)]
    order = rng.permutation(size)
    names = [list(table)[i] for i in rng.permutation(len(table))]
    return {name: [table[name][i] for i in order] for name in names}


def places(world: World, table: Columns) -> np.ndarray:
    """Which step of the world stands in each row of its table."""
    numbers = {
        (one, step): world.offsets[i] + t
        for i, (one, steps) in enumerate(zip(world.ids, world.steps, strict=True))
        for t, step in enumerate(steps)
    }
    return np.array([numbers[key] for key in zip(table["episode"], table["step"], strict=True)])


def fits(values: Sequence[Any], kind: Any) -> bool:
    """Whether all values are in an Arrow type as they are."""
    try:
        return bool(pa.array(values, kind).to_pylist() == list(values))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return False


def arrow_types(name: str, values: list[Any]) -> list[Any]:
    """Arrow types that hold a column without loss."""
    known = [one for one in values if one is not None]
    if not known:
        return [pa.null(), pa.string()] if name == "note" else [pa.array(values).type]
    if all(isinstance(one, bool) for one in known):
        return [pa.bool_()]
    if all(isinstance(one, int) for one in known):
        narrow = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
        exact = [pa.float32(), pa.float64()] if max(map(abs, known)) <= 2**24 else []
        return [kind for kind in narrow if fits(values, kind)] + exact
    if all(isinstance(one, float) for one in known):
        return [pa.float64()] + [kind for kind in (pa.float32(), pa.float16()) if fits(values, kind)]
    if all(isinstance(one, str) for one in known):
        return [pa.string(), pa.large_string(), pa.string_view()]
    if all(isinstance(one, dt.datetime) for one in known):
        zone = "Europe/Berlin" if known[0].tzinfo else None
        return [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns")]
    return [pa.date32()] + ([pa.date64()] if name == "step" else [])


class Own(pa.ExtensionType):
    """A type of somebody's own."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.own")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Own:
        return cls(storage)


def arrow_column(name: str, values: list[Any], rng: np.random.Generator) -> Any:
    """A column in one of the types that can hold it, in one piece or in chunks, plain or encoded."""
    values = flag_words(values, rng) if name in FLAG_COLUMNS else values
    kinds = arrow_types(name, values)
    kind = kinds[int(rng.integers(len(kinds)))]
    column = pa.array(values, kind)
    way = rng.random()
    if way < 0.12 and all(isinstance(one, float | int) and not isinstance(one, bool) for one in values):
        if all(one == round(one, 2) and abs(one) < 2**53 for one in values):
            column = pa.array([Decimal(str(one)) for one in values], pa.decimal128(38, 3))
    elif way < 0.2 and isinstance(next(iter(values)), str) and name in LABEL_COLUMNS:
        if not any("\\" in one for one in values if one is not None):
            column = pa.array([None if one is None else one.encode() for one in values], pa.binary())
    elif way < 0.3 and name in ("reward", "behaviour_prob", "target_prob", "duration"):
        column = pa.array([repr(one) for one in values], pa.large_string())
    elif way < 0.5 and not pa.types.is_null(kind) and kind not in (pa.string_view(), pa.float16()):
        with contextlib.suppress(pa.ArrowException):
            column = column.dictionary_encode()
    elif way < 0.6 and kind not in (pa.string_view(), pa.null()):
        with contextlib.suppress(pa.ArrowException):
            column = pc.run_end_encode(column)
    elif way < 0.7 and kind not in (pa.string_view(),):
        column = pa.ExtensionArray.from_storage(Own(column.type), column)
    if rng.random() < 0.4 and len(values) > 2:
        return in_chunks(column, rng)
    return column


def in_chunks(column: Any, rng: np.random.Generator) -> Any:
    """The column in pieces, one of them empty, and where it can be each with a dictionary of its own."""
    cut = int(rng.integers(1, len(column)))
    pieces = [column.slice(0, cut), column.slice(cut, 0), column.slice(cut)]
    if pa.types.is_dictionary(column.type) and rng.random() < 0.5:
        pieces = [one.dictionary_decode().dictionary_encode() for one in pieces]
    return pa.chunked_array(pieces)


def flag_words(values: list[Any], rng: np.random.Generator) -> list[Any]:
    """Flags as they are, as numbers or as words, and perhaps with none but where they are read."""
    ways = ([False, True], [0, 1], ["no", "yes"], ["False", "True"], [0.0, 1.0], ["F", "T"])
    words = ways[int(rng.integers(len(ways)))]
    return [words[bool(one)] for one in values]


def arrow_table(columns: Columns, rng: np.random.Generator) -> pa.Table:
    """The table in Arrow, perhaps as a part of a longer one."""
    beyond = rng.random() < 0.4
    dressed = {
        name: arrow_column(name, [values[0], *values, values[-1]] if beyond else values, rng)
        for name, values in columns.items()
    }
    table = pa.table(dressed)
    return table.slice(1, table.num_rows - 2) if beyond else table


def parquet_table(columns: Columns, rng: np.random.Generator) -> pa.Table:
    """The table in types that Parquet can hold."""
    table = arrow_table(columns, rng)
    for i, field in enumerate(table.schema):
        kind = field.type
        if (
            isinstance(kind, Own)
            or pa.types.is_run_end_encoded(kind)
            or kind in (pa.float16(), pa.string_view())
        ):
            table = table.set_column(i, field.name, plain_column(table.column(i)))
    return table


def plain_column(column: Any) -> Any:
    """A column as a plain type holds it."""
    return pa.chunked_array([pa.array(column.to_pylist())])


def plain_ids(table: pa.Table) -> pa.Table:
    """The table with its dictionaries written out: footers then bound the ids, and files agree."""
    return table.cast(pa.schema([(field.name, in_files(field.type)) for field in table.schema]))


def in_files(kind: Any) -> Any:
    """A type in which all files of a folder can have a column."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def pandas_column(name: str, values: list[Any], rng: np.random.Generator) -> Any:
    import pandas as pd

    values = flag_words(values, rng) if name in FLAG_COLUMNS else values
    way = rng.random()
    if way < 0.2:
        return pd.Series(values, dtype=object)
    if way < 0.4 and name != "note":
        kinds = [one for one in arrow_types(name, values) if one not in (pa.float16(), pa.string_view())]
        kind = kinds[int(rng.integers(len(kinds)))]
        return pd.Series(pd.array(values, dtype=pd.ArrowDtype(kind)))
    whole = [one for one in values if isinstance(one, int) and not isinstance(one, bool)]
    if None in values and whole:  # pandas would make floats of them
        return pd.Series(values, dtype="Int64")
    if way < 0.45 and all(isinstance(one, float) and one == round(one, 2) for one in values):
        return pd.Series([Decimal(repr(one)) for one in values], dtype=object)
    plain = pd.Series(values)
    if way < 0.6:
        return plain.convert_dtypes()
    if way < 0.75 and name in LABEL_COLUMNS:
        return pd.Series(values, dtype=object).astype("category")
    return plain


def pandas_frame(columns: Columns, rng: np.random.Generator) -> Any:
    import pandas as pd

    frame = pd.DataFrame({name: pandas_column(name, values, rng) for name, values in columns.items()})
    way = int(rng.integers(3))
    if way == 1:
        frame.index = rng.integers(3, size=len(frame))
    elif way == 2:
        frame = frame.iloc[rng.permutation(len(frame))]
    return frame


def can_be_text(world: World) -> bool:
    """Whether files of text can hold its labels: none is an empty cell, or has signs that they lack."""
    used = [one for one in (*world.states, *world.actions) if isinstance(one, str)]
    return all(one.strip(" ") and not set(one) & {"\x00", "\r"} for one in used)


def csv_text(columns: Columns, rng: np.random.Generator, *, comma: str = ",") -> str:
    """The table as CSV, quoted here and there."""
    out = io.StringIO()
    ending = str(rng.choice(["\n", "\r\n"]))
    quoting = csv.QUOTE_MINIMAL if rng.random() < 0.7 else csv.QUOTE_NONNUMERIC
    writer = csv.writer(out, delimiter=comma, lineterminator=ending, quoting=quoting)
    writer.writerow(columns)
    numbers = ("reward", "behaviour_prob", "target_prob", "duration")
    cells = [
        [
            float(one) if name in numbers and isinstance(one, float) and comma == "," else cell(one)
            for one in values
        ]
        for name, values in columns.items()
    ]
    if quoting == csv.QUOTE_NONNUMERIC:  # an empty cell in quotes is as empty
        cells = [[one if one != "" else None for one in values] for values in cells]
    writer.writerows(zip(*cells, strict=True))
    return out.getvalue()


def text_file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_parquet(table: pa.Table, path: Path, rng: np.random.Generator) -> None:
    """The table in row groups of any size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table,
        path,
        row_group_size=int(rng.choice([2, 5, 1_000])),
        use_dictionary=bool(rng.random() < 0.7),
        compression=str(rng.choice(["none", "snappy", "zstd"])),
        write_statistics=bool(rng.random() < 0.9),
        data_page_version=str(rng.choice(["1.0", "2.0"])),
    )
