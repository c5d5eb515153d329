"""How large the library is, and how much of it a call enters: `python benchmarks/house.py [--json FILE]`.

Rooms are the folders with Python files (nested ones count to their room) and the root. Complexity is 1 and
one for each `if`, ternary, `for`, `while`, `except`, `case`, `assert`, `and`, `or`, `if` of a comprehension;
inner functions count apart. Four calls on a small log of the lift are profiled in all threads, after all
imports: a file is entered when a function of it runs; depth counts the library's frames on one stack.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import pkgutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from io import StringIO
from operator import itemgetter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import deadweight_studies

import deadweight as dw
from deadweight.cli import run

PACKAGE = Path(dw.__file__).resolve().parent
STUDIES = Path(deadweight_studies.__file__).resolve().parent
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.match_case, ast.Assert)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
INNER = (*FUNCTIONS, ast.ClassDef)


def rooms(paths: Iterable[Path], package: Path) -> int:
    """How many rooms these files are in: first folders below the package, and the root."""
    return len({path.relative_to(package).parts[:-1][:1] for path in paths})


def complexity(node: ast.AST) -> int:
    """The branches of a node and below it, without those of functions and classes inside."""
    branches = len(node.values) - 1 if isinstance(node, ast.BoolOp) else isinstance(node, BRANCHES)
    branches += len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return branches + sum(complexity(n) for n in ast.iter_child_nodes(node) if not isinstance(n, INNER))


def functions(path: Path, package: Path) -> Iterator[tuple[str, int, int]]:
    """(name, complexity, lines) of every function of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, FUNCTIONS):
            name, last = f"{path.relative_to(package)}: {node.name}", node.end_lineno or node.lineno
            yield name, 1 + complexity(node), last - node.lineno + 1


def counted(package: Path, without: Path | None = None) -> dict[str, Any]:
    """The size of a package, and its most complex and its longest function."""
    paths = [p for p in sorted(package.rglob("*.py")) if without is None or not p.is_relative_to(without)]
    every = [function for path in paths for function in functions(path, package)]
    complex_name, highest, _ = max(every, key=itemgetter(1))
    long_name, _, longest = max(every, key=itemgetter(2))
    return {
        "files": len(paths),
        "rooms": rooms(paths, package),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths),
        "highest complexity": f"{highest} ({complex_name})",
        "functions above 15": sum(value > 15 for _, value, _ in every),
        "longest function": f"{longest} ({long_name})",
    }


def entered(call: Callable[[], object]) -> dict[str, int]:
    """Files, rooms and functions of the library that a call enters, and how deep its stack becomes."""
    inside = cache(lambda name: Path(name).resolve().is_relative_to(PACKAGE))
    codes, depths, deepest = set[CodeType](), Counter[int](), 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal deepest
        code, thread = frame.f_code, threading.get_ident()
        if event in ("call", "return") and code.co_name != "<module>" and inside(code.co_filename):
            depths[thread] += 1 if event == "call" else -1
            deepest = max(deepest, depths[thread])
            codes.add(code)

    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    paths = {Path(code.co_filename).resolve() for code in codes}
    named = sum(code.co_name[0] != "<" for code in codes)  # no lambda, no comprehension
    return {"files": len(paths), "rooms": rooms(paths, PACKAGE), "functions": named, "depth": deepest}


def calls(folder: Path, episodes: int) -> dict[str, dict[str, int]]:
    """The four calls, each with a log of its own: nothing is remembered from the one before."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "deadweight."):
        with suppress(ImportError):  # an extra that is not installed
            if module.name != "deadweight.__main__":
                importlib.import_module(module.name)
    lift = dw.domains.stochastic_lift(11)
    pi_e, pi_b = lift.pi_e, lift.pi_b
    logs = [lift.sample(episodes, seed=0) for _ in range(4)]
    steps = [(i, t, *step) for i, episode in enumerate(logs[3]) for t, step in enumerate(episode)]
    rows = [f"{i},{t},{s},{a},{r},{pi_b.probs[s, a]}" for i, t, s, a, r in steps]
    probs = [f"{s},{a},{p}" for s, row in enumerate(pi_e.probs) for a, p in enumerate(row)]
    (folder / "log.csv").write_text("\n".join(["episode,step,state,action,reward,behaviour_prob", *rows]))
    (folder / "policy.csv").write_text("\n".join(["state,action,prob", *probs]))
    command = ["evaluate", str(folder / "log.csv"), "--target", str(folder / "policy.csv")]
    profiled: dict[str, Callable[[], object]] = {
        'estimate("WPDIS", interval=None)': lambda: dw.estimate("WPDIS", logs[0], pi_e, pi_b, interval=None),
        'estimate("WPDIS")': lambda: dw.estimate("WPDIS", logs[1], pi_e, pi_b),
        "evaluate(log, pi_e, pi_b)": lambda: dw.evaluate(logs[2], pi_e, pi_b),
        "deadweight evaluate log.csv --target policy.csv": lambda: run(command),
    }
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return {f"`{name}`": entered(call) for name, call in profiled.items()}


def table(head: str, rows: dict[str, dict[str, Any]]) -> str:
    """A Markdown table of dicts with the same keys."""
    keys = list(next(iter(rows.values())))
    lines = [[head, *keys], ["---"] * (len(keys) + 1)]
    for name, row in rows.items():
        lines.append([name, *(f"{row[key]:,}" if isinstance(row[key], int) else row[key] for key in keys)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: list[str] | None = None) -> None:
    """Print both tables, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description="Count the library, and what a call enters of it.")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--studies", type=Path, default=STUDIES, help="where the studies are")
    parser.add_argument("--episodes", type=int, default=200, help="of the log")
    asked = parser.parse_args(arguments)
    sizes = {"library": counted(PACKAGE, asked.studies.resolve()), "studies": counted(asked.studies)}
    with tempfile.TemporaryDirectory() as folder:
        walks = calls(Path(folder), asked.episodes)
    print(table("package", sizes), table("call", walks), sep="\n\n")
    if asked.json:
        asked.json.write_text(json.dumps({"sizes": sizes, "calls": walks}, indent=2))


if __name__ == "__main__":
    main()
