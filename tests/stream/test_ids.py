"""Memory and stream agree on what an episode is, whatever its id is and wherever its rows are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.folders import opened, policies, table_of
from stream.id_kinds import EPISODES, IDS, REFUSED, orders, written

import deadweight as dw
from deadweight.errors import DataError
from deadweight.io import scratch as external_sort
from deadweight.io.columns import read_labels
from deadweight.io.parquet import check_ids, share_of
from deadweight.io.schema import LogProblem
from deadweight.io.stream import open_stream
from deadweight.sums.executors import Executor, executor_for

TABLE = table_of(EPISODES, 6, truncated=True)
PART_ROWS = (9, 40, 1_000)
NAMES = ["IS", "WPDIS"]


def numbers(log: Any) -> np.ndarray:
    found = dw.evaluate(log, *policies(), NAMES, interval=None)
    return np.array([found[name].value for name in NAMES] + [found["IS"].n_episodes])


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_sort, "BATCH_ROWS", 11)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return numbers(dw.read(TABLE))


@pytest.mark.parametrize("kind", IDS)
def test_every_type_in_every_order_and_part_size(kind: str, expected: np.ndarray, tmp_path: Path) -> None:
    for order, rows in orders(TABLE.num_rows).items():
        folder = written(tmp_path / order, TABLE, IDS[kind], rows)
        np.testing.assert_allclose(numbers(dw.read(folder)), expected, rtol=1e-10, err_msg=order)
        for part_rows in PART_ROWS:
            found = opened(folder, numbers, part_rows=part_rows)
            np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=f"{order}, {part_rows}")


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_id_is_refused_alike(kind: str, tmp_path: Path) -> None:
    code, ids = REFUSED[kind]
    for order, rows in orders(TABLE.num_rows).items():
        folder = written(tmp_path / order, TABLE, ids, rows)
        for part_rows in (None, *PART_ROWS):
            with pytest.raises(LogProblem) as caught:
                dw.read(folder) if part_rows is None else opened(folder, numbers, part_rows=part_rows)
            # Without an order of rows nobody can tell whether episodes share an id or a step stands twice.
            assert caught.value.code in {code, "DW203" if code == "DW201" else code}, (order, part_rows)


def test_zeros_of_both_signs_are_one_episode(expected: np.ndarray, tmp_path: Path) -> None:
    rows = orders(TABLE.num_rows)["shuffled"]
    episodes = TABLE["episode"].to_numpy()[rows] / 2
    signed = np.where((episodes == 0) & (np.arange(len(rows)) % 2 == 1), -0.0, episodes)
    assert np.signbit(signed).any()
    path = tmp_path / "log.parquet"
    pq.write_table(TABLE.take(rows).set_column(0, "episode", pa.array(signed)), path, row_group_size=15)
    for found in (numbers(dw.read(path)), opened(path, numbers, part_rows=9)):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


# --- ids at random ---------------------------------------------------------------------------------------

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.float64(): st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, 0.5, 2.0**53, 2.0**53 + 2, 1e300, float("inf"), float("-inf")]),
        st.floats(allow_nan=False),
        st.integers(-5, 5).map(float),
    ),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.uint64(): st.one_of(st.integers(0, 5), st.integers(2**63 - 3, 2**63 + 3), st.integers(0, 2**64 - 1)),
    pa.int64(): st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
    pa.decimal128(38, 3): st.one_of(
        st.integers(-5, 5).map(Decimal), st.decimals(-(10**30), 10**30, places=3, allow_nan=False)
    ),
    pa.decimal256(60, 0): st.integers(-(10**59), 10**59).map(Decimal),
    pa.string(): st.one_of(st.sampled_from(["1", "01", "1.0", "", " 1", "\\xff"]), st.text(max_size=4)),
    pa.binary(): st.binary(max_size=3),
    pa.timestamp("ns"): st.integers(-(2**62), 2**62),
    pa.bool_(): st.booleans(),
}


@settings(max_examples=50, deadline=None, derandomize=True)
@given(data=st.data())
def test_random_ids_in_random_places(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(VALUES)))
    ids = data.draw(st.lists(VALUES[kind], min_size=1, max_size=9, unique=True))
    owners = data.draw(st.lists(st.integers(0, len(ids) - 1), min_size=1, max_size=40))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    n = len(owners)
    # 0.0 and -0.0 are equal to Python, so `unique` has kept one; rows of an episode may have either.
    signs = rng.choice([1, -1], n)
    cells = [-ids[i] if ids[i] == 0 and kind == pa.float64() and s < 0 else ids[i]
             for i, s in zip(owners, signs, strict=True)]  # fmt: skip
    table = pa.table(
        {
            "episode": pa.array(cells, kind),
            "step": rng.permutation(n),
            "state": rng.integers(0, 6, n),
            "action": rng.integers(0, 3, n),
            "reward": rng.normal(size=n),
        }
    )
    memory = dw.read(table)
    assert memory.n_episodes == len(set(owners))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        pq.write_table(table, path, row_group_size=data.draw(st.integers(1, 20)))
        found = opened(path, numbers, part_rows=data.draw(st.integers(1, 30)))
    np.testing.assert_allclose(found, numbers(memory), rtol=1e-9, atol=1e-12)


# --- workers ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[int, Executor]]:
    pools = {count: executor_for(count) for count in (1, 2, 7)}
    yield pools
    for pool in pools.values():
        pool.close()


@pytest.mark.parametrize(
    "kind", sorted({"one fraction", "uint64 far apart", "long decimals", "string_view"} & set(IDS))
)
def test_any_number_of_workers_gives_the_same_bits(
    kind: str, workers: dict[int, Executor], tmp_path: Path
) -> None:
    folder = written(tmp_path / "log", TABLE, IDS[kind], orders(TABLE.num_rows)["shuffled"])
    streams = {n: open_stream(folder, part_rows=8, executor=pool) for n, pool in workers.items()}
    assert len(streams[7]) >= 7
    found = {n: numbers(stream).tobytes() for n, stream in streams.items()}
    assert found[1] == found[2] == found[7]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_any_number_of_workers_refuses_alike(
    count: int, workers: dict[int, Executor], tmp_path: Path
) -> None:
    _, ids = REFUSED["not a number"]
    folder = written(tmp_path / "log", TABLE, ids, orders(TABLE.num_rows)["shuffled"])
    with pytest.raises(LogProblem, match="DW301"):
        numbers(open_stream(folder, part_rows=8, executor=workers[count]))


# --- the assertion itself --------------------------------------------------------------------------------


def test_an_episode_in_two_parts_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deal rows out by what a batch happens to hold, as was done once: the pass over the parts says so."""

    def by_batch(episodes: Any, count: int) -> np.ndarray:
        whole = read_labels(episodes).distinct is None
        return (share_of(episodes, count) + whole) % count

    folder = written(tmp_path / "log", TABLE, IDS["one fraction"], orders(TABLE.num_rows)["shuffled"])
    monkeypatch.setattr(external_sort, "share_of", by_batch)
    with pytest.raises(DataError, match="Every episode must be in one part"):
        numbers(open_stream(folder, part_rows=40))


def test_the_assertion_is_made_in_every_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deadweight.io import part_log as fetch

    looked: list[int] = []

    def counted(table: Any, *rest: Any) -> None:
        looked.append(table.num_rows)
        check_ids(table, *rest)

    monkeypatch.setattr(fetch, "check_ids", counted)
    folder = written(tmp_path / "log", TABLE, IDS["string"], orders(TABLE.num_rows)["in order"])
    stream = open_stream(folder, part_rows=40)
    for passes in (1, 2, 3):
        dw.estimate("IS", stream, *policies(), interval=None)
        assert len(looked) == passes * len(stream)
