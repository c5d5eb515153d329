"""Every public name has an entry in the API reference and an example that runs."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest
from pages import ROOT

import deadweight as dw

API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").replace("\\_", "_")
NAMES = [f"deadweight.{name}" for name in dw.__all__]
NAMES += [
    f"deadweight.{part}.{name}"
    for part in dw.__all__
    if isinstance(getattr(dw, part), ModuleType)
    for name in getattr(dw, part).__all__
    if name not in dw.__all__
]


def found(path: str) -> Any:
    value: Any = dw
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("path", NAMES)
def test_has_an_entry_in_the_reference(path: str) -> None:
    # A function that shares its name with its module is named in full, under a heading with its public name.
    entry = rf"^(:::|###|      heading:) {re.escape(path)}$"
    assert re.search(entry, API, re.MULTILINE), f"docs/api.md lacks {path}"


@pytest.mark.parametrize("path", NAMES)
def test_has_an_example(path: str) -> None:
    value = found(path)
    if inspect.isroutine(value) or inspect.isclass(value) or inspect.ismodule(value):
        # The doctests of the package run them.
        assert ">>> " in (inspect.getdoc(value) or ""), f"the docstring of {path} has no example"
    else:
        # A constant has no docstring: its entry on the page has a block, which test_docs runs.
        entry = API.split(f"### {path}\n")[1].split("\n### ")[0]
        assert "```python" in entry, f"the entry of {path} has no example"
