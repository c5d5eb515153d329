"""Memory and stream agree on what a log is: what one refuses the other does, with the same code."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stream.folders import opened, policies, table_of
from stream.id_kinds import can_be_written

import deadweight as dw
from deadweight.io.parquet import OutOfOrder
from deadweight.io.schema import LogProblem
from deadweight.io.stream import open_stream

TABLE = table_of(20, 6, truncated=True, propensities=True)
LAST = np.flatnonzero(np.diff(np.append(TABLE["episode"].to_numpy(), -1)))
PART_ROWS = (9, 40, 1_000)
MIDDLE = 37
LENGTHS = np.diff(LAST, prepend=-1)
INSIDE = int(LAST[np.flatnonzero(LENGTHS >= 3)[5]]) - 1


def outcome(log: Any) -> list[float]:
    found = dw.evaluate(log, None, None, ["IS", "WPDIS"], interval=None)
    return [found["IS"].value, found["WPDIS"].value, float(found["IS"].n_episodes)]


def put(column: str, value: Any, row: int = MIDDLE, kind: Any = None) -> pa.Table:
    """The table with one cell changed."""
    values = TABLE[column].to_pylist()
    values[row] = value
    return with_column(column, pa.array(values, kind))


def with_column(column: str, values: Any) -> pa.Table:
    return TABLE.set_column(TABLE.column_names.index(column), column, pa.array(values))


def both(table: pa.Table, tmp_path: Path) -> tuple[set[Any], set[Any]]:
    """What memory makes of a log, and what streams do: numbers to ten digits, or codes."""
    found: tuple[set[Any], set[Any]] = set(), set()
    for order in (np.arange(table.num_rows), np.random.default_rng(0).permutation(table.num_rows)):
        path = tmp_path / "log.parquet"
        pq.write_table(table.take(order), path, row_group_size=12)
        for part_rows in (None, *PART_ROWS):
            try:
                log = (
                    outcome(dw.read(path))
                    if part_rows is None
                    else opened(path, outcome, part_rows=part_rows)
                )
                result: Any = tuple(f"{number:.9e}" for number in log)
            except LogProblem as problem:
                result = problem.code
            found[part_rows is not None].add(result)
    return found


REFUSED = {
    "DW302": put("state", None),
    "DW303": put("action", None),
    "DW304": put("step", None),
    "DW305": put("reward", float("nan")),
    "DW307": with_column("reward", ["x"] * TABLE.num_rows),
    "DW308": put("reward", 1e200),
    "DW311": with_column("state", [[1]] * TABLE.num_rows),
    "DW312": with_column("terminated", ["maybe"] * TABLE.num_rows),
    "DW313": with_column("state", pa.array([f"0.{'1' * 30}"] * TABLE.num_rows).cast(pa.decimal128(38, 31))),
    "DW225": put("terminated", True, INSIDE),
    "DW226": TABLE.append_column("truncated", pa.array(np.arange(TABLE.num_rows) == INSIDE)),
    "DW204": with_column("next_state", ["x"] * TABLE.num_rows),
    "DW402": put("behaviour_prob", None),
    "DW406": put("behaviour_prob", 1e-200),
    "DW412": put("target_prob", float("nan")),
}


@pytest.mark.parametrize("code", REFUSED)
def test_the_same_refusals(code: str, tmp_path: Path) -> None:
    assert both(REFUSED[code], tmp_path) == ({code}, {code})


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int8(), pa.string()], ids=str)
def test_a_flag_that_stands_in_all_rows_of_its_episodes_is_that_of_the_episode(
    kind: pa.DataType, tmp_path: Path
) -> None:
    ended = np.repeat(TABLE["terminated"].to_numpy()[LAST], LENGTHS)
    assert len({True, False} & {*ended.tolist()}) == 2
    repeated = with_column("terminated", pa.array(ended).cast(kind))
    assert both(repeated, tmp_path) == both(TABLE, tmp_path)


def test_infinite_and_subnormal_numbers(tmp_path: Path) -> None:
    assert both(put("reward", float("-inf")), tmp_path) == ({"DW308"}, {"DW308"})
    assert both(put("behaviour_prob", 5e-324), tmp_path) == ({"DW406"}, {"DW406"})


def test_a_step_that_stands_twice(tmp_path: Path) -> None:
    episode = TABLE["episode"].to_numpy()
    row = int(np.flatnonzero(episode[1:] == episode[:-1])[9])
    memory, stream = both(put("step", TABLE["step"][row].as_py(), row + 1), tmp_path)
    assert memory == stream
    assert memory <= {"DW201", "DW203"}


STATES = TABLE["state"].to_numpy()
KINDS_OF_STATES = {
    "whole in one part and not in another": np.where(np.arange(len(STATES)) < 30, STATES, STATES + 0.5),
    "one fraction": np.where(np.arange(len(STATES)) == MIDDLE, 0.25, STATES),
    "large floats": STATES * 2.0**52,
    "uint64": STATES.astype(np.uint64) * np.uint64(2**61) + np.uint64(2**62),
    "with -1": STATES - 1,
    "durations": STATES.astype("timedelta64[s]"),
    "decimals": pa.array(STATES / 4).cast(pa.decimal128(10, 2)),
    "decimals of 20 digits": pa.array([str(10**20 * (s % 2) + s) for s in STATES.tolist()]).cast(
        pa.decimal128(38, 0)
    ),
    "views": pa.array([f"s{s}" for s in STATES], pa.string_view()),
    "categories": pa.array([f"s{s}" for s in STATES]).dictionary_encode(),
    "bytes": pa.array([bytes([250 + s]) for s in STATES.tolist()]),
}


@pytest.mark.parametrize(
    "kind", [k for k, states in KINDS_OF_STATES.items() if can_be_written(pa.array(states))]
)
def test_the_same_labels(kind: str, tmp_path: Path) -> None:
    table = with_column("state", KINDS_OF_STATES[kind]).drop_columns("next_state")
    path = tmp_path / "log.parquet"
    pq.write_table(table, path, row_group_size=12)
    memory = dw.read(path)
    assert len(np.unique(memory.states)) == len(set(table["state"].to_pylist()))
    for part_rows in (9, 40):
        stream = open_stream(path, part_rows=part_rows)
        assert len(stream) > 1
        assert stream.state_labels.tolist() == memory.state_labels.tolist()
        assert [type(label) for label in stream.state_labels] == [
            type(label) for label in memory.state_labels
        ]
        np.testing.assert_array_equal(np.concatenate([part.states for part in stream]), memory.states)


def test_minus_one_is_a_state_of_all_parts_where_it_is_one_in_any(tmp_path: Path) -> None:
    """A successor of -1 is unknown, unless some episode visits -1."""
    ended = TABLE["terminated"].to_numpy(zero_copy_only=False)
    cut = LAST[~ended[LAST]][-1]
    following = np.append(STATES[1:], 0)
    following[LAST] = 2
    following[cut] = -1
    for visited in (False, True):
        states = STATES.copy()
        if visited:
            states[0], following[0] = -1, STATES[1]
        table = with_column("state", states).drop_columns("next_state")
        path = tmp_path / f"{visited}.parquet"
        pq.write_table(table.append_column("next_state", pa.array(following)), path, row_group_size=12)
        memory, stream = dw.read(path), open_stream(path, part_rows=9)
        successors = np.concatenate([part._last_successor for part in stream])
        np.testing.assert_array_equal(successors, memory._last_successor)
        found = memory._last_successor[np.searchsorted(LAST, cut)]
        assert (found >= 0) == visited
        assert not visited or memory.state_labels[found] == -1


# --- footers ---------------------------------------------------------------------------------------------

FIRST = 7_000_001


def lie(path: Path, truth: int, claim: int) -> None:
    """Replace a number in the statistics of a file's footer."""
    body, footer = _footer(path)
    old, new = struct.pack("<q", truth), struct.pack("<q", claim)
    assert old in footer
    path.write_bytes(body + footer.replace(old, new) + struct.pack("<I", len(footer)) + b"PAR1")


def _footer(path: Path) -> tuple[bytes, bytes]:
    content = path.read_bytes()
    length = struct.unpack("<I", content[-8:-4])[0]
    return content[: -8 - length], content[-8 - length : -8]


def big_ids(group_rows: int, tmp_path: Path) -> Path:
    """A log whose ids and states are easy to find in a footer."""
    table = table_of(30, 4, fixed=True)
    ids = pa.array(FIRST + table["episode"].to_numpy() // 3)
    path = tmp_path / "log.parquet"
    pq.write_table(table.set_column(0, "episode", ids), path, row_group_size=group_rows, compression=None)
    return path


def values(log: Any) -> list[float]:
    found = dw.evaluate(log, *policies(), ["IS", "WPDIS"], interval=None)
    return [found["IS"].value, found["WPDIS"].value, float(found["IS"].n_episodes), float(log.n_states)]


LIES = [
    (FIRST, FIRST - 50),  # too low: harmless
    (FIRST + 14, FIRST + 9),  # the largest id of a row group, said to be smaller
    (FIRST + 14, FIRST + 17),  # and to be larger, so that row groups seem to overlap
    (FIRST + 29, FIRST + 60),
    (FIRST + 15, FIRST + 16),  # the smallest, so that a part seems to begin later
]


@pytest.mark.parametrize(
    ("group_rows", "truth", "claim"),
    [
        *((rows, *lie) for rows in (10, 12) for lie in LIES),
        (10, FIRST + 7, FIRST + 6),  # an episode that goes on from one row group to the next
    ],
)
def test_a_footer_that_lies_about_ids(group_rows: int, truth: int, claim: int, tmp_path: Path) -> None:
    path = big_ids(group_rows, tmp_path)
    expected = values(dw.read(path))
    lie(path, truth, claim)
    np.testing.assert_allclose(values(dw.read(path)), expected, rtol=1e-10)
    for part_rows in (12, 24, 1_000):
        found = opened(path, values, part_rows=part_rows)
        np.testing.assert_allclose(found, expected, rtol=1e-10, err_msg=str(part_rows))


def test_a_row_group_that_is_said_to_have_one_episode_only(tmp_path: Path) -> None:
    """It would be read as the rest of that episode, and what else is in it by nobody."""
    table = table_of(6, 10, fixed=True)
    ids = pa.array(FIRST + table["episode"].to_numpy() // 3)
    path = tmp_path / "log.parquet"
    pq.write_table(table.set_column(0, "episode", ids), path, row_group_size=5, compression=None)
    expected = values(dw.read(path))
    lie(path, FIRST + 3, FIRST + 2)
    np.testing.assert_allclose(opened(path, values, part_rows=5), expected, rtol=1e-10)
    with pytest.raises(OutOfOrder, match="must say what its rows say"):
        values(open_stream(path, part_rows=5))


@pytest.mark.parametrize("claim", [3, 900])
def test_a_footer_that_lies_about_states(claim: int, tmp_path: Path) -> None:
    table = table_of(30, 4, fixed=True)
    states = table["state"].to_numpy().copy()
    states[::5] = 357
    path = tmp_path / "log.parquet"
    table = table.set_column(2, "state", pa.array(states))
    pq.write_table(table, path, row_group_size=20, compression=None)
    pi = np.full((400, 3), 1 / 3)

    def numbers(log: Any) -> list[float]:
        return [dw.estimate("IS", log, pi, pi, interval=None).value, float(log.n_states)]

    expected = numbers(dw.read(path))
    lie(path, 357, claim)
    np.testing.assert_allclose(opened(path, numbers, part_rows=20), expected, rtol=1e-10)
    with pytest.raises(OutOfOrder, match="must say what its rows say"):
        numbers(open_stream(path, part_rows=20))


@pytest.mark.parametrize("all_of_it", [False, True], ids=["a row group", "and the file"])
@pytest.mark.parametrize("claim", [20, 30, 0])
def test_a_footer_that_lies_about_the_number_of_rows(claim: int, all_of_it: bool, tmp_path: Path) -> None:
    """Readers believe it, and leave rows out without a word."""
    path = tmp_path / "log.parquet"
    pq.write_table(table_of(10, 5, fixed=True), path, row_group_size=25, compression=None)
    body, footer = _footer(path)
    if all_of_it:
        footer = footer.replace(_counter(50), _counter(25 + claim), 1)
    lies = 0
    for i in range(len(footer) - 1):
        if footer[i : i + 2] == _counter(25):
            other = tmp_path / f"{i}.parquet"
            changed = footer[:i] + _counter(claim) + footer[i + 2 :]
            other.write_bytes(body + changed + struct.pack("<I", len(footer)) + b"PAR1")
            metadata = pq.read_metadata(other)
            if metadata.row_group(0).num_rows == claim:
                assert metadata.num_rows == (25 + claim if all_of_it else 50)
                lies += 1
                for read in (dw.read, lambda path: opened(path, values, part_rows=25)):
                    with pytest.raises(LogProblem, match="damaged: its footer says") as caught:
                        read(other)
                    assert caught.value.code == "DW102"
    assert lies == 1


def _counter(number: int) -> bytes:
    """A 64-bit field of Thrift's compact protocol: zigzag, here of one byte."""
    return bytes([0x16, 2 * number])


# --- several files ---------------------------------------------------------------------------------------


def test_text_in_one_file_and_numbers_in_another_do_not_fit(tmp_path: Path) -> None:
    """'01' must not become 1 because another file has numbers."""
    table = table_of(6)
    pq.write_table(table, tmp_path / "a.parquet")
    text = pa.array([f"0{s}" for s in table["state"].to_pylist()])
    pq.write_table(table.set_column(2, "state", text), tmp_path / "b.parquet")
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for source in (tmp_path, files):
        for read in (dw.read, open_stream):
            with pytest.raises(LogProblem, match="do not fit together"):
                read(source)


def test_columns_that_only_a_later_source_has(tmp_path: Path) -> None:
    """Sources one below the other have the columns of all, in memory and as a stream."""
    table = table_of(20, propensities=True)
    early = table.slice(0, 40).drop_columns("behaviour_prob")
    pq.write_table(early, tmp_path / "a.parquet")
    pq.write_table(table.slice(40), tmp_path / "b.parquet")
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for read in (dw.read, lambda source: opened(source, outcome, part_rows=30)):
        with pytest.raises(LogProblem, match="DW402"):
            read(files)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("reward", np.inf, "DW308"),
        ("reward", -np.inf, "DW308"),
        ("behaviour_prob", 0.0, "DW406"),
        ("reward", 2.5, None),
        ("behaviour_prob", 0.25, None),
    ],
)
def test_numbers_of_every_precision(
    column: str, value: float, code: str | None, kind: Any, tmp_path: Path
) -> None:
    """In the precision of the column the largest reward was infinite, and the least probability 0."""
    rounded = np.float16(
        TABLE[column].to_numpy()
    )  # in order of episodes and steps, as the quickest way takes it
    rounded[MIDDLE] = value
    table = with_column(column, rounded.astype(kind.to_pandas_dtype()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory, stream = both(table, tmp_path)
    assert memory == stream
    assert memory == {code} if code else len(memory) == 1


def test_whole_rewards_without_a_sign(tmp_path: Path) -> None:
    table = with_column("reward", np.arange(5, 5 + TABLE.num_rows, dtype=np.uint8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory, stream = both(table, tmp_path)
    assert memory == stream
