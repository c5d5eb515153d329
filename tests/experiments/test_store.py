"""The store: runs are there as a whole or not at all, and the gathered file depends on the rows alone."""

from __future__ import annotations

import errno

import pytest

from deadweight.experiments.measure import Row
from deadweight.experiments.store import OutputError, Store, write_text

MADE_WITH = {"version": "1"}


def rows(setting: int, run: int) -> list[Row]:
    return [Row(setting, run, "IS", 0.5 + run), Row(setting, run, "SIS", 0.25, 2, 0.5)]


def store(folder, fingerprint=MADE_WITH) -> Store:
    return Store(folder, "published", "deterministic-lift", fingerprint)


def test_the_order_of_arrival_does_not_matter(tmp_path):
    keys = [(7, 0), (7, 1), (9, -1), (9, 0)]
    for name, order in (("a", keys), ("b", keys[::-1])):
        one = store(tmp_path / name)
        for key in order:
            one.add(*key, rows(*key))
        one.gather()
    assert store(tmp_path / "a").path.read_bytes() == store(tmp_path / "b").path.read_bytes()
    assert not store(tmp_path / "a").pieces.exists()
    assert store(tmp_path / "a").runs == {key: rows(*key) for key in keys}


def test_runs_that_were_never_gathered_are_found(tmp_path):
    store(tmp_path).add(7, 0, rows(7, 0))
    store(tmp_path).add(7, 1, rows(7, 1))
    assert set(store(tmp_path).runs) == {(7, 0), (7, 1)}


def test_a_run_left_beside_the_gathered_file_is_not_counted_twice(tmp_path):
    one = store(tmp_path)
    one.add(7, 0, rows(7, 0))
    piece = next(one.pieces.glob("*.parquet"))
    content = piece.read_bytes()
    one.gather()
    one.pieces.mkdir()  # killed between the renaming and the clearing up
    piece.write_bytes(content)
    (one.pieces / ".half.part").write_bytes(b"PAR1")
    again = store(tmp_path)
    assert again.runs[7, 0] == rows(7, 0)
    again.gather()
    assert not again.pieces.exists()


def test_rows_made_otherwise_are_not_used(tmp_path):
    one = store(tmp_path)
    one.add(7, 0, rows(7, 0))
    one.gather()
    assert store(tmp_path, {"version": "2"}).runs == {}
    assert set(store(tmp_path, None).runs) == {(7, 0)}


def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    one = store(tmp_path)
    one.add(7, 0, rows(7, 0))

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        one.add(7, 1, rows(7, 1))
    with pytest.raises(OutputError, match=r"ledger\.md"):
        write_text(tmp_path / "ledger.md", "text")
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert files == ["00007-00000.parquet"]
    assert set(store(tmp_path).runs) == {(7, 0)}


def test_a_file_that_is_something_else_is_named(tmp_path):
    one = store(tmp_path)
    one.path.parent.mkdir(parents=True)
    one.path.write_text("not Parquet")
    with pytest.raises(OutputError, match="Remove it"):
        _ = one.runs
