"""Open episodes: a reward that is blank in every row is an outcome that nobody knows yet, and no zero."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stream.folders import mean_reward

import deadweight as dw
from deadweight.cli import run
from deadweight.errors import DataError, OptionError
from deadweight.io.open import open_log
from deadweight.io.schema import Mending
from deadweight.io.stream import open_stream
from deadweight.sums.ends import inferred_limit
from deadweight.sums.reduction import reduce_log

COLUMNS: dict[str, list[Any]] = {
    "episode": [1, 1, 2, 2, 3, 3, 4, 4, 4, 5],
    "step": [0, 1, 0, 1, 0, 1, 0, 1, 2, 0],
    "state": [0, 1, 0, 1, 0, 1, 0, 0, 1, 0],
    "action": [0, 1, 1, 0, 0, 1, 0, 1, 1, 1],
    "reward": [None, 1.0, None, 0.0, None, None, None, None, 1.0, None],
    "behaviour_prob": [0.5] * 10,
}
OPEN = [False, False, True, False, True]
POLICY = np.full((2, 2), 0.5)


def sources(folder: Path, columns: dict[str, list[Any]] = COLUMNS) -> dict[str, Any]:
    """The table by every door; rows in no order."""
    order = np.random.default_rng(1).permutation(len(columns["episode"]))
    mixed = {name: [values[i] for i in order] for name, values in columns.items()}
    pq.write_table(pa.table(columns), folder / "log.parquet", row_group_size=2)
    pd.DataFrame(mixed).to_csv(folder / "log.csv", index=False)
    nan = {**mixed, "reward": [np.nan if r is None else r for r in mixed["reward"]]}
    text = {**mixed, "reward": ["NA" if r is None else str(r) for r in mixed["reward"]]}
    return {
        "dict": mixed,
        "csv": folder / "log.csv",
        "parquet": folder / "log.parquet",
        "pandas": pd.DataFrame(mixed),
        "polars": pl.DataFrame(mixed),
        "nan": nan,
        "text": text,
    }


def rows(log: Any) -> tuple[list[list[float]], list[bool]]:
    """Rewards by episode, and how each ended."""
    parts = [log] if isinstance(log, dw.Trajectories) else [log[i] for i in range(len(log))]
    rewards = [
        part.rewards[lo:hi].tolist()
        for part in parts
        for lo, hi in zip(part.offsets[:-1], part.offsets[1:], strict=True)
    ]
    return rewards, [bool(end) for part in parts for end in part.terminated]


ALL = [[0, 1], [0, 0], [0, 0], [0, 0, 1], [0]]
KNOWN = [[0, 1], [0, 0], [0, 0, 1]]
CHOICES = {
    "cut": (ALL, [True, True, False, True, False]),
    "zero": (ALL, [True] * 5),
    "drop": (KNOWN, [True] * 3),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_the_three_choices(tmp_path: Path, choice: str) -> None:
    for door, source in sources(tmp_path).items():
        log = dw.read(source, fill_reward=0, open_episodes=choice, time_limit=None)
        assert rows(log) == CHOICES[choice], door
        with open_log(source, mending=Mending(None, 0.0, choice), time_limit=None) as log:
            if isinstance(source, Path):
                assert rows(log) == CHOICES[choice], door


@pytest.mark.parametrize("choice", ["cut", "zero"])
def test_the_choices_in_parts(tmp_path: Path, choice: str) -> None:
    path = sources(tmp_path)["parquet"]
    with open_log(path, part_rows=2, mending=Mending(None, 0.0, choice), time_limit=None) as log:
        assert len(log) > 1
        assert rows(log) == CHOICES[choice]


def test_dropping_needs_the_log_in_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sources(tmp_path)["parquet"]
    with open_log(path, part_rows=2, mending=Mending(None, 0.0, "drop"), time_limit=None) as log:
        assert rows(log) == CHOICES["drop"]
    with pytest.raises(OptionError, match="needs the log in memory"):
        open_stream(path, mending=Mending(None, 0.0, "drop"))
    np.save(tmp_path / "p.npy", POLICY)
    arguments = ["evaluate", str(path), "--target", str(tmp_path / "p.npy"), "--fill-reward", "0"]
    assert run([*arguments, "--open", "drop", "--stream"]) == 2
    assert "--open drop needs the log in memory" in capsys.readouterr().err
    assert run([*arguments, "--open", "drop", "--workers", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log"]["episodes"] == 3


def test_unsaid_they_are_an_error(tmp_path: Path) -> None:
    for fill in (None, 0, 5.0):
        for door, source in sources(tmp_path).items():
            with pytest.raises(DataError, match=r"DW317.*2 of 5 episodes.*episodes 3, 5") as caught:
                dw.read(source, fill_reward=fill)
            assert "--open cut" in caught.value.fix, door
            assert "open_episodes='cut'" in caught.value.fix, door
            found = dw.doctor(source, fill_reward=fill)
            assert [one.code for one in found.errors] == ["DW317"]
            assert found.errors[0].count == 3
        first = "DW305" if fill is None else "DW317"  # of the first part that has any blank
        with (
            pytest.raises(DataError, match=first),
            open_log(
                tmp_path / "log.parquet", part_rows=2, mending=Mending(None, fill), time_limit=None
            ) as log,
        ):
            rows(log)
    with pytest.raises(DataError, match="DW317"):
        dw.evaluate(tmp_path / "log.parquet", POLICY)


def test_said_they_do_not_say_what_other_blanks_are(tmp_path: Path) -> None:
    for source in sources(tmp_path).values():
        with pytest.raises(DataError, match=r"DW305.* and 3 more rows"):
            dw.read(source, open_episodes="cut")


def test_the_open_ones_are_zero_whatever_blanks_are() -> None:
    log = dw.read(COLUMNS, fill_reward=7, open_episodes="cut")
    assert rows(log)[0] == [[7, 1], [7, 0], [0, 0], [7, 7, 1], [0]]


@pytest.mark.parametrize(
    "given", [{}, {"fill_reward": 0}, {"open_episodes": "zero"}, {"open_episodes": "drop"}]
)
def test_a_column_without_any_reward_is_no_log_of_open_episodes(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    blank = {**COLUMNS, "reward": [None] * 10}
    frames = sources(tmp_path, {**COLUMNS, "reward": pa.array([None] * 10, pa.float64()).to_pylist()})
    for source in (blank, frames["csv"], frames["pandas"], frames["parquet"]):
        with pytest.raises(DataError, match=r"DW305.*blank in every row of the log"):
            dw.read(source, **given)
        with (
            pytest.raises(DataError, match=r"DW305.*blank in every row of the log"),
            open_log(tmp_path / "log.parquet", part_rows=2, mending=Mending(None, **given)),
        ):
            pass


def test_flags_that_say_that_an_episode_was_cut_suffice() -> None:
    truncated = [False] * 10
    truncated[5] = truncated[9] = True
    log = dw.read({**COLUMNS, "truncated": truncated}, fill_reward=0)
    assert rows(log) == CHOICES["cut"]
    terminated = [i in (1, 3, 8) for i in range(10)]
    assert rows(dw.read({**COLUMNS, "terminated": terminated}, fill_reward=0)) == CHOICES["cut"]
    with pytest.raises(DataError, match=r"DW317.*1 of 5 episodes"):
        dw.read({**COLUMNS, "terminated": [*terminated[:9], True]}, fill_reward=0)


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_an_open_episode_that_is_said_to_be_cut_is_cut(tmp_path: Path, flag: str) -> None:
    columns = {**COLUMNS, flag: [flag == "terminated"] * 10}
    if flag == "terminated":
        columns[flag] = [i in (1, 3, 5, 8, 9) for i in range(10)]
    for source in sources(tmp_path, columns).values():
        assert rows(dw.read(source, fill_reward=0, open_episodes="cut")) == CHOICES["cut"]
    with open_log(tmp_path / "log.parquet", part_rows=2, mending=Mending(None, 0.0, "cut")) as log:
        assert rows(log) == CHOICES["cut"]


def test_a_state_that_follows_a_cut_is_kept() -> None:
    following = [1, None, 1, None, 1, 0, 0, 1, None, 1]
    log = dw.read({**COLUMNS, "next_state": following}, fill_reward=0, open_episodes="cut")
    last = log.offsets[1:] - 1
    assert log.next_states[last].tolist() == [-1, -1, 0, -1, 1]


def world(seed: int = 0, episodes: int = 80) -> dict[str, Any]:
    """Episodes of up to six steps, at which they are cut, with one reward at the end; some are open."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for episode in range(episodes):
        is_open = rng.random() < 0.25
        length = int(rng.integers(1, 6)) if is_open or rng.random() < 0.3 else 6
        for step in range(length):
            last = step == length - 1
            row = (episode, step, int(rng.integers(4)), int(rng.integers(2)))
            reward = float(rng.integers(1, 9)) if last and not is_open else None
            for name, value in zip(columns, (*row, reward, 0.5), strict=True):
                columns[name].append(value)
    return columns


@pytest.mark.parametrize("choice", ["cut", "zero"])
@pytest.mark.parametrize("limit", ["infer", None, 6])
def test_a_stream_is_memory(tmp_path: Path, choice: str, limit: Any) -> None:
    columns = world()
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=17)
    policy = np.tile([0.3, 0.7], (4, 1))

    def values(log: Any) -> dict[str, float]:
        return {name: est.value for name, est in dw.evaluate(log, policy).estimates.items()}

    log = dw.read(columns, fill_reward=0, open_episodes=choice, time_limit=limit)
    expected = values(log)
    assert bool(log.terminated.all()) == (choice == "zero" and limit is None)
    with open_log(
        tmp_path / "log.parquet", part_rows=50, mending=Mending(None, 0.0, choice), time_limit=limit
    ) as stream:
        assert len(stream) > 3
        found = values(stream)
        assert stream.time_limit == log.time_limit
        assert stream.census.terminated == int(log.terminated.sum())
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("blank", [None, float("nan")])
def test_blanks_are_mended_in_every_pass(tmp_path: Path, blank: float | None) -> None:
    columns = world()
    known = [blank if reward is None else reward for reward in columns["reward"]]
    table = pa.table({**columns, "reward": pa.array(known, pa.float64())})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=17)
    mean = sum(reward for reward in columns["reward"] if reward is not None) / len(known)
    stream = open_stream(tmp_path, part_rows=50, mending=Mending(None, 0.0, "cut"), time_limit=None)
    for _ in range(3):
        assert reduce_log(stream, mean_reward)[0].mean == pytest.approx(mean, rel=1e-12)


def test_where_an_open_episode_stops_says_nothing_of_a_time_limit() -> None:
    """The same limit is read off the log with its open episodes cut as off the log without them."""
    for seed in range(20):
        columns = world(seed)
        without = dw.read(columns, fill_reward=0, open_episodes="drop", time_limit=None)
        cut = dw.read(columns, fill_reward=0, open_episodes="cut", time_limit=None)
        assert inferred_limit(cut) == inferred_limit(without) == 6


def test_the_assumption_counts_only_those_at_the_limit() -> None:
    columns = world()
    lengths = np.bincount(columns["episode"])
    with pytest.warns(
        dw.errors.Assumption, match=rf"\b{(lengths == 6).sum()} of 80 stop after exactly 6 steps"
    ):
        dw.read(columns, fill_reward=0, open_episodes="cut")


@pytest.mark.parametrize("wrong", ["Cut", "keep", "", 0, True])
def test_what_can_be_said(wrong: Any) -> None:
    with pytest.raises(OptionError, match="open_episodes"):
        dw.read(COLUMNS, open_episodes=wrong)


COMMANDS = ("doctor", "evaluate", "compare", "improve", "states")


def command(verb: str, folder: Path, log: Path) -> list[str]:
    np.save(folder / "p.npy", POLICY)
    np.save(folder / "q.npy", np.array([[0.2, 0.8], [0.6, 0.4]]))
    target = ["--target", str(folder / "p.npy")]
    more = {
        "doctor": target,
        "evaluate": target,
        "compare": ["--target", f"p={folder / 'p.npy'}", "--target", f"q={folder / 'q.npy'}"],
        "improve": ["--out", str(folder / "policy.csv")],
        "states": target,
    }[verb]
    return [verb, str(log), *more]


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_asks_and_takes_the_answer(
    tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = world()
    columns["state"] = [s % 2 for s in columns["state"]]
    pd.DataFrame(columns).to_csv(tmp_path / "log.csv", index=False)
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=100)
    for log in (tmp_path / "log.csv", tmp_path / "log.parquet"):
        arguments = [*command(verb, tmp_path, log), "--fill-reward", "0"]
        assert run(arguments) == (1 if verb == "doctor" else 2)
        shown = capsys.readouterr()
        assert "blank in every row" in shown.out + shown.err
        assert "Traceback" not in shown.err
        for choice in ("cut", "drop", "zero"):
            closed = {0, 1} if verb == "improve" else {0}  # 1: nothing better was found
            assert run([*arguments, "--open", choice]) in closed, capsys.readouterr().err
            capsys.readouterr()
    assert run([*arguments, "--open", "keep"]) == 2
    assert "--open takes cut, drop or zero; found 'keep'" in capsys.readouterr().err


def test_the_doctor_prints_a_command_that_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sources(tmp_path)["csv"]
    arguments = ["doctor", str(path)]
    seen = []
    for _ in range(4):
        code = run(arguments)
        shown = capsys.readouterr().out
        if code == 0:
            break
        lines = [line for line in shown.splitlines() if line.startswith("  Run: ")]
        arguments = shlex.split(lines[0])[2:]
        seen.append(arguments[2:])
    assert code == 0
    assert seen == [["--open", "cut"], ["--fill-reward", "0", "--open", "cut"]]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("flag", [None, "terminated", "truncated"])
def test_a_mended_log_is_what_was_said(
    tmp_path: Path, choice: str, flag: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = dict(COLUMNS)
    if flag is not None:
        columns[flag] = [flag == "terminated" and i in (1, 3, 5, 8, 9) for i in range(10)]
    path, out = sources(tmp_path, columns)["csv"], tmp_path / "out.parquet"
    options = ["--fill-reward", "0", "--open", choice, "--time-limit", "none", "--fix", str(out), "--json"]
    assert run(["doctor", str(path), *options]) == 0
    changes = {one["code"]: one for one in json.loads(capsys.readouterr().out)["changes"]}
    assert changes["DW317"]["rows"] == 3
    assert changes["DW305"]["rows"] == 4
    assert rows(dw.read(out)) == CHOICES[choice]


def test_mending_does_not_say_what_nobody_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--fill-reward alone fills no open episode, and nothing in a log without any reward."""
    path, out = sources(tmp_path)["csv"], tmp_path / "out.parquet"
    assert run(["doctor", str(path), "--fill-reward", "0", "--fix", str(out), "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert {one["code"]: one["rows"] for one in shown["changes"] if one["code"]} == {"DW305": 4}
    assert [one["code"] for one in shown["left"]["findings"] if one["severity"] == "error"] == ["DW317"]
    table = pq.read_table(out)
    blank = {
        e for e, r in zip(*(table[n].to_pylist() for n in ("episode", "reward")), strict=True) if r is None
    }
    assert blank == {3, 5}
    (tmp_path / "none.csv").write_text("episode,step,state,action,reward\n1,0,0,0,\n2,0,0,1,\n")
    for said in ([], ["--fill-reward", "0"], ["--open", "zero"], ["--fill-reward", "0", "--open", "cut"]):
        assert run(["doctor", str(tmp_path / "none.csv"), *said, "--fix", str(out), "--json"]) == 1
        shown = json.loads(capsys.readouterr().out)
        assert not {"DW305", "DW317"} & {one["code"] for one in shown["changes"]}
        assert pq.read_table(out)["reward"].null_count == 2
    assert run(["doctor", str(tmp_path / "none.csv"), "--open", "zero"]) == 1
    assert (
        f"Run: deadweight doctor {tmp_path / 'none.csv'} --open zero --rows DW305" in capsys.readouterr().out
    )


def test_rows_count_on_over_episodes_that_are_left_out() -> None:
    """What is given for every row of the table fits a log without its open episodes."""
    table = {
        "episode": ["b", "b", "a", "c"],
        "step": [1, 0, 0, 0],
        "state": [0, 0, 0, 0],
        "action": [0, 1, 0, 1],
        "reward": [1.0, 0.0, None, 3.0],
        "terminated": [True, False, True, True],
    }
    log = dw.read(table, open_episodes="drop")
    assert log.rows is not None
    assert log.rows.tolist() == [1, 0, 3]
    pi_e = dw.RowPolicy([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.4, 0.6]])
    whole = dw.estimate("IS", log, pi_e, [[0.5, 0.5]], interval=None)
    kept = dw.RowPolicy([[0.1, 0.9], [0.2, 0.8], [0.4, 0.6]])  # the rows that are left, as in the table
    assert whole.value == dw.estimate("IS", log, kept, [[0.5, 0.5]], interval=None).value
    assert whole.value == pytest.approx((0.8 / 0.5 * 0.1 / 0.5 * 1.0 + 0.6 / 0.5 * 3.0) / 2, rel=1e-12)
