"""Scripts in benchmarks/ that need nothing from outside run on tiny problems; their numbers are not tests."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])  # some of them add the tests' folder
    spec = util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_loops(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """That loops and estimates agree is checked by the script itself."""
    loops = script("loops", monkeypatch)
    monkeypatch.setattr(loops, "EPISODES", 20)
    monkeypatch.setattr(loops, "HORIZON", 8)
    loops.main(1)
    assert capsys.readouterr().out.count("loops over ours") == 4


def test_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script("path", monkeypatch).main(20, 5)
    assert capsys.readouterr().out.count("x (") == 6
