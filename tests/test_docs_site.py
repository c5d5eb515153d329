"""The pages build offline without a warning, and the built site asks nobody for anything."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

pytest.importorskip("material", reason="needs mkdocs-material: pip install 'deadweight[docs]'")
pytest.importorskip("mkdocstrings", reason="needs mkdocstrings: pip install 'deadweight[docs]'")

LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?https?:|<link\b[^>]*\bhref=[\"']?https?:"
)


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    command = [sys.executable, *build, str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        assert not LOADED.search(page.read_text(encoding="utf-8")), page.name
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import", sheet.read_text(encoding="utf-8")), sheet.name


def test_formulas_become_readable() -> None:
    spec = importlib.util.spec_from_file_location("docstrings", ROOT / "docs" / "docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert doctest.testmod(module).failed == 0
    assert module.readable("One line.\n\n.. math:: V(\\pi)\n\nExample:\n  x") == (
        "One line.\n\n```\nV(π)\n```\n\nExamples:\n  x"
    )
