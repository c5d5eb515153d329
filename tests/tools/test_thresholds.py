"""The table of thresholds in the documentation is the one in the code."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

from deadweight.tools import thresholds

PAGE = Path(__file__).parents[2] / "docs" / "headline.md"


def rows() -> list[str]:
    """The table, from each assignment and the string under it."""
    body = ast.parse(Path(thresholds.__file__).read_text()).body
    found = []
    for assigned, said in pairwise(body):
        if not isinstance(assigned, ast.Assign):
            continue
        (target,) = assigned.targets
        assert isinstance(target, ast.Name)
        assert isinstance(said, ast.Expr), f"{target.id} does not say what it decides"
        decides, study = " ".join(ast.literal_eval(said.value).split()).split(" Set by ")
        number = ast.unparse(assigned.value).strip("()").removesuffix(".0").replace(".0,", ",")
        found.append(f"| `{target.id}` | {number} | {decides.rstrip('.')} | {study} |")
    return found


def test_the_page_has_the_table_of_the_code() -> None:
    lines = PAGE.read_text().splitlines()
    assert [line for line in lines if line.startswith("| `") and line.count("|") == 5] == rows()
