"""Scripts in benchmarks/ that need nothing from outside run on tiny problems; their numbers are not tests."""

from __future__ import annotations

import json
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


def test_house(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script("house", monkeypatch).main(["--episodes", "20", "--json", str(tmp_path / "house.json")])
    numbers = json.loads((tmp_path / "house.json").read_text())
    assert numbers["sizes"]["library"]["files"] > numbers["sizes"]["studies"]["files"]
    files = [call["files"] for call in numbers["calls"].values()]
    assert files == sorted(files)  # from one estimate without an interval to the command line
    assert min(files) > 10
    assert "| `evaluate(log, pi_e, pi_b)` |" in capsys.readouterr().out


def test_house_counts_branches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = [
        "def f(x):",
        "    assert x",
        "    for y in [z for z in x if z]:",
        "        if y and x or z:",
        "            return 1 if y else 2",
        "    def inner(): return 1 if x else 2",
    ]
    (tmp_path / "one.py").write_text("\n".join(lines))
    counted = script("house", monkeypatch).counted(tmp_path)
    assert counted["highest complexity"] == "8 (one.py: f)"
    assert counted["longest function"] == "6 (one.py: f)"
