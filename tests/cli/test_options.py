"""Options are declared once: what is typed, what a command is given, and what can be pasted agree."""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from deadweight import cli
from deadweight.cli import app as declared
from deadweight.cli.app import COMMANDS, Needed, Options, declarations
from deadweight.cli.request import Request

TYPED = {
    "target": Path("p.csv"),
    "behaviour": "counts",
    "columns": "episode=stay id,state=ward",
    "time_limit": "20",
    "time_format": "%d.%m.%Y",
    "fill_reward": 0.25,
    "open_episodes": "cut",
    "features": "x_*,age",
}


def parsed(command: str, words: list[str]) -> dict[str, Any]:
    """The options that typer reads from words, by field."""
    parser: Any = get_command(declared.app).get_command(None, command)  # type: ignore[attr-defined,arg-type]
    return dict(parser.make_context(command, words).params)


@pytest.mark.parametrize("command", ["doctor", "evaluate"])
def test_a_pasted_command_asks_the_same(command: str) -> None:
    request = Request(log=Path("my log.csv"), **TYPED)  # type: ignore[arg-type]
    program, verb, *words = shlex.split(request.command(command))
    assert (program, verb) == ("deadweight", command)
    again = parsed(command, words)
    assert {name: again[name] for name in TYPED} == TYPED
    assert again["log"] == request.log


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_typed_has_the_declared_default(command: str) -> None:
    options = declarations(command)
    defaults = {name: option.said[command][1] for name, option in options.items()}
    needed = " ".join(default.example for default in defaults.values() if isinstance(default, Needed))
    given = parsed(command, shlex.split(needed))
    assert set(given) == set(options)
    for name, default in defaults.items():
        assert isinstance(default, Needed) or given[name] == default, name


def test_every_option_is_of_a_command_that_exists() -> None:
    for each in fields(Options):
        assert set(each.metadata["declared"].said) <= set(COMMANDS), each.name
        assert any(each.name in declarations(command) for command in COMMANDS)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this distribution is installed."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **of: ())


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", declared.STUDIES)
def test_a_command_that_is_not_installed_is_one_message(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([name, "--runs", "1"]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert f"`deadweight {name}` is a command of deadweight-studies, which is not installed." in error
    assert "pip install deadweight-studies" in error
    assert error.count("Error") == 1
    assert "Traceback" not in error


@pytest.mark.usefixtures("alone")
def test_help_then_lists_our_commands_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"│ {command} " in listed for command in COMMANDS)
    assert not any(f"│ {name} " in listed for name in declared.STUDIES)
