"""What an exception becomes: 2 for a mistake, 3 for a defect, never 1; and what opens a gate."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.small import small_files

from deadweight import cli
from deadweight.cli import doctor as doctor_command
from deadweight.cli.evaluate import is_open
from deadweight.results.evaluation import Verdict


def raises(error: BaseException) -> Callable[..., None]:
    def run(*_: object) -> None:
        raise error

    return run


def test_a_defect_is_3_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor_command, "open_table", raises(KeyError("so\x1bmething")))
    assert cli.run(["doctor", "log.csv"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("Internal error DW999: KeyError in ")
    assert "please report" in captured.err
    assert "\x1b" not in captured.err
    assert cli.run(["doctor", "log.csv", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["error"]["code"]) == (3, "DW999")
    monkeypatch.setenv("DEADWEIGHT_TRACEBACK", "1")
    assert cli.run(["doctor", "log.csv"]) == 3
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 2, "DW109: There is not enough memory"),
        (OSError(28, "No space left on device", "/tmp/x"), 2, "No space left on device (/tmp/x)"),
        (RecursionError("deep"), 3, "RecursionError"),
    ],
)
def test_other_exceptions(
    error: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor_command, "open_table", raises(error))
    assert cli.run(["doctor", "log.csv"]) == code
    assert words in capsys.readouterr().err


def test_every_json_document_has_a_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = small_files(tmp_path)
    for arguments in (["doctor", *given], ["states", *given], ["evaluate", *given, "--estimators", "WIS"]):
        assert cli.run([*arguments, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == 3
        assert "error" not in document
    assert cli.run(["doctor", str(tmp_path / "no.csv"), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == document["findings"][0]["code"] == "DW101"


def verdict(lower: float, upper: float, sound: bool = True) -> Verdict:
    answer = "cannot tell" if not sound or lower <= 0 <= upper else "better" if lower > 0 else "worse"
    return Verdict(answer, (), (lower + upper) / 2, (lower, upper), sound)


@pytest.mark.parametrize(
    ("found", "least", "gates"),
    [
        (verdict(0.2, 0.4), 0.0, {"better", "not-worse"}),
        (verdict(0.2, 0.4), 0.3, {"cannot tell", "not-worse"}),
        (verdict(-0.4, -0.2), 0.0, {"worse"}),
        (verdict(-0.4, -0.2), 0.3, {"cannot tell"}),
        (verdict(-0.4, -0.2), 0.5, {"cannot tell", "not-worse"}),
        (verdict(-0.1, 0.3), 0.0, {"cannot tell"}),
        (verdict(-0.1, 0.3), 0.2, {"cannot tell", "not-worse"}),
        (verdict(0.0, 0.0), 0.0, {"cannot tell", "not-worse"}),
        (verdict(0.2, 0.4, sound=False), 0.5, {"cannot tell"}),
        (verdict(-math.inf, math.inf), 9.0, {"cannot tell"}),
    ],
)
def test_which_gates_a_verdict_opens(found: Verdict, least: float, gates: set[str]) -> None:
    every = ("better", "worse", "cannot tell", "not-worse")
    assert {gate for gate in every if is_open(gate, found, least)} == gates


def test_title_and_gate_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.html"
    given = ["evaluate", *small_files(tmp_path), "--estimators", "WPDIS", "--baseline", "-99"]
    assert cli.run([*given, "--report", str(report), "--title", "Lift <7>", "--gate", "not-worse"]) == 0
    assert "Lift &lt;7&gt;" in report.read_text(encoding="utf-8")
    assert cli.run([*given, "--gate", "better", "--min-effect", "50"]) == 0
    assert cli.run([*given, "--gate", "better", "--min-effect", "200"]) == 1
    assert "Verdict: better." in capsys.readouterr().out
