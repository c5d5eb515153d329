"""`deadweight reproduce` as a user meets it."""

from __future__ import annotations

import sys

import pytest

from deadweight.cli import main


def run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["deadweight", "reproduce", *arguments])
    with pytest.raises(SystemExit) as ending:
        main()
    return int(ending.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-8"], "table-1"),
        (["table-1", "--protocol", "publishd"], "Did you mean 'published'?"),
        (["table-4", "--policies", "nowhere"], "pi18.npy"),
    ],
)
def test_a_mistake_is_one_message(monkeypatch, capsys, tmp_path, arguments, message):
    assert run(monkeypatch, *arguments, "--out", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_folder_that_cannot_be_written_is_refused_at_once(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert run(monkeypatch, "table-1", "--runs", "1", "--out", str(tmp_path / "file" / "out")) == 2
    captured = capsys.readouterr()
    assert "could not be written" in captured.err
    assert "Traceback" not in captured.err
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_quick_look(monkeypatch, capsys, tmp_path):
    arguments = ["table-5", "--runs", "1", "--workers", "1", "--out", str(tmp_path)]
    assert run(monkeypatch, *arguments) == 0
    first = capsys.readouterr()
    assert first.out.splitlines()[2].split()[:3] == ["size", "IS", "SIS"]
    assert "ledger.md" in first.out
    assert "0.00" not in first.err.replace("0:00", "")  # numbers go to standard output, progress does not
    assert run(monkeypatch, *arguments) == 0  # nothing left to do
    assert capsys.readouterr().out == first.out
