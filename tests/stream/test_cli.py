"""`deadweight evaluate` on a stream: same numbers, a bar at a terminal only, one message when it cannot."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream.folders import policies, table_of, write
from typer.testing import CliRunner

from deadweight.cli import request
from deadweight.cli.app import app
from deadweight.errors import DeadweightError
from deadweight.tools import progress as progress_bar


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Path]:
    target = tmp_path / "target.npy"
    np.save(target, policies()[0])
    return write(tmp_path / "log", table_of(propensities=True)), target


def document(*arguments: Any, command: str = "evaluate") -> dict[str, Any]:
    result = CliRunner().invoke(app, [command, *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_streamed_and_whole_agree(log: tuple[Path, Path]) -> None:
    folder, target = log
    whole = document(folder, "--target", target, "--no-stream")
    streamed = document(folder, "--target", target, "--stream", "--workers", 2)
    assert streamed["estimates"].keys() == whole["estimates"].keys()
    for name, expected in whole["estimates"].items():
        assert streamed["estimates"][name]["value"] == pytest.approx(expected["value"], rel=1e-10)
    assert streamed["verdict"]["answer"] == whole["verdict"]["answer"]
    assert streamed["log"] == whole["log"]


def test_states_of_a_stream_are_those_of_the_whole_log(log: tuple[Path, Path]) -> None:
    folder, target = log
    whole, streamed = (
        document(folder, "--target", target, "--drop", "q-gap:1.0", *how, command="states")
        for how in (["--no-stream"], ["--workers", 2])
    )
    assert [row["state"] for row in streamed["states"]] == [row["state"] for row in whole["states"]]
    for name in ("estimate", "std_error", "bias", "ess"):
        assert streamed["path"][name] == pytest.approx(whole["path"][name], rel=1e-10)
    for name in ("visits", "chi2", "variance_cost", "bias", "gap"):
        expected = [row[name] for row in whole["states"]]
        assert [row[name] for row in streamed["states"]] == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_what_is_streamed_by_default(log: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = log
    asked = request.Request(log=folder)
    assert not asked.is_streamed(folder)
    assert replace(asked, workers=2).is_streamed(folder)
    assert replace(asked, ray_address="local").is_streamed(folder)
    monkeypatch.setattr(request, "LARGE", 100)
    assert asked.is_streamed(folder)
    assert not replace(asked, stream=False).is_streamed(folder)


def test_what_cannot_be_streamed_says_so(log: tuple[Path, Path], tmp_path: Path) -> None:
    folder, target = log
    runner = CliRunner()
    several = runner.invoke(
        app, ["evaluate", str(folder), "--target", str(target), "--stream", "--behaviour", f"a={target}"]
    )
    assert isinstance(several.exception, DeadweightError)
    assert "--no-stream" in str(several.exception)
    csv = tmp_path / "log.csv"
    csv.write_text("episode,step,state,action,reward\n0,0,0,0,1\n")
    text = runner.invoke(app, ["evaluate", str(csv), "--stream"])
    assert "needs Parquet" in str(text.exception)


def test_a_terminal_is_shown_the_passes_and_nobody_else(
    log: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, target = log
    command = ["evaluate", str(folder), "--target", str(target), "--stream", "--behaviour", "counts"]
    monkeypatch.setattr(progress_bar, "PATIENCE", 0.0)
    silent = CliRunner().invoke(app, command)
    assert silent.exit_code == 0
    assert "pass" not in silent.stderr
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, a terminal
    monkeypatch.setenv("TERM", "xterm")
    shown = CliRunner().invoke(app, command)
    assert re.search(r"pass \d+, summing", shown.stderr)
    assert shown.exit_code == 0
