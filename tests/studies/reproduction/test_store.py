"""The rows of an experiment: the records come back as rows, and the Parquet file depends on them alone."""

from __future__ import annotations

import math

import pyarrow.parquet
import pytest
from deadweight_studies.reproduction.run import Row, RowStore

MADE_WITH = {"version": "1", "protocol": "published", "experiment": "deterministic-lift"}
KEYS = [(7, -1), (7, 0), (7, 1), (9, -1), (9, 0)]


def rows(setting: int, run: int) -> list[Row]:
    return [Row(setting, run, "IS", 0.1 + run / 3), Row(setting, run, "SIS", -math.inf, 2, 0.5)]


def filled(folder, order=KEYS) -> RowStore:
    store = RowStore(folder, MADE_WITH)
    for key in order:
        store.add(*key, rows(*key))
    store.gather()
    return store


def test_rows_come_back_to_the_last_bit(tmp_path):
    filled(tmp_path)
    assert RowStore(tmp_path, MADE_WITH).runs == {key: rows(*key) for key in KEYS}


def test_the_order_of_arrival_does_not_matter(tmp_path):
    one, two = filled(tmp_path / "a"), filled(tmp_path / "b", KEYS[::-1])
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.records.path.read_bytes() == two.records.path.read_bytes()


def test_the_published_file_has_every_row_and_says_what_made_it(tmp_path):
    table = pyarrow.parquet.read_table(filled(tmp_path).path)
    assert table.column("value").to_pylist() == [row.value for key in KEYS for row in rows(*key)]
    assert table.schema.metadata[b"version"] == b"1"


@pytest.mark.parametrize("content", [b"not Parquet", b""])
def test_the_published_file_is_written_anew_and_never_read(tmp_path, content):
    store = filled(tmp_path)
    whole = store.path.read_bytes()
    store.path.write_bytes(content)
    again = RowStore(tmp_path, MADE_WITH)
    assert set(again.runs) == set(KEYS)
    again.gather()
    assert again.path.read_bytes() == whole


def test_rows_made_otherwise_are_not_used_and_not_lost(tmp_path):
    filled(tmp_path)
    newer = RowStore(tmp_path, {**MADE_WITH, "version": "2"})
    assert newer.runs == {}
    newer.add(7, 0, rows(7, 0))
    newer.gather()
    assert set(RowStore(tmp_path, MADE_WITH).runs) == set(KEYS)
