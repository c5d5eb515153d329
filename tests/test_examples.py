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
MOST_SECONDS = 600
# What a script cannot do without: a module, and the extra that has it.
NEEDS = {"cart_pole": "gymnasium", "classifier_policy": "sklearn", "gymnasium_log": "gymnasium"}
# Packages of which only data are read, and what says that they must be there.
DATA = {"icu_sepsis": ("icu-sepsis", "DEADWEIGHT_SEPSIS"), "fashion_shop": ("obp", "DEADWEIGHT_FASHION")}
SAYS = {
    "better_policy": "in state crisis do treat instead of call",
    "choosing_policies": "Recommended: right 90%.",
    "cart_pole": "The new policy at play:",
    "classifier_policy": "Old policy learned by",
    "fashion_shop": "as a mixture     0.00638 [0.00488, 0.00788],  9442 effective episodes",
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
        pytest.skip(f"needs {needed}, see the extras of deadweight")
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=MOST_SECONDS
    )
    assert done.returncode == 0, done.stderr
    package, variable = DATA.get(path.stem, ("", ""))
    if package and not is_installed(package):
        assert done.stdout.startswith(f"Skipped: {package} is not installed")
        assert os.environ.get(variable) != "1", "it must be installed here"
        pytest.skip(done.stdout.strip())
    assert SAYS[path.stem] in done.stdout


def is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
