"""Labels of CSV files stay what is written: numbers only where every cell reads back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deadweight as dw
from deadweight.errors import PolicyError
from deadweight.io.files import as_numbers
from deadweight.io.open import read
from deadweight.io.policy_files import read_policy
from deadweight.io.schema import LogProblem

TWINS = [("01", "1"), ("0x10", "16"), ("12:00", "12:00:00"), ("true", "True"), ("1", "1.0"), ("1e1", "10"),
         ("12345678901234567890", "12345678901234567891"), ("9007199254740992.5", "9007199254740993.5"),
         ("-0", "0"), ("2020-01-01", "2020-01-01 00:00:00"), ("+1", "1"), ("NaN", "nan"), ("0.10", "0.1"),
         ("1", " 1")]  # fmt: skip

NEXT = "episode,step,state,action,reward,next_state,truncated"


def written(path: Path, lines: list[str], header: str = "episode,step,state,action,reward") -> Path:
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.mark.parametrize("twins", TWINS)
def test_two_ways_to_write_are_two_labels(twins: tuple[str, str], tmp_path: Path) -> None:
    one, other = twins
    lines = [f"{one},0,a,b,1", f"{other},0,a,b,3"]
    assert read(written(tmp_path / "episodes.csv", lines)).n_episodes == 2
    lines = [f"1,0,{one},{other},1", f"1,1,{other},{one},3"]
    log = read(written(tmp_path / "log.csv", lines))
    assert log.state_labels.tolist() == log.action_labels.tolist() == sorted(twins)
    policy = read_policy(
        written(tmp_path / "pi.csv", [f"{one},{other},1", f"{other},{one},1"], "state,action,prob")
    )
    assert sorted(policy.state_labels) == sorted(twins)
    assert dw.estimate("IS", log, policy, policy, interval=None).value == 4.0


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["1", "2", "10"], list(range(11))),
        (["-3", "7"], [-3, 7]),
        (["1.0", "2.0"], [0, 1, 2]),
        (["0.5", "1"], [0.5, 1.0]),
        (["0.5", "1.0"], [0.5, 1.0]),
        (["1e-07", "2.5"], [1e-07, 2.5]),
        (["9223372036854775807", "1"], [1, 2**63 - 1]),
        (["9223372036854775808", "1"], ["1", "9223372036854775808"]),
        (["true", "false"], ["false", "true"]),
        (["007", "8"], ["007", "8"]),
    ],
)
def test_numbers_and_text(cells: list[str], labels: list[Any], tmp_path: Path) -> None:
    log = read(written(tmp_path / "log.csv", [f"1,{i},{cell},0,1" for i, cell in enumerate(cells)]))
    assert log.state_labels.tolist() == labels


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False).map(repr),
    st.integers(0, 30).map("{:02d}".format),
    st.sampled_from(["1", "1.0", "01", "1e0", "-0", "0", "0x1", "", "x"]),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(cells=st.lists(NUMBERS, min_size=1, max_size=4))
def test_cells_that_differ_never_become_one_number(cells: list[str]) -> None:
    numbers = as_numbers(pa.chunked_array([cells]))
    if numbers is not None:
        assert len(set(numbers.to_pylist())) == len(set(cells))
        assert [float(cell) for cell in cells] == [float(number) for number in numbers.to_pylist()]


def test_a_column_is_typed_over_all_files(tmp_path: Path) -> None:
    """A first file of 1 and 2 does not make 01 in the second a number."""
    files = [
        written(tmp_path / "a.csv", ["1,0,1,0,1", "1,1,2,0,1"]),
        written(tmp_path / "b.csv", ["2,0,01,0,1", "2,1,2,0,1"]),
    ]
    assert read(files).state_labels.tolist() == ["01", "1", "2"]
    assert read(files).action_labels.tolist() == [0]


def test_files_with_other_columns_and_other_kinds_of_steps(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a.csv", ["1,0,1,0,1,2,0", "1,1,2,0,1,01,1"], NEXT),
        written(tmp_path / "b.csv", ["2,0.5,1,0,1", "2,1.25,2,0,1"]),
    ]
    for order in (files, files[::-1]):
        log = read(order)
        assert log.state_labels.tolist() == ["01", "1", "2"]
        assert log.n_episodes == 2


def test_a_label_after_the_first_megabyte(tmp_path: Path) -> None:
    lines = [f"{i},0,{i % 5},0,1" for i in range(120_000)]
    log = read(written(tmp_path / "log.csv", [*lines, "120000,0,03,0,1"]))
    assert log.state_labels.tolist() == ["0", "03", "1", "2", "3", "4"]


# --- next_state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "following", "found"),
    [
        (["01", "02"], ["02", "-1"], None),  # -1 among text is nothing as well
        (["01", "02"], ["02", "01"], "01"),
        (["1", "2"], ["2", "NA"], None),
        (["1", "2"], ["2.0", "1.0"], 1),
        (["1", "-1"], ["-1", "-1"], -1),
        (["a", "-1"], ["-1", "-1"], "-1"),
        (["1", "2"], ["2", "-1"], None),
        (["1", "2"], ["", "1"], 1),
        (["0.5", "1.5"], ["1.5", "1"], 1.0),
    ],
)
def test_what_follows_a_cut_episode(
    states: list[str], following: list[str], found: Any, tmp_path: Path
) -> None:
    lines = [f"1,{i},{s},0,1,{f},{i}" for i, (s, f) in enumerate(zip(states, following, strict=True))]
    log = read(written(tmp_path / "log.csv", lines, NEXT))
    last = log.next_states[-1]
    assert (None if last < 0 else log.state_labels[last]) == found


def test_next_states_are_compared_as_they_are_written(tmp_path: Path) -> None:
    lines = ["1,0,1,0,1,02,0", "1,1,2,0,1,,1"]
    with pytest.raises(LogProblem, match="DW205"):
        read(written(tmp_path / "log.csv", lines, NEXT))
    with pytest.raises(LogProblem, match="DW205"):
        # -1 is a state here, so that it must be the one that follows.
        read(written(tmp_path / "log.csv", ["1,0,-1,0,1,-1,0", "1,1,2,0,1,,1"], NEXT))


def test_minus_one_in_lists() -> None:
    columns: dict[str, Any] = {"actions": [0, 0], "rewards": [0.0, 1.0], "offsets": [0, 2]}
    cut = dw.Trajectories([3, 4], **columns, terminated=[False], next_states=[4, -1])
    assert cut.next_states.tolist() == [4, -1]
    state = dw.Trajectories([-1, 4], **columns, terminated=[False], next_states=[4, -1])
    assert state.state_labels[state.next_states[-1]] == -1


# --- a policy beside a log -------------------------------------------------------------------------------


def both(log: list[str], policy: list[str], tmp_path: Path) -> float:
    read_log = read(written(tmp_path / "log.csv", log))
    pi = read_policy(written(tmp_path / "pi.csv", policy, "state,action,prob"))
    return dw.estimate("IS", read_log, pi, pi, interval=None).value


def test_a_policy_that_knows_more_or_fewer_labels_is_matched_as_written(tmp_path: Path) -> None:
    """One file has an x and is text; the other has not and is numbers."""
    numbers, text = ["1,0,1,0,1", "1,1,2,0,3"], ["1,0,1,0,1", "1,1,x,0,3"]
    assert both(numbers, ["1,0,1", "2,0,1", "x,0,1"], tmp_path) == 4
    assert both(text, ["1,0,1", "x,0,1", "2,0,1"], tmp_path) == 4
    assert both(["1,0,0,1,1", "1,1,0,x,3"], ["0,1,0.5", "0,x,0.5"], tmp_path) == 4
    assert both(["1,0,0,1,1", "1,1,0,2,3"], ["0,1,0.5", "0,2,0.25", "0,x,0.25"], tmp_path) == 4
    with pytest.raises(PolicyError, match=r"none for states 01, 02.*as they are written"):
        both(["1,0,01,0,1", "1,1,02,0,3"], ["1,0,1", "2,0,1"], tmp_path)
    with pytest.raises(PolicyError, match="none for states 1, 2"):
        both(numbers, ["01,0,1", "02,0,1"], tmp_path)


def test_typed_flags_match_their_names(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"episode": 1, "step": [0, 1], "state": 0, "action": [True, False], "reward": [1.0, 3.0]}
    )
    pi = read_policy(written(tmp_path / "pi.csv", ["0,true,0.5", "0,false,0.5"], "state,action,prob"))
    assert dw.estimate("IS", read(table), pi, pi, interval=None).value == 4.0


def test_one_label_twice_is_ambiguous() -> None:
    log = dw.Trajectories.from_episodes([[("1", 0, 1.0)]])
    policy = dw.TabularPolicy([[1.0], [1.0]], states=["1", 1], actions=[0])
    with pytest.raises(PolicyError, match="twice, as a number and as text"):
        dw.estimate("IS", log, policy, policy)


# --- steps -----------------------------------------------------------------------------------------------

NANOSECONDS = [1_700_000_000_000_000_002, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001]
LARGE = [2**64 - 1, 2**64 - 3, 2**64 - 2]


@pytest.mark.parametrize(
    "steps",
    [
        pa.array(NANOSECONDS, pa.uint64()),
        pa.array(LARGE, pa.uint64()),
        pa.array([str(step) for step in NANOSECONDS]),
        pa.array([str(step) for step in LARGE]),
        pa.array([f" {step}" for step in LARGE]),
        pa.array([str(step) for step in NANOSECONDS]).cast(pa.decimal128(38, 9)),
        pa.array([str(step) for step in LARGE]).cast(pa.decimal128(38, 0)),
        pa.array([f"1700000000.00000000{i}" for i in (3, 1, 2)]),
        pa.array([f"5.00000000000000000{i}" for i in (2, 0, 1)]).cast(pa.decimal128(38, 18)),
        pa.array([f"2020-01-01T00:00:00.00000000{i}" for i in (3, 1, 2)]),
    ],
    ids=str,
)
def test_steps_beyond_the_digits_of_floats(steps: pa.Array) -> None:
    log = read(
        {"episode": [1, 1, 1], "step": steps, "state": [3, 1, 2], "action": [0] * 3, "reward": [0] * 3}
    )
    assert log.states.tolist() == [1, 2, 3]


def test_steps_of_a_csv_beyond_64_bits(tmp_path: Path) -> None:
    lines = [f"1,{step},{i},0,1" for step, i in zip(LARGE, (3, 1, 2), strict=True)]
    assert read(written(tmp_path / "log.csv", lines)).states.tolist() == [1, 2, 3]
    with pytest.raises(LogProblem, match="DW20"):
        read(written(tmp_path / "log.csv", [*lines, f"1,{LARGE[0]},5,0,1"]))


def test_large_labels_in_arrays() -> None:
    """Whole numbers beyond 64 bits are labels, not numbers that wrap around."""
    states = np.array([2**63 + 1, 5], dtype=np.uint64)
    for column in (states, [2**70, 5]):
        log = dw.Trajectories(column, [0, 0], [0.0, 0.0], [0, 2])
        assert log.state_labels.tolist() == [5, int(column[0])]
