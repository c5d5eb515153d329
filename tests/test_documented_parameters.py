"""Every parameter of a public function is explained in its docstring, and nothing else is."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import deadweight as dw

HEADS = ("Args", "Attributes")


def _public() -> dict[str, Any]:
    found: dict[str, Any] = {"Trajectories.from_episodes": dw.Trajectories.from_episodes}
    for name in dw.__all__:
        value = getattr(dw, name)
        if isinstance(value, ModuleType):
            found.update({f"{name}.{own}": getattr(value, own) for own in getattr(value, "__all__", ())})
        else:
            found[name] = value
    return {
        name: value for name, value in found.items() if inspect.isfunction(value) or inspect.ismethod(value)
    }


def explained(documentation: str) -> list[str]:
    """The names that the lists of a docstring begin their lines with."""
    names: list[str] = []
    for head in HEADS:
        section = re.search(rf"^{head}:\n((?:  .*\n|\n(?=  ))+)", documentation + "\n", re.MULTILINE)
        for line in section.group(1).splitlines() if section else ():
            entry = re.match(r"  ([\w*][\w*, ]*):( |$)", line)
            names += [name.strip().lstrip("*") for name in entry.group(1).split(",")] if entry else []
    return names


PUBLIC = _public()


def test_the_reader_of_docstrings() -> None:
    assert explained("Does.\n\nArgs:\n  a, b: two.\n    Not this: no.\n  **c: more.\n\nd: no.\n") == [
        "a",
        "b",
        "c",
    ]
    assert len(PUBLIC) > 30


@pytest.mark.parametrize("name", PUBLIC)
def test_parameters_are_the_ones_explained(name: str) -> None:
    function = PUBLIC[name]
    told = explained(inspect.getdoc(function) or "")
    has = list(inspect.signature(function).parameters)
    assert sorted(told) == sorted(has)
