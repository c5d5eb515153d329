"""docs/json.md names every field that the commands print, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.small import small_files
from pages import ROOT

from deadweight.cli import run

PAGE = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
# Present only where there is something to say.
SOMETIMES = {"cut", "verdict.next_step", "estimates.<name>.shares", "estimates.<name>.contradiction"}
OPAQUE = {"settings", "conventions", "counts", "size", "warnings", "path", "states", "findings.rows"}


def documented(heading: str) -> set[str]:
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, heading
    return set(re.findall(r"^\| `([^`]+)` \|", section[1], re.MULTILINE))


def fields(value: Any, at: str = "") -> set[str]:
    if at in OPAQUE:
        return {at}
    if isinstance(value, dict) and not at.endswith(".shares"):
        names = {key: "<name>" if at in ("estimates", "policies") else key for key in value}
        return set().union(*(fields(one, f"{at}.{names[k]}".lstrip(".")) for k, one in value.items()))
    if isinstance(value, list) and at == "findings":
        return set().union(*(fields(one, at) for one in value))
    return {at}


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> set[str]:
    run([*arguments, "--json"])
    return fields(json.loads(capsys.readouterr().out))


def test_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "evaluate", *small_files(tmp_path), "--gate", "better")
    assert found | SOMETIMES == documented("`deadweight evaluate --json`")


def test_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Path(small_files(tmp_path)[0])
    log.write_text(log.read_text() + "99,0,1,0,,0.5\n")
    assert printed(capsys, "doctor", str(log)) == documented("`deadweight doctor --json`")


def test_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "states", *small_files(tmp_path)) == documented("`deadweight states --json`")


def test_improve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = small_files(tmp_path)[0], str(tmp_path / "better.csv")
    assert printed(capsys, "improve", log, "--out", out) == documented("`deadweight improve --json`")


def test_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, _, policy, *_ = small_files(tmp_path)
    targets = ["--target", f"a={policy}", "--target", f"b={policy}"]
    assert printed(capsys, "compare", log, *targets, "--gate", "any") == documented(
        "`deadweight compare --json`"
    )


def test_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "evaluate", "nowhere.csv") == documented("Errors")
