"""Hostile input and surroundings, each with its exit code: one message, no traceback, nothing that waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli.small import small_files

from deadweight.cli import run

LONG = "a" * 5_000
EVIL = ["a\x1b]8;;http://x\x07b", "c\x9b31md", "\u202egnp.exe", "[bold red]x[/]", "l\nf\u2028"]


def test_neither_pipe_nor_device_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, *target = small_files(tmp_path)
    pipe, empty = tmp_path / "pipe", tmp_path / "empty"
    empty.mkdir()
    os.mkfifo(pipe)
    os.mkfifo(tmp_path / "pipe.parquet")
    for given, words in [
        (["doctor", pipe], "a pipe, not a file"),
        (["doctor", tmp_path / "pipe.parquet"], "a pipe, not a file"),
        (["evaluate", tmp_path / "pipe.parquet", *target, "--stream"], "a pipe, not a file"),
        (["evaluate", pipe, *target], "a pipe, not a file"),
        (["states", pipe, *target], "a pipe, not a file"),
        (["evaluate", log, "--target", pipe], "a pipe, not a file"),
        (["evaluate", log, *target, "--behaviour", pipe], "a pipe, not a file"),
        (["doctor", "/dev/zero"], "a device, not a file"),
        (["evaluate", log, *target, "--report", tmp_path], "it is a folder"),
        (["evaluate", log, *target, "--report", log], "would replace the input"),
        (["doctor", empty], "Expected .parquet or .csv files in the folder"),
        (["evaluate", log, "--target", empty], "Expected .parquet or .csv files in the folder"),
        (["doctor", LONG], "File name too long"),
        (["states", LONG, *target], "File name too long"),
        (["evaluate", log, "--target", LONG], "File name too long"),
        (["evaluate", log, *target, "--report", tmp_path / LONG], "File name too long"),
        (["evaluate", log, *target, "--report", tmp_path / ("r" * 256)], "File name too long"),
        (["demo", "--report", LONG], "File name too long"),
    ]:
        assert run(list(map(str, given))) == 2, given
        captured = capsys.readouterr()
        assert words in captured.err
        assert captured.err.count("Error: ") == 1
        assert captured.out == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["evaluate", "nowhere.csv", "--estimators", "WIS,WSPDISS"], "no estimator 'WSPDISS'"),
        (["evaluate", "nowhere.csv", "--drop", "q-gab:1"], "no rule 'q-gab:1'"),
        (["evaluate", "nowhere.csv", "--interval", "boot"], "interval must be one of"),
        (["evaluate", "nowhere.csv", "--interval", "guaranteed"], "needs the lowest and the highest return"),
        (["evaluate", "nowhere.csv", "--level", "95"], "level must lie between 0 and 1"),
        (["evaluate", "nowhere.csv", "--gamma", "2"], "gamma must be"),
        (["evaluate", "nowhere.csv", "--return-range", "1,0"], "return_range must be"),
        (["evaluate", "nowhere.csv", "--baseline", "nan"], "--baseline must be a finite number"),
        (["evaluate", "nowhere.csv", "--gate", "bettr"], "Did you mean 'better'?"),
        (["evaluate", "nowhere.csv", "--min-effect", "-1"], "--min-effect must be"),
        (["evaluate", "nowhere.csv", "--columns", "state"], "--columns takes our=yours"),
        (["evaluate", "nowhere.csv", "--report", "no/where.html"], "No such file or directory"),
        (["evaluate", "nowhere.csv", "--target", "nopolicy.npy"], "Expected a policy at 'nopolicy.npy'"),
        (["evaluate", "nowhere.csv", "--behaviour", "nopolicy.npy"], "Expected a policy at 'nopolicy.npy'"),
        (["states", "nowhere.csv", "--target", "x.npy", "--drop", "x"], "no rule 'x'"),
        (["states", "nowhere.csv", "--target", "x.npy", "--gamma", "0"], "gamma must be"),
        (["evaluate", "", "--target", "x.npy"], "found an empty text"),
        (["evaluate", "nowhere.csv", "--target", " "], "found an empty text"),
        (["states", "nowhere.csv", "--target", ""], "found an empty text"),
        (["doctor", ""], "found an empty text"),
        (["demo", "--report", "no/where.html"], "No such file or directory"),
        (["reproduce", "table-1", "--out", "/dev/null/x"], "Not a directory"),
        (["coverage", "--out", "/dev/null/x"], "Not a directory"),
        (["study", "automatic", "--out", "/dev/null/x"], "Not a directory"),
    ],
)
def test_checked_before_the_work(
    given: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The log is not there, and nobody gets as far as to say so."""
    monkeypatch.chdir(tmp_path)
    assert run(given) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "nowhere.csv" not in captured.err
    if given[0] in ("evaluate", "states", "demo"):
        assert run([*given, "--json"]) == 2
        error = json.loads(capsys.readouterr().out)["error"]
        assert words in error["message"] + error["fix"]
        assert error["code"].startswith("DW")
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", "--jsno", "--json"]) == 2
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["schema"] == 3
    assert document["error"]["code"] == "DW910"
    assert "--jsno" in document["error"]["message"]
    assert document["error"]["fix"] == "See: deadweight evaluate --help"
    assert captured.err.startswith("Error: ")


def test_nothing_in_a_label_or_a_name_reaches_the_terminal_raw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = small_files(tmp_path, EVIL, log="log\x1b[31m\u202e\n.csv")
    for command, extra in [
        ("states", []),
        ("evaluate", ["--report", str(tmp_path / "r\x9b\n.html")]),
        ("doctor", []),
        ("doctor", ["--columns", "state=\x1b]0;x\x07"]),
        ("evaluate", ["--estimators", "\u202eWIS"]),
        ("\x1b[31m", []),
    ]:
        assert run([command, *given, *extra]) in (0, 2)
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert [c for c in text if not c.isprintable() and c != "\n"] == []
    assert run(["states", *given, "--json"]) == 0
    out = capsys.readouterr().out
    assert {row["state"] for row in json.loads(out)["states"]} == set(EVIL)
    assert out.isascii()


def test_labels_are_shown_as_escapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["states", *small_files(tmp_path, EVIL)]) == 0
    out = capsys.readouterr().out
    for shown in (r"a\x1b]8;;http://x\x07b", r"c\x9b31md", r"\u202egnp.exe", "[bold red]x[/]", r"l\nf\u2028"):
        assert shown in out


def test_a_hundred_thousand_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It took minutes when every name was compared with every other."""
    names = [f"c{i}" for i in range(100_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(names) + "\n" + ",".join("0" for _ in names) + "\n")
    assert run(["doctor", str(path)]) == 2
    assert "DW105" in capsys.readouterr().err
    path.write_text(",".join([*names[:50_000], *names[:50_000]]) + "\n")
    assert run(["doctor", str(path)]) == 2
    assert "'c0', 'c1', 'c10', 'c100', 'c1000' and 49995 more" in capsys.readouterr().err


PROGRAM = [sys.executable, "-m", "deadweight"]


def shell(words: str, *given: str) -> subprocess.CompletedProcess[str]:
    """`deadweight ...` in a shell, as $@, with its standard output somewhere odd."""
    command = ["bash", "-o", "pipefail", "-c", words, "bash", *PROGRAM, *given]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_a_full_standard_output_is_2(tmp_path: Path) -> None:
    done = shell('"$@" > /dev/full', "doctor", small_files(tmp_path)[0])
    assert done.returncode == 2
    assert done.stderr.startswith("Error: Standard output could not be written: No space left")
    assert "Traceback" not in done.stderr


def test_a_closed_standard_output_leaves_the_exit_code(tmp_path: Path) -> None:
    """Also that of a gate: who closes the pipe must not open the gate."""
    given = ["evaluate", *small_files(tmp_path), "--estimators", "WIS", "--interval", "none"]
    assert shell('"$@" >&- 2>&-', *given).returncode == 0
    closed = shell('"$@" | true', *given, "--gate", "worse")
    assert closed.returncode == 4
    assert "Traceback" not in closed.stderr
    assert "Exception" not in closed.stderr


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    given = small_files(tmp_path, ["\u03b1", "b", "c", "d", "e"])
    done = shell('PYTHONIOENCODING=ascii "$@"', "states", *given)
    assert done.returncode == 0, done.stderr
    assert r"\u03b1" in done.stdout


def test_text_that_is_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Parquet calls any bytes text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\x80"))
    ones = pa.array([1, 2])
    log = pa.table({"episode": ones, "step": ones, "state": text, "action": ones, "reward": ones})
    (tmp_path / "folder").mkdir()
    pq.write_table(log, tmp_path / "log.parquet")
    pq.write_table(log, tmp_path / "folder" / "log.parquet")
    pq.write_table(pa.table({"state": text, "action": ones, "prob": ones}), tmp_path / "policy.parquet")
    for name in ("log.parquet", "folder", "policy.parquet"):
        target = ["--target", str(tmp_path / name)] if name == "policy.parquet" else []
        log_file = small_files(tmp_path)[0] if target else str(tmp_path / name)
        assert run(["doctor", log_file, *target]) == 2
        assert "Column 'state' must be text in UTF-8" in capsys.readouterr().err
    assert run(["evaluate", str(tmp_path / "log.parquet"), "--behaviour", "column", "--stream"]) == 2
    assert "UTF-8" in capsys.readouterr().err
