"""Doors for files: CSV of programs and of spreadsheets, Parquet, whole, in parts and in folders."""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from doors.asking import Values, asked, cell, in_tables, in_text, read
from doors.dressing import (
    can_be_text,
    csv_text,
    in_files,
    parquet_table,
    places,
    plain_ids,
    scattered,
    text_file,
    write_parquet,
)
from doors.worlds import Columns, World

from deadweight.io.open import open_log


def csv_file(world: World, folder: Path, rng: np.random.Generator) -> Values:
    table, given = scattered(world, rng), {}
    if rng.random() < 0.3:
        given["fill_reward"] = 0
        table["reward"] = with_blanks(table)
    if "behaviour_prob" in table and rng.random() < 0.3:
        table["behaviour_prob"] = [f"{100 * p!r}%" for p in table["behaviour_prob"]]
    text = csv_text(table, rng, comma=str(rng.choice([",", ",", ";", "\t", "|"])))
    ending = str(rng.choice([".csv", ".csv", ".tsv", ".csv.gz"]))
    path = text_file(folder / f"log{ending}", text)
    return read(world, str(path) if rng.random() < 0.5 else path, rng, in_text(world), **given)


def with_blanks(table: Columns) -> list[Any]:
    """Rewards of which those that are zero are left out, where their episode has another."""
    paid = {one for one, reward in zip(table["episode"], table["reward"], strict=True) if reward}
    rows = zip(table["episode"], table["reward"], strict=True)
    return [None if reward == 0 and one in paid else reward for one, reward in rows]


def spreadsheet(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Semicolons, decimal commas, dates, UTF-16, a line that says the delimiter, blank rows at the end."""
    table = scattered(world, rng)
    for name in ("reward", "behaviour_prob", "target_prob", "duration"):
        if name in table and surely_decimal([cell(one) for one in table[name]]):
            table[name] = [cell(one).replace(".", ",") for one in table[name]]
    given: dict[str, Any] = {}
    if world.kinds["steps"] in ("days", "times"):
        given["time_format"] = "%d.%m.%Y" + (" %H:%M" if world.kinds["steps"] == "times" else "")
        table["step"] = [step.strftime(given["time_format"]) for step in table["step"]]
    heads = {name: f" {name.title()} " if rng.random() < 0.3 else name for name in table}
    text = csv_text({heads[name]: values for name, values in table.items()}, rng, comma=";")
    text = ("sep=;\n" if rng.random() < 0.3 else "") + text
    text += "".join(";" * (len(table) - 1) + "\n" for _ in range(int(rng.integers(3))))
    encoding = str(rng.choice(["utf-8", "utf-8-sig", "utf-16"]))
    (folder / "log.csv").write_bytes(text.encode(encoding))
    return read(world, folder / "log.csv", rng, in_text(world), **given)


def surely_decimal(cells: Sequence[str]) -> bool:
    """Whether decimal commas are beyond doubt: no exponents, and some cell without three digits after it."""
    digits = [one.partition(".")[2] for one in cells]
    return not any("e" in one for one in cells) and any(one and len(one) != 3 for one in digits)


def split(columns: Columns, rng: np.random.Generator, most: int = 4) -> list[Columns]:
    """The rows dealt out to some files."""
    size = len(columns["state"])
    cuts = sorted(
        {0, size, *(int(i) for i in rng.integers(1, size + 1, int(rng.integers(most))) if i < size)}
    )
    return [{name: values[lo:hi] for name, values in columns.items()} for lo, hi in pairwise(cuts)]


def csv_folder(world: World, folder: Path, rng: np.random.Generator) -> Values:
    pieces = split(scattered(world, rng), rng)
    names = ["b.csv", "deeper/a.csv.gz", "deeper/still/c.tsv", "a b.csv"]
    paths = [
        text_file(folder / "log" / name, csv_text(piece, rng, comma="\t" if name.endswith("tsv") else ","))
        for name, piece in zip(names, pieces, strict=False)
    ]
    way = rng.random()
    source: Any = folder / "log" if way < 0.6 else paths
    return read(world, source, rng, in_text(world))


def standard_input(world: World, folder: Path, rng: np.random.Generator) -> Values:
    table = scattered(world, rng)
    if rng.random() < 0.4 or not can_be_text(world):
        out = io.BytesIO()
        pq.write_table(parquet_table(table, rng), out, row_group_size=5)
        data, words = out.getvalue(), in_tables(world)
    else:
        data, words = csv_text(table, rng).encode(), in_text(world)
        data = gzip.compress(data) if rng.random() < 0.4 else data
    with piped(data):
        return read(world, "-", rng, words)


@contextlib.contextmanager
def piped(data: bytes) -> Iterator[None]:
    """With these bytes on standard input."""
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(data))
    try:
        yield
    finally:
        sys.stdin = before


def parquet(world: World, folder: Path, rng: np.random.Generator) -> Values:
    table = parquet_table(scattered(world, rng), rng)
    write_parquet(table, folder / "log.parquet", rng)
    return read(world, folder / "log.parquet", rng)


def parquet_folder(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """Files below each other, perhaps with a column in the names of folders."""
    whole = parquet_table(scattered(world, rng), rng)
    table = whole.cast(pa.schema([(f.name, in_files(f.type)) for f in whole.schema]))
    if world.kinds["actions"] == "dense" and rng.random() < 0.5:
        return hive(world, table, folder, rng)
    names = ["b.parquet", "deeper/a.parquet", "deeper/still/c.parquet", "d.parquet"]
    edges = sorted({0, table.num_rows, *(int(i) for i in rng.integers(0, table.num_rows + 1, 3))})
    for name, lo, hi in zip(names, edges, edges[1:], strict=False):
        write_parquet(table.slice(lo, hi - lo), folder / "log" / name, rng)
    return read(world, folder / "log", rng)


def hive(world: World, table: pa.Table, folder: Path, rng: np.random.Generator) -> Values:
    """A folder for each action, which stands in its name and not in the files."""
    actions = [int(one) for one in table["action"].to_pylist()]
    for action in set(actions):
        rows = [i for i, one in enumerate(actions) if one == action]
        write_parquet(
            table.drop_columns("action").take(rows), folder / "log" / f"action={action}" / "x.parquet", rng
        )
    return read(world, folder / "log", rng)


def streamed(world: World, table: pa.Table, folder: Path, rng: np.random.Generator, **given: Any) -> Values:
    """The values of files that are read in parts."""
    files = int(rng.integers(1, 4))
    edges = [table.num_rows * i // files for i in range(files + 1)]
    names = rng.permutation(["a", "b", "c"])
    for name, lo, hi in zip(names, edges, edges[1:], strict=False):
        path = folder / "log" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table.slice(lo, hi - lo), path, row_group_size=int(rng.integers(1, 6)))
    rows = int(rng.integers(1, 9))
    with open_log(folder / "log", time_limit=world.time_limit, part_rows=rows, **given) as log:
        return asked(world, log, in_tables(world), rng)


def stream(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """In the order of episodes, whose rows are in the order of their steps, or in any."""
    columns = scattered(world, rng)
    where = places(world, columns) if rng.random() < 0.6 else np.zeros(len(columns["state"]))
    order = sorted(range(len(where)), key=lambda i: (columns["episode"][i], where[i]))
    columns = {name: [values[i] for i in order] for name, values in columns.items()}
    plain = rng.random() < 0.5
    table = pa.table(columns) if plain else plain_ids(parquet_table(columns, rng))
    return streamed(world, table, folder, rng)


def scattered_stream(world: World, folder: Path, rng: np.random.Generator) -> Values:
    return streamed(world, plain_ids(parquet_table(scattered(world, rng), rng)), folder, rng)


def workers(world: World, folder: Path, rng: np.random.Generator) -> Values:
    return streamed(world, plain_ids(parquet_table(scattered(world, rng), rng)), folder, rng, workers=2)


def path_in_evaluate(world: World, folder: Path, rng: np.random.Generator) -> Values:
    """A path where a log may stand: how episodes end is in the table."""
    if can_be_text(world) and rng.random() < 0.5:
        source: Any = text_file(folder / "log.csv", csv_text(scattered(world, rng), rng))
        return asked(world, source, in_text(world), rng)
    write_parquet(parquet_table(scattered(world, rng), rng), folder / "log.parquet", rng)
    return asked(world, str(folder / "log.parquet"), in_tables(world), rng)


def says_ends(world: World) -> bool:
    """Whether a column says how episodes end."""
    return world.ends not in ("nothing", "limit")
