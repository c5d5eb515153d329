"""Every script of examples/ runs, says something, and takes seconds."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# The scripts take a few seconds each; this is for a busy machine.
MOST_SECONDS = 60
# What a script cannot do without: a module, and the extra that has it.
NEEDS = {"gymnasium_log": "gymnasium"}
SAYS = {
    "choosing_policies": "Highest lower end: right 90%",
    "gymnasium_log": "exact: new policy 0.1589",
    "icu_sepsis": "clinicians 0.78184",
    "lift_walkthrough": "[1, 2, 3, 5, 6, 7]",
    "own_csv": "Verdict: better.",
    "streaming": "Verdict:",
}


def test_every_example_is_expected_to_say_something() -> None:
    assert {path.stem for path in EXAMPLES} == set(SAYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    needed = NEEDS.get(path.stem)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}: pip install 'deadweight[{needed}]'")
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=MOST_SECONDS
    )
    assert done.returncode == 0, done.stderr
    if path.stem == "icu_sepsis" and not has_sepsis():
        assert done.stdout.startswith("Skipped: icu-sepsis is not installed")
        assert os.environ.get("DEADWEIGHT_SEPSIS") != "1", "it must be installed here"
        pytest.skip(done.stdout.strip())
    assert SAYS[path.stem] in done.stdout


def has_sepsis() -> bool:
    try:
        distribution("icu-sepsis")
    except PackageNotFoundError:
        return False
    return True
