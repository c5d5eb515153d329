"""There is one loop over data and one kind of log; what is kept with a block has no string for a key."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import deadweight

ROOT = Path(deadweight.__file__).parent
# What a log may be: in memory, stored, or the interface of both.
KINDS = {"Trajectories", "InMemory", "Log", "Stored", "Stream"}


def calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    """(file, call) of every call of a function or method of this name."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and name in (
                getattr(node.func, "id", None),
                getattr(node.func, "attr", None),
            ):
                yield str(path.relative_to(ROOT)), node


def looped_over() -> Iterator[tuple[str, str]]:
    """(file, what) of every loop and comprehension."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.For | ast.comprehension):
                yield str(path.relative_to(ROOT)), ast.unparse(node.iter)


def test_only_the_reduction_loops_over_blocks() -> None:
    assert [file for file, _ in calls("blocks")] == ["sums/reduction.py"]


def test_only_the_reduction_loops_over_the_parts_of_a_log() -> None:
    found = {file for file, what in looped_over() if what in ("question.parts", "self.parts")}
    found |= {file for file, what in looped_over() if what.endswith("question.parts")}
    assert found == set()


def test_nothing_is_kept_with_a_block_under_a_string_or_an_id() -> None:
    keys = [(file, ast.unparse(call.args[0])) for file, call in calls("once")]
    assert keys, "whatever keeps things with a block now, look at that"
    assert {key for _, key in keys} == {"self"}, keys
    assert {file for file, _ in calls("id")} == set(), "ids are no keys of what is computed"


def test_at_most_two_modules_ask_what_kind_of_log_it_is() -> None:
    asked = {
        file
        for name in ("isinstance", "issubclass")
        for file, call in calls(name)
        if {getattr(node, "id", getattr(node, "attr", None)) for node in ast.walk(call.args[1])} & KINDS
    }
    assert asked == {"log/interface.py", "sums/reduction.py"}


def test_a_frozen_question_stays_as_it_was_made() -> None:
    written = {file for file, call in calls("__setattr__") if "object" in ast.unparse(call.func)}
    assert "question/question.py" not in written
