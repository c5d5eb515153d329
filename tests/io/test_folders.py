"""Folders: what other programs leave behind is no data, and a table that needs its own reader is refused."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from stream.test_refusals import lie

import deadweight as dw
from deadweight.cli import run
from deadweight.errors import Assumption, DataError
from deadweight.io.open import open_log
from deadweight.io.stream import open_stream

LEFT_BEHIND = (
    "_temporary/0/task_7/part-9",
    ".part-9",
    "_part-9",
    "._log",
    ".~lock.log",
    ".ipynb_checkpoints/log-checkpoint",
    ".Trash/log",
    "__MACOSX/._log",
    "_spark_metadata/0",
    "_committed_77",
    ".staging/deep/er/log",
    "site=A/_temporary/part-9",
    "site=A/.part-9",
    ".hidden/site=A/log",
)
MARKERS = (
    *("_SUCCESS", "_metadata", "_common_metadata", "_committed_1", ".DS_Store", ".part-0.parquet.crc"),
    *("_temporary/x.tmp", ".git/HEAD"),
)
ONE = "1 file was left out"


def table(first: int, reward: float, episodes: int = 20) -> pa.Table:
    """Episodes of two steps, from this id on, each with this return."""
    steps = 2 * episodes
    return pa.table(
        {
            "episode": np.repeat(np.arange(first, first + episodes), 2),
            "step": np.tile([0, 1], episodes),
            "state": np.arange(steps) % 3,
            "action": np.arange(steps) % 2,
            "reward": np.tile([0.0, reward], episodes),
            "behaviour_prob": np.full(steps, 0.5),
            "terminated": np.tile([False, True], episodes),
        }
    )


def put(path: Path, rows: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        pacsv.write_csv(rows, path)
    else:
        pq.write_table(rows, path, row_group_size=8)
    return path


def made(folder: Path, leftovers: tuple[str, ...], ending: str) -> Path:
    """A log of two files whose mean return is 1, with leftovers of mean return 1,000 beside them."""
    put(folder / f"part-0{ending}", table(0, 1.0))
    put(folder / f"part-1{ending}", table(20, 1.0))
    for i, name in enumerate(leftovers):
        put(folder / f"{name}{ending}", table(100 + 40 * i, 1000.0, 40))
    return folder


def policy(folder: Path) -> Path:
    path = folder / "policy.csv"
    path.write_text("state,action,prob\n" + "".join(f"{s},{a},0.5\n" for s in range(3) for a in range(2)))
    return path


def mean(log: Any) -> float:
    parts = [log] if isinstance(log, dw.Trajectories) else [log[i] for i in range(len(log))]
    returns = [np.add.reduceat(part.rewards, part.offsets[:-1]) for part in parts]
    return float(np.mean(np.concatenate(returns)))


def by_stream(folder: Path) -> float:
    with open_log(folder, part_rows=8) as log:
        return mean(log)


def by_evaluate(folder: Path) -> float:
    return dw.evaluate(folder, np.full((3, 2), 0.5), interval=None, estimators=["BEHAVIOUR", "WIS"])[
        "BEHAVIOUR"
    ].value


DOORS: dict[str, Callable[[Path], float]] = {
    "read": lambda folder: mean(dw.read(folder)),
    "list": lambda folder: mean(dw.read([str(folder)])),
    "stream": by_stream,
    "open_stream": lambda folder: mean(open_stream(folder, part_rows=8)),
    "evaluate": by_evaluate,
}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("leftover", LEFT_BEHIND)
def test_what_is_left_behind_is_no_data_and_is_counted(tmp_path: Path, leftover: str, ending: str) -> None:
    folder = made(tmp_path / "log", (leftover,), ending)
    for door, mean_of in DOORS.items():
        if door == "open_stream" and ending == ".csv":
            continue
        with pytest.warns(Assumption) as said:
            assert mean_of(folder) == 1.0, door
        assert [ONE in str(one.message) for one in said] == [True], door


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_all_kinds_at_once(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path / "log", LEFT_BEHIND, ending)
    count = f"{len(LEFT_BEHIND)} files were left out"
    with pytest.warns(Assumption, match=count):
        assert mean(dw.read(folder)) == 1.0
    with pytest.warns(Assumption, match=count):
        found = dw.doctor(folder)
    assert found.size["row"] == 80
    assert found.size["episode"] == 40
    assert run(["doctor", str(folder), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["size"]["episode"] == 40
    assert shown.err.count(count) == 1
    arguments = ["evaluate", str(folder), "--target", str(policy(tmp_path)), "--json"]
    for more in ([], ["--workers", "2"] if ending == ".parquet" else ["--behaviour", "counts"]):
        assert run([*arguments, *more]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["estimates"]["BEHAVIOUR"]["value"] == 1.0
        assert shown.err.count(count) == 1
        assert "Traceback" not in shown.err


def test_a_log_that_is_opened_twice_is_told_once(tmp_path: Path) -> None:
    folder = made(tmp_path / "log", ("_temporary/x",), ".parquet")
    rows = table(0, 1.0)
    path = put(folder / "part-0.parquet", rows.set_column(2, "state", pa.array([357, 0] * 20)))
    lie(path, 357, 3)
    with pytest.warns(Assumption) as said:
        assert by_stream(folder) == 1.0
    assert sum(ONE in str(one.message) for one in said) == 1


def test_the_mended_log_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made(tmp_path / "log", LEFT_BEHIND, ".csv")
    assert run(["doctor", str(folder), "--fix", str(tmp_path / "out.parquet")]) == 0
    assert capsys.readouterr().err.count("were left out") == 1
    assert mean(dw.read(tmp_path / "out.parquet")) == 1.0


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_marks_without_rows_are_not_worth_a_word(tmp_path: Path, ending: str) -> None:
    folder = made(tmp_path / "log", (), ending)
    for name in MARKERS:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"\x00")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mean(dw.read(folder)) == 1.0
        assert by_stream(folder) == 1.0


def test_leftovers_that_cannot_be_read_do_not_matter(tmp_path: Path) -> None:
    for ending in (".csv", ".parquet"):
        folder = made(tmp_path / ending[1:], (), ending)
        (folder / f"._part-0{ending}").write_bytes(b"\x00\x05\x16\x07 Mac OS X")
        with pytest.warns(Assumption, match=ONE):
            assert mean(dw.read(folder)) == 1.0


def test_leftovers_do_not_say_what_kind_a_folder_is(tmp_path: Path) -> None:
    folder = made(tmp_path / "log", (), ".csv")
    put(folder / "_temporary" / "x.parquet", table(100, 1000.0))
    with pytest.warns(Assumption, match=ONE):
        assert mean(dw.read(folder)) == 1.0
    with pytest.warns(Assumption, match=ONE):
        assert by_evaluate(folder) == 1.0


@pytest.mark.parametrize("name", ["_log", ".log", "_a/.b/_log"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_what_is_named_itself_is_read(tmp_path: Path, name: str, ending: str) -> None:
    folder = made(tmp_path / name, (), ending)
    file = put(folder.parent / f".one{ending}", table(0, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mean(dw.read(folder)) == 1.0
        assert by_stream(folder) == 1.0
        assert dw.read(file).n_episodes == 20
        assert dw.read([folder, put(folder.parent / f"_two{ending}", table(60, 1.0))]).n_episodes == 60


def test_folders_that_name_a_column_are_kept(tmp_path: Path) -> None:
    put(tmp_path / "state=a" / "x.parquet", table(0, 1.0).drop_columns(["state"]))
    put(tmp_path / "state=_b" / "x.parquet", table(20, 1.0).drop_columns(["state"]))
    put(tmp_path / "state=a" / "_temporary" / "x.parquet", table(40, 1000.0).drop_columns(["state"]))
    with pytest.warns(Assumption, match=ONE):
        log = dw.read(tmp_path)
    assert (log.n_episodes, list(log.state_labels), mean(log)) == (40, ["_b", "a"], 1.0)


def test_capitals_in_an_ending(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", table(0, 1.0))
    put(tmp_path / "b.csv", table(20, 3.0)).rename(tmp_path / "B.CSV")
    assert mean(dw.read(tmp_path)) == 2.0


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_nothing_but_leftovers(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "log" / "_temporary" / f"x{ending}", table(0, 1.0))
    put(tmp_path / "log" / f".y{ending}", table(0, 1.0))
    for read in (dw.read, dw.doctor, by_stream, by_evaluate):
        with pytest.raises(DataError, match=r"DW101.*found none but 2 whose names"):
            read(tmp_path / "log")
    assert run(["evaluate", str(tmp_path / "log"), "--target", str(policy(tmp_path))]) == 2
    assert "name that file or folder itself" in capsys.readouterr().err


FORMATS = {
    "Delta": ("_delta_log/00000000000000000000.json", "DeltaTable"),
    "Iceberg": ("metadata/v1.metadata.json", "scan().to_arrow()"),
    "Hudi": (".hoodie/hoodie.properties", "hudi"),
}


@pytest.mark.parametrize("named", ["log", ".", "log/site=A", "log/data"])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_table_with_its_own_reader_is_refused(
    tmp_path: Path, kind: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside its rows its folder holds those that were deleted or replaced."""
    folder = made(tmp_path / "lake" / "log", (), ".parquet")
    put(folder / "site=A" / "x.parquet", table(40, 1.0))
    put(folder / "data" / "x.parquet", table(60, 1.0))
    mark, words = FORMATS[kind]
    (folder / mark).parent.mkdir()
    (folder / mark).write_text("{}")
    asked = tmp_path / "lake" / named
    for read in (dw.read, dw.doctor, by_stream, by_evaluate, open_stream):
        with pytest.raises(DataError, match=rf"DW103.* {kind} table") as caught:
            read(asked)
        assert words in caught.value.fix
    for arguments in (["doctor"], ["evaluate", "--target", str(policy(tmp_path))]):
        assert run([arguments[0], str(asked), *arguments[1:]]) == 2
        assert f"{kind} table" in capsys.readouterr().err
    assert dw.read(folder / "part-0.parquet").n_episodes == 20


def test_links(tmp_path: Path) -> None:
    """Loops end; a folder elsewhere that only a link names is not read, and that is said."""
    folder = made(tmp_path / "log", (), ".csv")
    (folder / "loop").symlink_to(folder)
    (folder / ".loop").symlink_to(tmp_path)
    (folder / "latest.csv.d").symlink_to(folder, target_is_directory=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mean(dw.read(folder)) == 1.0
    put(tmp_path / "archive" / "x.csv", table(60, 5.0))
    (folder / "archive").symlink_to(tmp_path / "archive")
    with pytest.warns(Assumption, match="1 link to a folder elsewhere was not followed"):
        assert mean(dw.read(folder)) == 1.0
    (folder / "archive").unlink()
    (folder / "x.csv").symlink_to(tmp_path / "archive" / "x.csv")
    assert mean(dw.read(folder)) == pytest.approx((40 + 20 * 5) / 60, abs=1e-12)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_what_is_no_file_is_not_passed_over(tmp_path: Path, ending: str) -> None:
    folder = made(tmp_path / "log", (), ending)
    other = folder / f"other{ending}"
    other.symlink_to(tmp_path / "nowhere")
    for read in (dw.read, by_stream):
        with pytest.raises(DataError, match=r"DW101.*other.*no such file"):
            read(folder)
    other.unlink()
    os.mkfifo(other)
    for read in (dw.read, by_stream):
        with pytest.raises(DataError, match=r"DW101.*other.*a pipe, not a file"):
            read(folder)


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "log", (".Trash/x",), ".csv")
    put(folder / "locked" / "x.csv", table(40, 1.0))
    listing = os.scandir

    def locked(path: str) -> Any:
        if Path(path).name in ("locked", ".Trash"):
            raise PermissionError(13, "Permission denied", str(path))
        return listing(path)

    monkeypatch.setattr(os, "scandir", locked)
    with pytest.raises(DataError, match=r"DW101.*locked.*Permission denied"):
        dw.read(folder)
