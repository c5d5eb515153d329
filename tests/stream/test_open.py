"""The front door: what is settled before a log is used, and the same for library and command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stream.folders import policies, table_of, write
from stream.test_refusals import lie
from typer.testing import CliRunner

import deadweight as dw
from deadweight.cli import request
from deadweight.cli.app import app
from deadweight.io import open as front_door
from deadweight.io import stream as footer_check
from deadweight.io.doctor import examine_part
from deadweight.io.open import open_log
from deadweight.io.table import LogTable


def with_gaps(folder: Path) -> Path:
    """A log whose episodes lack their second step."""
    table = table_of(30, 6, fixed=True, propensities=True)
    return write(folder, table.filter(np.asarray(table["step"]) != 1))


def test_a_function_that_drops_runs_once_though_the_footers_lie(tmp_path: Path) -> None:
    table = table_of(30, 4, fixed=True)
    states = table["state"].to_numpy().copy()
    states[::5] = 357
    path = tmp_path / "log.parquet"
    pq.write_table(table.set_column(2, "state", pa.array(states)), path, row_group_size=20, compression=None)
    pi_e, pi_b = np.tile([0.2, 0.3, 0.5], (400, 1)), np.full((400, 3), 1 / 3)
    calls: list[int] = []

    def chosen(question: Any) -> list[int]:
        calls.append(question.n)
        return [357]

    def value(log: Any) -> float:
        return dw.estimate("SIS", log, pi_e, pi_b, drop=chosen, interval=None).value

    expected = value(dw.read(path))
    lie(path, 357, 3)
    with open_log(path, part_rows=20) as log:
        assert value(log) == pytest.approx(expected, rel=1e-10)
    assert calls == [30, 30], "once in memory, once on the stream"


def test_footers_are_looked_at_again_only_if_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet"
    looked: list[int] = []
    look = footer_check.FooterWork

    def counted(files: Any, parts: Any) -> Any:
        looked.append(len(parts))
        return look(files, parts)

    monkeypatch.setattr(footer_check, "FooterWork", counted)
    for episodes, times in ((30, 1), (31, 2)):
        pq.write_table(table_of(episodes, 4, fixed=True), path, row_group_size=20)
        for _ in range(3):
            with open_log(path, part_rows=20):
                pass
        assert len(looked) == times
    with open_log(path, part_rows=40):
        pass
    assert len(looked) == 3, "other parts are other claims"


def test_library_and_command_line_have_one_threshold() -> None:
    assert request.LARGE is front_door.LARGE
    assert front_door.LARGE == front_door.PART_ROWS


@pytest.mark.parametrize(
    ("settings", "whole"), [({"part_rows": 40}, False), ({}, True), ({"stream": False}, True)]
)
def test_the_rows_are_shown_once_before_the_log_is_used(
    settings: dict[str, Any], whole: bool, tmp_path: Path
) -> None:
    shown: list[tuple[LogTable, bool]] = []
    with open_log(with_gaps(tmp_path / "log"), look=lambda *seen: shown.append(seen), **settings) as log:
        ((table, of_all),) = shown
        assert of_all == whole
        assert table.n_rows == (log if whole else log[0]).n_steps  # type: ignore[index]
    found = examine_part(table)
    assert [one.code for one in found] == ["DW221"]
    assert found[0].problem.startswith(f"In the first {table.n_rows:,} rows: ")


def test_the_doctor_speaks_before_a_stream(tmp_path: Path) -> None:
    folder, target = with_gaps(tmp_path / "log"), tmp_path / "target.npy"
    np.save(target, policies()[0])
    said = []
    for how in ("--stream", "--no-stream"):
        result = CliRunner().invoke(app, ["evaluate", str(folder), "--target", str(target), how, "--json"])
        said.append([one["code"] for one in json.loads(result.stdout)["warnings"]])
    assert said[0], "a gap in the steps"
    assert said[0] == said[1]


def test_a_table_becomes_a_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = LogTable._trajectories

    def counted(table: LogTable) -> dw.Trajectories:
        made.append(table.n_rows)
        return make(table)

    monkeypatch.setattr(LogTable, "_trajectories", counted)
    table = table_of(30, 4, propensities=True)
    csv, target = tmp_path / "log.csv", tmp_path / "target.npy"
    names = table.column_names
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    csv.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n")
    np.save(target, policies()[0])
    result = CliRunner().invoke(app, ["evaluate", str(csv), "--target", str(target), "--json"])
    assert result.exit_code == 0, result.output
    assert made == [table.num_rows]
