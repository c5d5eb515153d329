"""Tables as they come: dates, blank rewards, folders of CSV, compressed files and pipes give the same log."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deadweight as dw
from deadweight.errors import DataError, OptionError, PolicyError
from deadweight.io.schema import Mending, fitting_formats
from deadweight.io.stream import open_stream

EPISODE = ["b", "b", "a", "c", "c", "c"]
WHEN = [
    "02.01.2026 08:00",
    "31.12.2025 08:00",
    "31.12.2025 08:00",
    "03.01.2026 00:30",
    "31.12.2025 23:00",
    "01.01.2026 07:00",
]
FORM = "%d.%m.%Y %H:%M"
REWARD = [2.0, None, 3.0, 6.0, None, 5.0]
COLUMNS = {
    "episode": EPISODE,
    "step": WHEN,
    "state": ["icu", "ward", "ward", "icu", "home", "ward"],
    "action": [1, 0, 1, 1, 0, 0],
    "reward": REWARD,
}


def check(log) -> None:
    assert log.offsets.tolist() == [0, 1, 3, 6]
    assert [log.state_labels[s] for s in log.states] == ["ward", "ward", "icu", "home", "ward", "icu"]
    assert log.rewards.tolist() == [3, 0, 2, 0, 5, 6]


def csv_text(rows=range(6)) -> str:
    lines = [",".join(COLUMNS)]
    lines += [",".join("" if v[i] is None else str(v[i]) for v in COLUMNS.values()) for i in rows]
    return "\n".join(lines) + "\n"


def said(source):
    return dw.read(source, time_format=FORM, fill_reward=0)


def test_a_dict_with_dates_and_blanks():
    check(said(COLUMNS))


def test_a_csv_file(tmp_path: Path):
    (tmp_path / "log.csv").write_text(csv_text())
    check(said(tmp_path / "log.csv"))


def test_a_compressed_csv_file(tmp_path: Path):
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(csv_text().encode()))
    check(said(tmp_path / "log.csv.gz"))


def test_a_folder_of_csv_files(tmp_path: Path):
    (tmp_path / "b.csv").write_text(csv_text([0, 3]))
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "a.csv.gz").write_bytes(gzip.compress(csv_text([1, 2, 4, 5]).encode()))
    (tmp_path / "notes.txt").write_text("Ask the ward about March.\n")
    check(said(tmp_path))
    check(said(str(tmp_path)))


def test_a_folder_with_parquet_is_that_parquet(tmp_path: Path):
    pq.write_table(pa.table(COLUMNS), tmp_path / "log.parquet")
    (tmp_path / "index.csv").write_text("file\nlog.parquet\n")
    check(said(tmp_path))


@pytest.mark.parametrize("kind", ["csv", "gzip", "parquet"])
def test_standard_input(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pq.write_table(pa.table(COLUMNS), tmp_path / "log.parquet")
    text = csv_text().encode()
    given = {"csv": text, "gzip": gzip.compress(text), "parquet": (tmp_path / "log.parquet").read_bytes()}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given[kind])))
    check(said("-"))


def test_errors_name_standard_input_and_not_a_temporary_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    with pytest.raises(DataError, match=r"(?i)standard input needs the columns") as caught:
        dw.read("-")
    assert "deadweight-" not in str(caught.value)
    for nothing in (io.TextIOWrapper(io.BytesIO(b"")), None):
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(DataError, match="nothing came"):
            dw.read("-")


def test_a_stream_is_mended_like_a_log_in_memory(tmp_path: Path):
    table = pa.table(COLUMNS).sort_by("episode")
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=2)
    stream = open_stream(tmp_path, part_rows=2, mending=Mending(FORM, 0.0), time_limit=None)
    assert len(stream) > 1
    rewards = np.concatenate([stream[i].rewards for i in range(len(stream))])
    assert rewards.tolist() == [3, 0, 2, 0, 5, 6]


def test_a_scattered_stream_is_mended_as_well(tmp_path: Path):
    shuffled = pa.table(COLUMNS).take([5, 0, 3, 2, 1, 4])
    pq.write_table(shuffled, tmp_path / "log.parquet", row_group_size=2)
    stream = open_stream(tmp_path, part_rows=2, mending=Mending(FORM, 0.0), time_limit=None)
    assert sum(log.rewards.sum() for log in stream[:]) == 16


@pytest.mark.parametrize(
    "when", [["2025-12-31 08:00", "2026-01-01T07:00"], ["2025-12-31T08:00:00Z", "2025-12-31T09:00:00+00:00"]]
)
def test_iso_dates_need_no_format(when: list[str]):
    log = dw.read(
        {"episode": [1, 1], "step": when[::-1], "state": [1, 0], "action": [0, 0], "reward": [2, 1]}
    )
    assert log.rewards.tolist() == [1, 2]


def test_dates_of_another_kind_are_refused_with_the_format_that_fits():
    with pytest.raises(DataError, match=r"--time-format '%d.%m.%Y %H:%M'"):
        dw.read(COLUMNS, fill_reward=0)
    both = {**COLUMNS, "step": [f"0{1 + i}/0{6 - i}/2026" for i in range(6)]}
    with pytest.raises(DataError, match=r"'%d/%m/%Y' or --time-format '%m/%d/%Y'\. Which comes first"):
        dw.read(both, fill_reward=0)


def test_a_format_that_does_not_fit_names_the_row():
    with pytest.raises(DataError, match=r"'%Y-%m-%d' does not fit '02.01.2026 08:00' in row 0.*It could be"):
        dw.read(COLUMNS, time_format="%Y-%m-%d", fill_reward=0)
    with pytest.raises(OptionError, match="where day, month and hour stand"):
        dw.read(COLUMNS, time_format="day.month")


def test_blank_rewards_are_refused_with_the_option():
    with pytest.raises(DataError, match="--fill-reward 0"):
        dw.read(COLUMNS, time_format=FORM)
    with pytest.raises(OptionError, match="finite"):
        dw.read(COLUMNS, fill_reward=float("nan"))


def test_a_word_among_rewards_is_not_filled():
    with pytest.raises(DataError, match="DW307"):
        said({**COLUMNS, "reward": ["2", "", "many", "6", "", "5"]})
    check(said({**COLUMNS, "reward": ["2", "", "3", "6", "NA", "5"]}))


def test_formats_are_those_that_fit_all_cells():
    assert fitting_formats(pa.array(["31/12/2025", "13/01/2025"])) == ["%d/%m/%Y"]
    assert fitting_formats(pa.array(["31/12/2025", "soon"])) == []
    assert fitting_formats(pa.array([1, 2])) == []


def test_percent_signs_and_decimal_commas_are_read_where_there_is_no_doubt(tmp_path: Path):
    rows = ["episode;step;state;action;reward;behaviour_prob", "1;0;a;x;0,75;50%", "1;1;b;y;-1,125;12,5 %"]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    log = dw.read(tmp_path / "log.csv", time_limit=None)
    assert log.rewards.tolist() == [0.75, -1.125]
    assert log.propensities.tolist() == [0.5, 0.125]


@pytest.mark.parametrize("cells", [["1,234", "2,500"], ["1.5", "0,5"], ["1.234,5", "2,5"], ["1,5,5", "0,5"]])
def test_numbers_that_could_be_two_are_refused(cells: list[str]):
    """A comma before three digits may stand between thousands, and one beside points is no decimal comma."""
    table = {"episode": [1, 1], "step": [0, 1], "state": [0, 0], "action": [0, 0], "reward": cells}
    with pytest.raises(DataError, match="DW307"):
        dw.read(table)


def test_a_policy_in_percent(tmp_path: Path):
    (tmp_path / "policy.csv").write_text("state,action,prob\na,x,80%\na,y,20%\nb,y,1\n")
    assert dw.read_policy(tmp_path / "policy.csv").probs.tolist() == [[0.8, 0.2], [0.0, 1.0]]
    (tmp_path / "policy.csv").write_text("state,action,prob\na,x,often\n")
    with pytest.raises(PolicyError, match=r"has 'often'(?s:.*)such as 0\.25 or 25%"):
        dw.read_policy(tmp_path / "policy.csv")


def test_a_policy_may_call_things_as_the_log_does(tmp_path: Path):
    plan = tmp_path / "plan.csv"
    plan.write_text("segment,offer,prob\nnew,mail,1\nlapsed,coupon,1\n")
    names = {"state": "segment", "action": "offer", "reward": "spent"}
    policy = dw.read_policy(plan, log_columns=names)
    assert policy.state_labels.tolist() == ["lapsed", "new"]
    with pytest.raises(DataError, match=r"missing: state, action(?s:.*)that --columns gives them"):
        dw.read_policy(plan)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_what_spreadsheets_save_is_read(tmp_path, encoding):
    """With a byte order mark and semicolons, blank lines at the end, accents and decimal commas."""
    lines = [
        "episode;step;state;action;reward",
        "1;0;fiévreux;soigner;0,5",
        "1;1;stable;attendre;1,5",
        "",
        "",
    ]
    text = "\r\n".join(lines)
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    (tmp_path / "log.csv").write_bytes((mark + text).encode(encoding))
    log = dw.read(tmp_path / "log.csv")
    assert list(log.state_labels) == ["fiévreux", "stable"]
    assert log.rewards.tolist() == [0.5, 1.5]


def test_what_spreadsheets_put_around_a_table_is_left_out(tmp_path):
    """A line that names the delimiter, blanks and capitals in the header, rows of nothing but delimiters."""
    lines = ["sep=;", " Episode ; Step;State;Action;Reward", "1;0;a;x;1", "1;1;;x;2", ";;;;", ";;;;"]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = dw.doctor(tmp_path / "log.csv", fill_reward=0)
    assert [one.code for one in found.errors] == ["DW302"], "a row with something in it stays"
    assert found.size["row"] == 2
    lines[3] = "1;1;b;x;2"
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert dw.read(tmp_path / "log.csv", {"state": "state"}).rewards.tolist() == [1, 2]


def test_another_encoding_is_named(tmp_path):
    (tmp_path / "log.csv").write_bytes(
        "episode,step,state,action,reward\n1,0,fiévreux,a,1\n".encode("cp1252")
    )
    with pytest.raises(DataError, match="save it as 'CSV UTF-8'"):
        dw.read(tmp_path / "log.csv")


def test_whole_numbers_of_128_bits_stay_apart():
    """Arrow has no such type, and floats merge neighbours beyond 2^53: four episodes were three."""
    pl = pytest.importorskip("polars")
    if not hasattr(pl, "Int128"):
        pytest.skip("this version of polars has no such type")
    ids = [2**53 + i for i in range(4)]
    columns = {"step": [0, 1, 0, 1], "action": [0] * 4, "reward": [1.0, 2.0, 3.0, 4.0]}
    wide = pl.Series(ids).cast(pl.Int128)
    log = dw.read(pl.DataFrame({"episode": wide, "state": wide, **columns}), time_limit=None)
    assert log.n_episodes == 4
    assert log.state_labels.tolist() == ids
    holes = pl.DataFrame({"episode": wide, "state": wide, **columns}).with_columns(
        next_state=pl.Series([None, ids[3] + 2, None, ids[3] + 1]).cast(pl.Int128), truncated=pl.lit(True)
    )
    assert dw.read(holes).state_labels.tolist() == [*ids, ids[3] + 1, ids[3] + 2]
