"""Where files are cut: episodes over row groups and files, files and rows in any order, and what is held."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from stream.folders import opened, policies, table_of, write

import deadweight as dw
from deadweight.errors import DataError, SupportError
from deadweight.io import scratch as external_sort
from deadweight.io import stream as stream_module
from deadweight.io.parquet import OutOfOrder
from deadweight.io.part_log import Fetched, fetch
from deadweight.io.schema import LogProblem
from deadweight.io.stream import Stream, open_stream
from deadweight.log.trajectories import Trajectories
from deadweight.sums import reduction
from deadweight.sums.blocks import SMALL_CELLS, blocks
from deadweight.sums.executors import executor_for, threads
from deadweight.sums.reduction import LARGER_CELLS, LONG_EPISODE
from deadweight.tools.progress import Progress


def episodes_of(log: Trajectories) -> list[Any]:
    return list(log)


def all_episodes(stream: Stream) -> list[Any]:
    return [episode for part in stream for episode in part]


def value(log: Any) -> float:
    return dw.estimate("WPDIS", log, *policies(), interval=None).value


@pytest.mark.parametrize("part_rows", [1, 7, 20, 33, 100, 10_000])
@pytest.mark.parametrize("group_rows", [1, 3, 20, 64, 1_000])
def test_parts_are_whole_episodes_in_order(part_rows: int, group_rows: int, tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of(40, truncated=True), files=4, group_rows=group_rows)
    stream, memory = open_stream(folder, part_rows=part_rows), dw.read(folder)
    assert all_episodes(stream) == episodes_of(memory)
    assert stream.census.n == memory.n_episodes
    assert stream.census.horizon == memory.horizon
    assert stream.census.terminated == memory.terminated.sum()


def test_an_episode_longer_than_files(tmp_path: Path) -> None:
    one = table_of(1, 200, fixed=True)
    table = pa.concat_tables([one, table_of(5).set_column(0, "episode", pa.array(_late_ids(5)))])
    folder = write(tmp_path / "log", table, files=6, group_rows=11)
    stream = open_stream(folder, part_rows=15)
    assert all_episodes(stream) == episodes_of(dw.read(folder))
    assert stream[0].lengths[0] == 200


def _late_ids(episodes: int) -> np.ndarray:
    table = table_of(episodes)
    return table["episode"].to_numpy() + 100


def test_files_in_any_order_of_names(tmp_path: Path) -> None:
    names = ["z.parquet", "b.parquet", "a.pq", "m.parquet"]
    folder = write(tmp_path / "log", table_of(), files=4, names=names)
    stream = open_stream(folder, part_rows=50)
    assert stream._holder is None, "no copy is needed"
    assert all_episodes(stream) == episodes_of(dw.read(folder))


def test_rows_shuffled_within_row_groups(tmp_path: Path) -> None:
    """Row groups in order whose rows are not: sorted when read, unless an episode is torn at a border."""
    table = table_of(60, fixed=True, longest=5)
    rng = np.random.default_rng(0)
    order = np.concatenate([lo + rng.permutation(20) for lo in range(0, 300, 20)])
    folder = write(tmp_path / "log", table.take(order), files=3, group_rows=20)
    stream = open_stream(folder, part_rows=40)
    assert stream._holder is None
    assert all_episodes(stream) == episodes_of(dw.read(folder))


def test_scattered_episodes_are_sorted(tmp_path: Path) -> None:
    table = table_of(truncated=True)
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    folder = write(tmp_path / "log", shuffled, files=3, group_rows=25)
    stream = open_stream(folder, part_rows=60)
    held = stream._holder.path
    assert held.is_dir()
    assert len(stream) > 1
    key = lambda episode: str(episode)  # noqa: E731
    assert sorted(all_episodes(stream), key=key) == sorted(episodes_of(dw.read(folder)), key=key)
    np.testing.assert_allclose(value(stream), value(dw.read(folder)), rtol=1e-10)
    del stream
    assert not held.exists(), "the temporary folder goes with the stream"


@pytest.mark.parametrize("kind", ["text", "times", "floats", "categories", "bytes"])
def test_episodes_by_other_names(kind: str, tmp_path: Path) -> None:
    table = table_of()
    ids = table["episode"].to_numpy()
    column = {
        "text": pa.array([f"e{i:03d}" for i in ids]),
        "times": pa.array(ids.astype("datetime64[s]")),
        "floats": pa.array(ids.astype(float)),
        "categories": pa.array([f"e{i:03d}" for i in ids]).dictionary_encode(),
        "bytes": pa.array([f"e{i:03d}".encode() for i in ids]),
    }[kind]
    folder = write(tmp_path / "log", table.set_column(0, "episode", column))
    stream = open_stream(folder, part_rows=60)
    np.testing.assert_allclose(value(stream), value(dw.read(folder)), rtol=1e-10)
    assert (stream._holder is None) == (kind in ("text", "categories"))


def test_rows_that_are_torn_at_a_border_are_found_and_sorted(tmp_path: Path) -> None:
    """Footers promise an order; they cannot see that an episode's rest is not where the row group begins."""
    table = table_of(20, 10, fixed=True)
    order = np.arange(table.num_rows)
    # A row group ends within the fifth episode, whose rest comes after rows of the sixth.
    order[45:55] = [*range(50, 55), *range(45, 50)]
    folder = write(tmp_path / "log", table.take(order), files=1, group_rows=45)
    with pytest.raises(OutOfOrder, match="sort=True"):
        value(open_stream(folder, part_rows=45))
    expected = value(dw.read(folder))
    np.testing.assert_allclose(value(open_stream(folder, part_rows=45, sort=True)), expected, rtol=1e-10)
    found = opened(folder, value, part_rows=45)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_sort_false_gives_the_instruction(tmp_path: Path) -> None:
    table = table_of()
    folder = write(tmp_path / "log", table.take(np.arange(table.num_rows)[::-1]), files=1, group_rows=1_000)
    open_stream(folder, part_rows=50, sort=False)
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    folder = write(tmp_path / "shuffled", shuffled)
    with pytest.raises(OutOfOrder, match="sorted by episode"):
        open_stream(folder, part_rows=50, sort=False)


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of()
    folder = write(tmp_path / "log", table.take(np.random.default_rng(0).permutation(table.num_rows)))

    def full(self: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(external_sort._Outlet, "_write", full)
    with pytest.raises(DataError, match="no room in"):
        open_stream(folder, part_rows=50)


def test_a_part_for_each_thread_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on memory, structurally: what is read for a part, and how many parts are alive at once."""
    import weakref

    folder = write(tmp_path / "log", table_of(300, fixed=True, longest=5), files=5, group_rows=50)
    stream = open_stream(folder, part_rows=100)
    alive: list[weakref.ref[Fetched]] = []
    most, rows = 0, 0

    def watched(*arguments: Any) -> Fetched:
        nonlocal most, rows
        fetched = fetch(*arguments)
        alive.append(weakref.ref(fetched))
        most = max(most, sum(one() is not None for one in alive))
        rows = max(rows, fetched.table.num_rows + (0 if fetched.tail is None else fetched.tail.num_rows))
        return fetched

    monkeypatch.setattr(stream_module, "fetch", watched)
    dw.evaluate(stream, *policies(), ["WPDIS", "DM", "WSPDIS"])
    assert len(alive) >= len(stream) > 4
    assert most <= threads() + 1, "those that are fetched or summed, and one on its way out"
    assert rows <= 100 + 5


def test_only_the_needed_columns_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of(propensities=True))
    read: set[str] = set()
    original = pq.ParquetFile.read_row_groups

    def spying(self: Any, groups: Any, columns: Any = None, **options: Any) -> Any:
        read.update(columns)
        return original(self, groups, columns=columns, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq.ParquetFile, "read_row_groups", spying)
        value(open_stream(folder, part_rows=50))
    assert read == {"episode", "step", "state", "action", "reward"}


def test_one_pass_is_enough_without_intervals(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of())
    told: list[Progress] = []
    stream = open_stream(folder, part_rows=50)
    with dw.progress(told.append):
        dw.evaluate(stream, *policies(), ["IS", "WIS", "PDIS", "WPDIS"], interval=None)
    passes = [progress for progress in told if progress.rows == 0]
    assert len(passes) == 1
    assert told[-1].rows == told[-1].of == stream.n_steps
    assert told[-1].rows_per_second > 0


def test_a_path_that_fits_in_one_part_is_read_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of())
    pi_e, pi_b = policies()
    found = dw.estimate("SIS", str(folder), pi_e, pi_b, drop="covariance:0.01")
    assert found.value == dw.estimate("SIS", dw.read(folder), pi_e, pi_b, drop="covariance:0.01").value
    files = sorted(folder.iterdir())
    assert value(files) == value(dw.read(folder))
    csv = tmp_path / "log.csv"
    pa.csv.write_csv(table_of(), csv)
    assert value(csv) == value(dw.read(csv))


@pytest.mark.parametrize(("length", "cells"), [(LONG_EPISODE - 1, SMALL_CELLS), (LONG_EPISODE, LARGER_CELLS)])
def test_small_blocks_are_for_short_episodes(tmp_path: Path, length: int, cells: int) -> None:
    folder = write(tmp_path / "log", table_of(10, length, fixed=True), group_rows=100)
    stream, seen = open_stream(folder, part_rows=150), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "blocks", lambda log, size: seen.append(size) or blocks(log, size))
        first = reduction.PartWork(stream, stream_module.nothing, SMALL_CELLS, count=False)
        other = reduction.PartWork(stream, stream_module.nothing, 500, count=False)
        for work in (first, other):
            work.add_up(work.load(0))
    assert set(seen) == {cells, 500}, "other sizes are what somebody needs"


# --- what is wrong is named ------------------------------------------------------------------------------


def test_a_file_cut_in_half_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of())
    broken = folder / "part-1.parquet"
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    with pytest.raises(LogProblem, match=r"part-1\.parquet.*cut short") as caught:
        open_stream(folder, part_rows=50)
    assert caught.value.code == "DW102"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_goes_bad_while_it_is_read_is_named(workers: int, tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of())
    stream = open_stream(folder, part_rows=50, executor=executor_for(workers))
    broken = folder / "part-2.parquet"
    content = bytearray(broken.read_bytes())
    content[100 : len(content) // 2] = b"\xff" * (len(content) // 2 - 100)
    broken.write_bytes(bytes(content))
    with pytest.raises(LogProblem, match=r"part-2\.parquet"):
        value(stream)
    broken.unlink()
    with pytest.raises(LogProblem, match=r"part-2\.parquet.*no such file"):
        value(stream)
    stream.executor.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_row_is_reported_as_in_memory_with_its_part(workers: int, tmp_path: Path) -> None:
    table = table_of()
    rewards = table["reward"].to_numpy().copy()
    rewards[150] = np.inf
    folder = write(tmp_path / "log", table.set_column(4, "reward", pa.array(rewards)))
    with pytest.raises(LogProblem) as expected:
        dw.read(folder)
    stream = open_stream(folder, part_rows=50, executor=executor_for(workers))
    with pytest.raises(LogProblem, match=r"part-1\.parquet', row group") as found:
        value(stream)
    assert found.value.code == expected.value.code
    stream.executor.close()


def test_a_step_without_support_is_found_in_the_first_pass(tmp_path: Path) -> None:
    folder = write(tmp_path / "log", table_of())
    pi_e, pi_b = policies()
    pi_b[2] = [0.0, 0.5, 0.5]
    with pytest.raises(SupportError, match="state 2"):
        dw.estimate("WIS", open_stream(folder, part_rows=50), pi_e, pi_b)


def test_no_rows_no_files_no_column(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(LogProblem, match="found none"):
        open_stream(empty)
    with pytest.raises(LogProblem, match="no such file"):
        open_stream(tmp_path / "nowhere.parquet")
    with pytest.raises(LogProblem, match="no rows"):
        open_stream(write(tmp_path / "hollow", table_of().slice(0, 0), files=1))
    with pytest.raises(LogProblem, match="missing: reward"):
        open_stream(write(tmp_path / "poor", table_of().drop_columns("reward")))
