"""Nothing large is made before its size was asked about; small files that hold much are refused."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deadweight as dw
from deadweight.errors import DeadweightError, OptionError, PolicyError, TooLarge
from deadweight.io.doctor import doctor
from deadweight.io.doctor_labels import SMALL_TABLE, Seen
from deadweight.io.open import read
from deadweight.io.policy_files import read_policy
from deadweight.negligible import covariance, return_test
from deadweight.tools import limits as memory


def continuous(n: int = 12_000) -> dict[str, np.ndarray]:
    """A log in which every step has a state and an action of its own."""
    rng = np.random.default_rng(0)
    step = np.arange(n)
    return {
        "episode": step // 10,
        "step": step % 10,
        "state": rng.normal(size=n),
        "action": rng.normal(size=n),
        "reward": rng.normal(size=n),
        "behaviour_prob": rng.uniform(0.1, 1, size=n),
    }


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv(memory.VARIABLE, "20MB")
    return monkeypatch


def test_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.VARIABLE, raising=False)
    assert 2**28 < memory.allowed() < 2**50
    for words, size in [("8GB", 8e9), (" 500 mb", 5e8), ("1.5GiB", 1.5e9), ("123", 123)]:
        monkeypatch.setenv(memory.VARIABLE, words)
        assert memory.allowed() == size
    memory.require(123, "A thing", "Do less.")
    with pytest.raises(
        TooLarge, match=r"^DW109: A thing would take about 124.0 B of memory; 123.0 B are"
    ) as e:
        memory.require(124, "A thing", "Do less.")
    assert e.value.fix.startswith("Do less. DEADWEIGHT_MEMORY=")
    monkeypatch.setenv(memory.VARIABLE, "much")
    with pytest.raises(OptionError, match="found 'much'"):
        memory.allowed()


def test_the_doctor_counts_without_a_table_of_all_pairs() -> None:
    """12,000 x 12,000 counts alone would be 1.2 GB."""
    table = continuous()
    tracemalloc.start()
    try:
        found = doctor(table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert {"DW513", "DW515", "DW516"} <= {one.code for one in found}
    assert found.ok
    assert peak < 2e8


@pytest.mark.parametrize("wide", [1, SMALL_TABLE])
def test_counting_by_table_and_by_sorting_agree(wide: int) -> None:
    rng = np.random.default_rng(1)
    states, actions = rng.integers(0, 7, 500), rng.integers(0, 5, 500)
    dense = np.zeros((7, 5), dtype=np.int64)
    np.add.at(dense, (states, actions), 1)
    dense[6, 4] = 0
    keep = (states != 6) | (actions != 4)
    states, actions = states[keep], actions[keep]
    seen = Seen.of(states, actions, 7 * wide, 5)
    assert seen.visits[:7].tolist() == dense.sum(axis=1).tolist()
    assert seen.taken.tolist() == dense.sum(axis=0).tolist()
    assert seen.actions_seen[:7].tolist() == (dense > 0).sum(axis=1).tolist()
    assert seen.states_seen.tolist() == (dense > 0).sum(axis=0).tolist()
    assert seen.count.tolist() == dense[dense > 0].tolist()
    assert np.array_equal(seen.state[seen.of_step], states)
    assert np.array_equal(seen.action[seen.of_step], actions)
    assert seen.sums(np.ones(len(states))).tolist() == seen.count.tolist()


def test_tables_that_would_not_fit(allowed: pytest.MonkeyPatch) -> None:
    log = read(continuous(2_000))
    pi = dw.TabularPolicy([[1.0]], states=[log.state_labels[0]], actions=[log.action_labels[0]])
    for make in (
        lambda: dw.estimate_behaviour(log),
        lambda: dw.cross_fitted_propensities(log),
        lambda: dw.fit_mdp(log),
        lambda: return_test(log),
        lambda: dw.estimate("WIS", log, pi),
        lambda: read_policy(
            {"state": np.arange(2_000) * 10**6, "action": np.arange(2_000) * 10**6, "prob": np.ones(2_000)}
        ),
    ):
        with pytest.raises(
            TooLarge, match=r"2,000 states x 2,000 actions would take about (192|224).0 MB"
        ) as error:
            make()
        assert error.value.code == "DW109"
    assert dw.estimate("WIS", read({**continuous(2_000), "target_prob": np.ones(2_000)})).value < 9.0


def test_q_of_many_steps_and_the_covariance_test(allowed: pytest.MonkeyPatch) -> None:
    table = continuous(3_000)
    table["state"], table["action"] = np.arange(3_000), np.zeros(3_000, dtype=np.int64)
    table["episode"] = np.zeros(3_000, dtype=np.int64)
    table["step"] = np.arange(3_000)
    log, pi = read(table), np.ones((3_000, 1))
    with pytest.raises(TooLarge, match="Q of 3,000 steps x 3,000 states x 1 actions would take"):
        dw.estimate("DR", log, pi, interval=None, solve="longest")
    with pytest.raises(TooLarge, match="V of 3,000 steps x 3,000 states would take"):
        dw.estimate("DM", log, pi, interval=None, solve="longest")
    with pytest.raises(TooLarge, match="Q of 3,000 steps"):
        dw.q_values(dw.fit_mdp(log), pi, 3_000)
    with pytest.raises(TooLarge, match="A smoothed model"):
        _ = dw.fit_mdp(log, unseen="mean").P
    many = read({**table, "episode": np.arange(3_000), "step": np.zeros(3_000, dtype=np.int64)})
    with pytest.raises(TooLarge, match="covariance test on 3,000 states x 3,000 episodes"):
        covariance(many, pi, pi)


def test_the_doctor_says_it_of_policy_and_log(allowed: pytest.MonkeyPatch) -> None:
    table = continuous(2_000)
    pi = dw.TabularPolicy([[1.0]], states=[table["state"][0]], actions=[table["action"][0]])
    found = doctor(table, pi)
    assert [one.code for one in found.errors] == ["DW505"]
    assert "would take about" in found.errors[0].problem


def bomb(path: Path, size: int, shape: tuple[int, ...]) -> Path:
    """An .npz whose one array is `size` bytes of zeros under a header that says `shape`."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("probs.npy", "w") as file:
        file.write(head.getvalue())
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return path


def test_an_archive_that_unpacks_to_much(tmp_path: Path, allowed: pytest.MonkeyPatch) -> None:
    path = bomb(tmp_path / "bomb.npz", 64 << 20, (1 << 20, 8))
    assert path.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=r"an array of shape \(1048576, 8\), would take about 268.4 MB"):
            read_policy(path)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 20), (3, 1 << 17), (1 << 62, 4, 4)])
def test_headers_that_promise_more_than_there_is(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = bomb(tmp_path / "short.npz", 1 << 20, shape)
    with pytest.raises(PolicyError, match="was cut short: its header says shape"):
        read_policy(path)
    with zipfile.ZipFile(path) as archive:
        (tmp_path / "short.npy").write_bytes(archive.read("probs.npy"))
    with pytest.raises(PolicyError, match="was cut short"):
        read_policy(tmp_path / "short.npy")


def test_no_array_of_objects(tmp_path: Path) -> None:
    for name, save in (("o.npy", np.save), ("o.npz", lambda path, array: np.savez(path, probs=array))):
        save(tmp_path / name, np.array([[object]], dtype=object))
        with pytest.raises(PolicyError, match="not a readable numpy file"):
            read_policy(tmp_path / name)


def test_columns_first_and_other_byte_orders(tmp_path: Path) -> None:
    probs = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    for array in (np.asfortranarray(probs), probs.astype(">f8"), probs.astype("f4")):
        np.save(tmp_path / "p.npy", array)
        np.savez_compressed(tmp_path / "p.npz", probs=array)
        for name in ("p.npy", "p.npz"):
            assert read_policy(tmp_path / name).probs.tolist() == probs.tolist()


def constant_rows(path: Path, rows: int, groups: int) -> Path:
    """Parquet of many equal rows in few bytes."""
    zeros = pa.array(np.zeros(rows, dtype=np.int64))
    names = ("episode", "step", "state", "action", "reward")
    pq.write_table(pa.table(dict.fromkeys(names, zeros)), path, row_group_size=rows // groups)
    return path


def test_parquet_of_very_many_rows(tmp_path: Path, allowed: pytest.MonkeyPatch) -> None:
    path = constant_rows(tmp_path / "log.parquet", 1_000_000, 1)
    assert path.stat().st_size < 100_000
    for source in (path, tmp_path):
        with pytest.raises(TooLarge, match=r"1,000,000 rows would take about 160.0 MB"):
            doctor(source)
        with pytest.raises(TooLarge, match=r"1,000,000 rows would take about 160.0 MB"):
            read(source)
    with pytest.raises(TooLarge, match=r"Row group 0 of .*: 1,000,000 rows would take") as error:
        dw.estimate("WIS", path, np.ones((1, 1)), np.ones((1, 1)))
    assert "smaller row groups" in error.value.fix


def test_one_episode_that_never_ends_in_a_stream(tmp_path: Path, allowed: pytest.MonkeyPatch) -> None:
    from deadweight.io.open import open_log

    path = constant_rows(tmp_path / "log.parquet", 1_000_000, 50)
    refused = pytest.raises(TooLarge, match=r"An episode of \d+,000 rows and more would take")
    with refused, open_log(path, part_rows=20_000) as log:
        sum(part.n_steps for part in log)  # type: ignore[union-attr]


def test_a_compressed_csv_that_unpacks_to_much(tmp_path: Path, allowed: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"episode,step,state,action,reward\n" + b"0,0,0,0,0\n" * 3_000_000)
    assert path.stat().st_size < 100_000
    with pytest.raises(TooLarge, match=r"unpacks to .* and more, would take about"):
        read(path)
    (tmp_path / "log.csv").write_bytes(b"episode,step,state,action,reward\n" + b"0,0,0,0,0\n" * 600_000)
    with pytest.raises(TooLarge, match=r"would take about 24\.0 MB"):
        read(tmp_path / "log.csv")


def test_every_kind_of_error_has_a_code_of_its_own() -> None:
    kinds = [kind for kind in vars(dw.errors).values() if isinstance(kind, type)]
    codes = [kind.code for kind in kinds if issubclass(kind, DeadweightError)]
    assert len(codes) == len(set(codes)) > 10
    assert all(code.startswith("DW") for code in codes)
