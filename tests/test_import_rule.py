"""The one-way rule of imports, read from the source, and what `import deadweight` may bring along."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import deadweight

ROOT = Path(deadweight.__file__).parent

# From the lowest to the highest; a module or package may use its own layer and those below it.
LAYERS = (
    "_version typing errors",
    "tools",
    "log",
    "mdp results",
    "domains theory envs",
    "sums",
    "values io",
    "question",
    "estimators",
    "answers",
    "negligible",
    "diagnostics",
    "report",
    "verbs",
    "testing",
    "cli __main__",
)
# What a method of a result opens when it is called: (module, what it imports inside the method).
DOORS = {("results", "report")}
LEVEL = {unit: level for level, line in enumerate(LAYERS) for unit in line.split()}
HEAVY = [
    "duckdb",
    "gymnasium",
    "matplotlib",
    "minari",
    "pandas",
    "polars",
    "pyarrow",
    "quadprog",
    "ray",
    "sklearn",
    "typer",
    "rich",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.stats",
]


def unit_of(path: Path) -> str:
    """The top-level module or package that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def files() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """(unit, line) of every import of deadweight's own modules that runs, in functions as well."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    own = unit_of(path)
    package = ("deadweight", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(tree):
        if id(node) in for_types or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            inside = node.col_offset > 0
            if parts[0] == "deadweight" and len(parts) > 1 and not (inside and (own, parts[1]) in DOORS):
                yield parts[1], node.lineno


def test_every_module_has_its_layer() -> None:
    units = {unit_of(path) for path in files()}
    assert units - set(LEVEL) == set(), "give these a layer here and in docs/architecture.md"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    own = unit_of(path)
    for unit, line in imported(path):
        assert unit in LEVEL, f"line {line}: deadweight.{unit} has no layer, or is no module"
        assert LEVEL[unit] <= LEVEL[own], f"line {line}: {own} is below {unit}"


def test_few_modules_at_the_root() -> None:
    """The root has what everything uses, and public names; all else is in a room."""
    assert len(list(ROOT.glob("*.py"))) <= 9


def test_no_import_is_hooked() -> None:
    hooks = ("meta_path", "path_hooks", "__import__", "builtins.")
    assert [str(path) for path in files() if any(hook in path.read_text() for hook in hooks)] == []


def test_no_circles() -> None:
    """Within a layer modules may use each other, but never both ways round."""
    below: dict[str, set[str]] = {}
    for path in files():
        below.setdefault(unit_of(path), set()).update(unit for unit, _ in imported(path))
    done: set[str] = set()

    def visit(unit: str, chain: tuple[str, ...]) -> None:
        assert unit not in chain, " -> ".join([*chain, unit])
        if unit not in done:
            for lower in below.get(unit, set()) - {unit}:
                visit(lower, (*chain, unit))
            done.add(unit)

    for unit in below:
        visit(unit, ())


def test_importing_deadweight_is_light() -> None:
    code = "import sys, deadweight; deadweight.evaluate; print(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert "deadweight.verbs.estimate" in loaded
    assert [name for name in HEAVY if name in loaded] == []
