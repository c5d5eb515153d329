"""What the commands print at a terminal of 80 columns: every number whole, lines that end between words."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from cli.small import small_files

from deadweight.cli import run
from deadweight.cli.process import fitted, table_lines

HEADINGS = ("estimator", "value", "interval", "flags")
ROWS = [
    ("BLEND", "-0.7947", "[-0.7487, 0.8407]", "truncated, late-reward, mean-weight, contradicted"),
    ("DM", "-0.7944", "[-0.7581, 0.8307]", ""),
]
TEXT = (0, 3)


def words(lines: list[str]) -> set[str]:
    return {word for line in lines for word in line.split()}


@pytest.mark.parametrize("width", [None, 200, 80, 60, 45, 30])
def test_a_table_fits_and_loses_nothing(width):
    lines = table_lines(HEADINGS, ROWS, TEXT, width)
    assert words(lines) == {word for row in (HEADINGS, *ROWS) for cell in row for word in cell.split()}
    if width is not None:
        assert max(map(len, lines)) <= width


def test_text_is_folded_before_a_table_is_parted():
    folded = table_lines(HEADINGS, ROWS, TEXT, 70)
    assert sum("estimator" in line for line in folded) == 1
    assert len(folded) > 3
    parted = table_lines(HEADINGS, ROWS, TEXT, 50)
    assert sum("estimator" in line for line in parted) == 2
    assert sum(line.startswith("DM") for line in parted) == 1  # it has no flags


def test_wide_letters_take_two_columns():
    first, second = table_lines(("state", "n"), [("発熱", "1")])
    assert (first, second) == ("state  n", "発熱   1")


def test_a_sentence_ends_between_words_and_a_command_stays_whole():
    command = "  Run: deadweight doctor log.csv --columns episode=stay_id,state=ward --fill-reward 0"
    assert fitted(command, 40) == command
    sentence = "  " + "BLEND puts the new policy at 0.7947 against 0.6717 for the old policy. " * 3
    lines = fitted(sentence, 40).split("\n")
    assert max(map(len, lines)) <= 40
    assert words(lines) == words([sentence])
    assert fitted(sentence, None) == sentence


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
@pytest.mark.parametrize("command", ["evaluate", "states", "doctor"])
def test_the_commands_at_80_columns(tmp_path: Path, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)  # a long path has no place to be folded at
    typed = [os.path.relpath(one) if os.path.exists(one) else one for one in small_files(tmp_path)]
    shown = _at_a_terminal([command, *typed])
    assert "…" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if "Run: " not in line)
    if command == "evaluate":
        assert {"BEHAVIOUR", "C-WSPDIS", "value", "interval", "dropped", "flags"} <= words(shown.splitlines())


def _at_a_terminal(arguments: list[str]) -> str:
    """What a command writes where standard output is a terminal."""
    ours, theirs = os.openpty()
    before = sys.stdout
    with open(theirs, "w", encoding="utf-8") as terminal:
        sys.stdout = terminal
        try:
            run(arguments)
            terminal.flush()
        finally:
            sys.stdout = before
        os.set_blocking(ours, False)
        pieces = []
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except BlockingIOError:
            pass
    os.close(ours)
    return b"".join(pieces).decode().replace("\r\n", "\n")
