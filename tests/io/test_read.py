"""Reading logs: every kind of source gives the same log, whatever the order of its rows."""

from __future__ import annotations

import decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from deadweight.errors import DataError
from deadweight.io.open import read
from deadweight.log.trajectories import Trajectories

COLUMNS = {
    "episode": ["b", "b", "a", "c", "c", "c"],
    "step": [1, 0, 0, 2, 0, 1],
    "state": ["icu", "ward", "ward", "icu", "home", "ward"],
    "action": [1, 0, 1, 1, 0, 0],
    "reward": [2.0, 1.0, 3.0, 6.0, 4.0, 5.0],
    "propensity": [0.5, 0.25, 0.75, 0.5, 0.5, 0.25],
    "truncated": [True, False, False, False, False, False],
    "next_state": ["theatre", "icu", None, None, "ward", "icu"],
}


def frame():
    return pd.DataFrame(COLUMNS)


def check(log, labels=("home", "icu", "theatre", "ward")):
    assert isinstance(log, Trajectories)
    assert log.offsets.tolist() == [0, 1, 3, 6]
    assert list(log.state_labels) == list(labels)
    assert [labels[s] for s in log.states] == ["ward", "ward", "icu", "home", "ward", "icu"]
    assert log.actions.tolist() == [1, 0, 1, 0, 0, 1]
    assert log.rewards.tolist() == [3, 1, 2, 4, 5, 6]
    assert log.propensities.tolist() == [0.75, 0.25, 0.5, 0.5, 0.25, 0.5]
    assert log.terminated.tolist() == [True, False, True]
    assert log.next_states.tolist() == [-1, 1, 2, 3, 1, -1]


IN_MEMORY = {
    "dict": lambda: COLUMNS,
    "dict of arrays": lambda: {name: np.array(values, dtype=object) for name, values in COLUMNS.items()},
    "pandas": frame,
    "pandas categories": lambda: frame().astype({"state": "category", "episode": "category"}),
    "pandas nullable": lambda: frame().convert_dtypes(),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars lazy": lambda: pl.LazyFrame(COLUMNS),
    "polars categories": lambda: pl.DataFrame(COLUMNS).with_columns(pl.col("state").cast(pl.Categorical)),
    "arrow": lambda: pa.table(COLUMNS),
    "arrow views": lambda: pa.table({**COLUMNS, "state": pa.array(COLUMNS["state"], pa.string_view())}),
    "arrow batch": lambda: pa.table(COLUMNS).to_batches()[0],
    "arrow reader": lambda: pa.table(COLUMNS).to_reader(max_chunksize=2),
    "arrow dataset": lambda: ds.dataset(pa.table(COLUMNS)),
    "arrow in chunks": lambda: pa.concat_tables([pa.table(COLUMNS).slice(i, 1) for i in range(6)]),
    "duckdb": lambda: duckdb.from_arrow(pa.table(COLUMNS)),
}


@pytest.mark.parametrize("make", IN_MEMORY.values(), ids=IN_MEMORY)
def test_tables_in_memory(make):
    check(read(make()))


FILES = {
    "log.parquet": lambda path: frame().to_parquet(path),
    "log.with.dots": lambda path: frame().to_parquet(path),
    "log.csv": lambda path: frame().to_csv(path, index=False),
    "log.csv.gz": lambda path: frame().to_csv(path, index=False),
    "semicolons.csv": lambda path: frame().to_csv(path, index=False, sep=";"),
    "tabs.tsv": lambda path: frame().to_csv(path, index=False, sep="\t"),
    "bom.csv": lambda path: frame().to_csv(path, index=False, encoding="utf-8-sig"),
    "windows.csv": lambda path: frame().to_csv(path, index=False, lineterminator="\r\n"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["str", "Path"])
def test_files(tmp_path, name, kind):
    FILES[name](tmp_path / name)
    check(read(kind(tmp_path / name)))


def test_a_folder_of_parquet_with_other_files_in_it(tmp_path):
    (tmp_path / "README.md").write_text("not a log")
    for i, part in enumerate((frame()[:2], frame()[2:5], frame()[5:])):
        part.to_parquet(tmp_path / f"part-{i}.parquet")
    check(read(tmp_path))


def test_a_folder_partitioned_by_a_column(tmp_path):
    pq.write_to_dataset(pa.table(COLUMNS), tmp_path, partition_cols=["episode"])
    check(read(tmp_path))


def test_several_files(tmp_path):
    frame()[:3].to_parquet(tmp_path / "a.parquet")
    frame()[3:].to_csv(tmp_path / "b.csv", index=False)
    check(read([tmp_path / "a.parquet", str(tmp_path / "b.csv")]))


def test_renamed_columns():
    renamed = frame().rename(columns={"episode": "stay", "propensity": "p"})
    check(read(renamed, columns={"episode": "stay", "behaviour_prob": "p"}))


def test_the_order_of_rows_does_not_matter():
    for seed in range(5):
        check(read(frame().sample(frac=1, random_state=seed)))


def test_numbers_with_holes_stay_whole_numbers():
    """An integer column with nulls must not turn into NaN or floats on the way."""
    big = 2**60 + 1
    for make in (
        lambda d: pa.table(d),
        pl.DataFrame,
        lambda d: pd.DataFrame(d).astype({"next_state": "Int64"}),
    ):
        log = read(
            make({"episode": [1, 1], "step": [0, 1], "state": [big, 7], "action": [0, 1], "reward": [0, 1],
                  "next_state": [7, None], "truncated": [False, True]})
        )  # fmt: skip
        assert log.state_labels.tolist() == [7, big]
        assert log.next_states.tolist() == [0, -1]


def test_a_csv_with_holes_written_as_words(tmp_path):
    """R writes NA for a missing number; a state may also be called NA."""
    path = tmp_path / "log.csv"
    path.write_text(
        "episode,step,state,action,reward,next_state,truncated\n1,0,4,NA,1.5,5,FALSE\n1,1,5,no,2,NA,TRUE\n"
    )
    log = read(path)
    assert log.action_labels.tolist() == ["NA", "no"]
    assert log.states.tolist() == [4, 5]
    assert log.next_states.tolist() == [5, -1]


def test_a_csv_whose_types_change_after_the_first_megabyte(tmp_path):
    path, n = tmp_path / "log.csv", 120_000
    lines = [f"{i},0,{i % 5 if i < n - 1 else 'x'},0,1" for i in range(n)]
    path.write_text("\n".join(["episode,step,state,action,reward", *lines]))
    log = read(path)
    assert log.n_episodes == n
    assert log.state_labels.tolist() == ["0", "1", "2", "3", "4", "x"]
    assert log.actions.dtype.kind == "i"


def test_decimals_and_single_precision():
    relation = duckdb.sql(
        "SELECT i // 2 AS episode, i % 2 AS step, 1.0::DECIMAL(10, 2) * i AS state, 0 AS action, "
        "0.25::DECIMAL(5, 2) AS reward, 0.1::FLOAT AS behaviour_prob, true AS terminated FROM range(6) t(i)"
    )
    log = read(relation)
    assert log.states.tolist() == [0, 1, 2, 3, 4, 5]
    assert log.rewards.tolist() == [0.25] * 6
    assert log.propensities[0] == np.float32(0.1)
    objects = {**COLUMNS, "reward": [decimal.Decimal(str(r)) for r in COLUMNS["reward"]]}
    check(read(pd.DataFrame(objects)))


def test_single_precision_just_above_one_counts_as_one():
    above = np.float32(1) + np.finfo(np.float32).eps
    assert read({**COLUMNS, "propensity": [above] * 6}).propensities.tolist() == [1.0] * 6


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"terminated": [1, 0, 1, 0, 0, 0]}, [True, True, False]),
        ({"terminated": ["TRUE", "no", "yes", "0", None, ""]}, [True, True, False]),
        ({"truncated": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]}, [True, False, False]),
        ({"terminated": [True] * 6, "truncated": [True] * 6}, [True, True, True]),
        ({"terminated": [False] * 6, "truncated": [False] * 6}, [False, False, False]),
        ({}, [True, True, True]),
    ],
)
def test_flags_count_on_the_last_row(flags, expected):
    plain = {name: COLUMNS[name] for name in ("episode", "step", "state", "action", "reward")}
    assert read({**plain, **flags}).terminated.tolist() == expected


def test_next_state_may_name_a_state_that_is_never_visited_or_be_unknown():
    plain = {"episode": [0, 1], "step": [0, 0], "state": [0, 1], "action": [0, 0], "reward": [0, 0]}
    log = read({**plain, "truncated": [1, 1], "next_state": [5, -1]})
    assert log.n_states == 6
    assert log.next_states.tolist() == [5, -1]


def test_it_is_the_log_of_the_constructor():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, 50)
    n = int(lengths.sum())
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    states, actions, rewards = rng.integers(0, 9, n) * 500, rng.integers(0, 3, n), rng.normal(size=n)
    direct = Trajectories(states, actions, rewards, offsets)
    table = pd.DataFrame(
        {"episode": np.repeat(np.arange(50), lengths), "step": np.arange(n), "state": states,
         "action": actions, "reward": rewards}
    )  # fmt: skip
    log = read(table.sample(frac=1, random_state=0))
    for name in ("states", "actions", "rewards", "offsets", "state_labels", "action_labels", "next_states"):
        assert np.array_equal(getattr(log, name), getattr(direct, name)), name


@pytest.mark.parametrize(
    ("source", "columns", "words"),
    [
        ({**COLUMNS, "rewrad": COLUMNS["reward"], "reward": None}, None, ["Column 'reward'", "sequence"]),
        ({name: v for name, v in COLUMNS.items() if name != "reward"} | {"rewrad": [0] * 6}, None,
         ["missing: reward", "Did you mean 'rewrad'?", "Found: 'episode'"]),
        (COLUMNS, {"stat": "state"}, ["'stat' is not one of ours", "Did you mean 'state'?"]),
        (COLUMNS, {"state": "ward"}, ["'ward', named for state", "Found:"]),
        ("nowhere.parquet", None, ["no such file", "nowhere.parquet"]),
        (3.5, None, ["Expected a table", "float"]),
        (pd.Series([1]), None, ["Expected a table", "Series"]),
        (frame().set_index(["episode", "step"]), None, ["reset_index()"]),
        ({**COLUMNS, "reward": [1, np.nan, 3, 4, 5, 6]}, None, ["row 1 (episode 'b', step 0)", "from 0"]),
        ({**COLUMNS, "reward": [1, 2, "x", 4, np.nan, 6], "step": [None] * 6}, None, ["more problem"]),
    ],
)  # fmt: skip
def test_messages(source, columns, words):
    with pytest.raises(DataError) as caught:
        read(source, columns)
    for word in words:
        assert word in str(caught.value)


def test_a_truncated_file_in_a_folder_is_named(tmp_path):
    for i in range(3):
        frame().assign(episode=lambda f, i=i: f.episode + str(i)).to_parquet(tmp_path / f"part-{i}.parquet")
    bad = tmp_path / "part-1.parquet"
    bad.write_bytes(bad.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"part-1\.parquet.*cut short"):
        read(tmp_path)


def test_files_of_different_types_do_not_fit_together(tmp_path):
    frame()[:3].to_parquet(tmp_path / "a.parquet")
    frame()[3:].assign(reward="high").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="do not fit together"):
        read(tmp_path)


FLAGGED = pd.DataFrame(
    {
        "episode": np.repeat(["a", "b", "c"], 3),
        "step": [0, 1, 2] * 3,
        "state": 0,
        "action": 0,
        "reward": 1.0,
        "terminated": [False, False, True, True, True, True, False, False, False],
    }
)


def _written(frame, path, form):
    if form == "memory":
        return frame
    return frame.to_csv(path, index=False) or path if form == "csv" else frame.to_parquet(path) or path


@pytest.mark.parametrize("form", ["memory", "csv", "parquet"])
@pytest.mark.parametrize("flag", ["terminated", "truncated"])
@pytest.mark.parametrize("row", [6, 7])
def test_a_flag_in_the_middle_of_an_episode_is_refused(form, flag, row, tmp_path):
    frame = FLAGGED.rename(columns={"terminated": flag})
    frame.loc[row, flag] = True
    shuffled = frame.sample(frac=1, random_state=3).reset_index(drop=True)
    place = shuffled.index[(shuffled.episode == "c") & (shuffled.step == row - 6)][0]
    with pytest.raises(DataError) as caught:
        read(_written(shuffled, tmp_path / f"log.{form}", form))
    assert caught.value.code == {"terminated": "DW225", "truncated": "DW226"}[flag]
    assert f"before the last row of episode 'c': in row {place} (episode 'c', step {row - 6})" in str(
        caught.value
    )
    assert "share an id" in caught.value.fix


@pytest.mark.parametrize("form", ["memory", "csv", "parquet"])
def test_a_flag_in_all_rows_of_an_episode_is_the_episodes(form, tmp_path):
    shuffled = FLAGGED.sample(frac=1, random_state=3)
    assert read(_written(shuffled, tmp_path / f"log.{form}", form)).terminated.tolist() == [True, True, False]


def test_a_flag_that_is_blank_but_in_the_first_row_is_not_taken_for_one_in_all_rows():
    flags = [None, None, True, True, None, None, None, None, None]
    with pytest.raises(DataError, match=r"DW225: .* episode 'b'"):
        read(FLAGGED.assign(terminated=flags))
