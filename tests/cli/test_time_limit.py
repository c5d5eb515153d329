"""`--time-limit` on every command that reads a log, and the line that says what was taken for granted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deadweight_studies.ends import ergodic, table_without_flags
from typer.testing import CliRunner

from deadweight.cli.app import app

WITH = {"evaluate": ["--estimators", "DM,WPDIS"], "states": [], "doctor": []}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log of fixed length without flags, as CSV and as Parquet, and the policy."""
    folder, problem = tmp_path_factory.mktemp("limit"), ergodic()
    log = problem.sample(200, seed=0)
    table = pa.table(table_without_flags(log) | {"behaviour_prob": log.propensities})
    pyarrow.csv.write_csv(table, folder / "log.csv")
    pq.write_table(table, folder / "log.parquet", row_group_size=300)
    np.save(folder / "policy.npy", problem.pi_e.probs)
    return folder, folder / "policy.npy"


def run(command: str, files: tuple[Path, Path], *options: str, log: str = "log.csv"):
    folder, policy = files
    words = [command, str(folder / log), "--target", str(policy), *WITH[command], *options]
    return CliRunner().invoke(app, words, catch_exceptions=False)


@pytest.mark.parametrize("log", ["log.csv", "log.parquet"])
@pytest.mark.parametrize("command", ["evaluate", "states"])
def test_one_line_says_what_was_assumed(command: str, log: str, files: tuple[Path, Path]) -> None:
    stream = ["--stream"] if log.endswith("parquet") else []
    found = run(command, files, *stream, log=log)
    said = [line for line in found.stderr.splitlines() if line.startswith("Assumption: ")]
    assert found.exit_code == 0
    assert len(said) == 1
    assert "200 of 200 stop after exactly 10 steps" in said[0]
    assert "--time-limit none" in said[0]
    assert "DW248" not in found.stderr, "it was said already"
    for sure in ("10", "none"):
        assert "Assumption" not in run(command, files, "--time-limit", sure, *stream, log=log).stderr


def test_what_is_said_decides(files: tuple[Path, Path]) -> None:
    values, flags = {}, {}
    for limit in ("infer", "10", "none"):
        found = json.loads(run("evaluate", files, "--json", "--time-limit", limit).stdout)
        values[limit] = found["estimates"]["DM"]["value"]
        flags[limit] = found["estimates"]["DM"]["flags"]
    assert values["infer"] == values["10"] != values["none"]
    assert flags["infer"] == []
    assert flags["none"] == ["model-misfit"]
    assert ", time limit 10 steps." in run("evaluate", files).stdout
    assert "time limit" not in run("evaluate", files, "--time-limit", "none").stdout


def test_the_doctor_says_it_as_a_finding(files: tuple[Path, Path]) -> None:
    codes = {}
    for limit in ("infer", "10", "none"):
        found = run("doctor", files, "--json", "--time-limit", limit)
        codes[limit] = [one["code"] for one in json.loads(found.stdout)["findings"]]
    assert "DW248" in codes["infer"]
    assert not {"DW245", "DW246", "DW247", "DW248"} & {*codes["10"], *codes["none"]}
    assert not {"DW245", "DW246", "DW247"} & set(codes["infer"])


@pytest.mark.parametrize("command", list(WITH))
@pytest.mark.parametrize("limit", ["0", "-1", "2.5", "soon", "", "٣"])
def test_anything_else_is_refused(command: str, limit: str, files: tuple[Path, Path]) -> None:
    from deadweight.errors import OptionError

    with pytest.raises(OptionError, match="--time-limit takes a number of steps"):
        run(command, files, f"--time-limit={limit}")


def test_a_limit_below_the_longest_is_one_message(files: tuple[Path, Path]) -> None:
    from deadweight.errors import DataError

    with pytest.raises(DataError, match="no episode is longer; found 10 steps"):
        run("states", files, "--time-limit", "7")
