"""Public names are imported when they are asked for, and do not depend on which module came first."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import deadweight as dw


def loaded_after(code: str) -> set[str]:
    """Modules that a fresh process has after some code."""
    command = f"{code}\nimport sys\nprint(*sys.modules, file=sys.__stderr__)"
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


def test_type_checkers_see_the_same_list() -> None:
    tree = ast.parse(Path(dw.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    rooms = dict.fromkeys(dw._ROOMS, "deadweight")
    assert seen == {**rooms, **{name: f"deadweight.{place}" for name, place in dw._PLACES.items()}}


def test_what_is_no_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        dw.evalute  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(dw, "sums_of_nothing")


@pytest.mark.parametrize("name", [name for name in dw.__all__ if name != "__version__"])
def test_a_name_can_be_the_first_that_is_asked_for(name: str) -> None:
    """No module needs another one to have been imported before it."""
    loaded_after(f"from deadweight import {name}")


def test_no_module_takes_the_place_of_a_function() -> None:
    """Python would set deadweight.estimate to a module of that name, when somebody imports it."""
    root = Path(dw.__file__).parent
    modules = {path.stem for path in root.glob("*.py")} | {
        path.name for path in root.iterdir() if path.is_dir()
    }
    assert modules & set(dw._PLACES) == set()


def test_all_names_at_once() -> None:
    loaded_after(
        "from deadweight import *\nassert callable(estimate) and callable(policy) and callable(doctor)"
    )


def test_importing_and_asking_for_help_need_no_engine() -> None:
    assert {name for name in loaded_after("import deadweight") if name.startswith("deadweight.")} == {
        "deadweight._version"
    }
    help_loads = loaded_after("from deadweight.cli import run\nassert run(['--help']) == 0")
    assert "numpy" not in help_loads
    assert not {name for name in help_loads if name.startswith(("deadweight.log", "deadweight.sums"))}


def test_a_log_at_hand_needs_no_reader_of_files() -> None:
    code = """
import deadweight as dw
log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
dw.estimate("WIS", log, [[0.25, 0.75]], [[0.5, 0.5]])
"""
    assert not {name for name in loaded_after(code) if name.startswith("deadweight.io")}


def test_who_can_load_knows_all_parts_of_all_results() -> None:
    code = """
import pkgutil
from importlib import import_module
import deadweight
from deadweight import load
from deadweight.verbs.load import KINDS
from deadweight.results.saved import _KINDS
from deadweight.results.saved import Result
known = set(_KINDS)
rooms = "answers diagnostics negligible results verbs"
for room in rooms.split():
    package = import_module(f"deadweight.{room}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        import_module(module.name)
assert set(_KINDS) == known, set(_KINDS) - known
assert set(KINDS) == {kind for kind in _KINDS.values() if issubclass(kind, Result)}
"""
    loaded_after(code)
