"""The code blocks of README and docs: found, run as printed, and compared with the output printed below them.

A page is run from top to bottom in one folder and, for Python, one namespace. A ```text block right after a
```python block is what that block prints; in a ```console block with `$` prompts the other lines are what the
commands print. `...` on a line of its own stands for any lines. A ```python block with title="name.py" is
written to that file. A block is left out only by `<!-- not run: reason -->` above it.

`python tests/pages.py docs/failures.md` runs a page and writes what was printed into it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'title="([\w.]+)"')
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>[^>]+?) -->\s*\Z")
# These are checked to exist, not run: they install things, or take minutes to hours by their nature.
ONLY_CHECKED = re.compile(
    r"(make|git|pip|uv)\b|deadweight (study|coverage|reproduce|benchmark)\b|python benchmarks/"
)


@dataclass
class Block:
    """A fenced block: its language, its text, why it is not run, and where it stands in the page."""

    language: str
    text: str
    reason: str | None
    start: int
    end: int
    line: int
    output: Block | None = None
    file: str | None = None


@dataclass
class Page:
    """A page of Markdown and its blocks in order."""

    path: Path
    source: str = field(init=False)
    blocks: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        self.source = self.path.read_text(encoding="utf-8")
        self.blocks = list(_blocks(self.source))

    @property
    def not_run(self) -> list[Block]:
        """Blocks that are marked as not run."""
        return [block for block in self.blocks if block.reason]


def pages() -> list[Path]:
    """README and every page of the docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _blocks(source: str) -> Iterator[Block]:
    before: Block | None = None
    for match in FENCE.finditer(source):
        mark = NOT_RUN.search(source[: match.start()])
        block = Block(
            match[1],
            match[3],
            mark["reason"] if mark else None,
            match.start(3),
            match.end(3),
            source.count("\n", 0, match.start()) + 1,
        )
        file = FILE.search(match[2])
        block.file = file[1] if file else None
        touching = before is not None and not source[before.end + 3 : match.start()].strip("`\n ")
        if block.language == "text" and touching and before is not None and before.language == "python":
            before.output = block
        else:
            yield block
        before = block


class Runner:
    """Runs the blocks of one page in one folder and one namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.namespace: dict[str, Any] = {"__name__": "page"}

    def python(self, block: Block, page: Path) -> str:
        """What a Python block prints; one with a title is a file, which later blocks can import."""
        if block.file:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
            sys.modules.pop(Path(block.file).stem, None)  # another page may have a file of the same name
            return ""
        out = io.StringIO()
        # Blank lines in front, so that a traceback names the line of the page.
        code = compile("\n" * block.line + block.text, str(page), "exec")
        sys.path.insert(0, str(self.folder))
        try:
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(out):
                exec(code, self.namespace)
        finally:
            sys.path.remove(str(self.folder))
        return out.getvalue()

    def console(self, command: str) -> str:
        """What a command prints on standard output; it must succeed."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise AssertionError(f"`{command}` ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block with the output that is printed below each.

    Without a prompt every line is a command, and a `#` starts a remark.
    """
    lines = block.text.splitlines()
    if not any(line.startswith("$ ") for line in lines):
        return [(re.sub(r"\s+#.*", "", line).strip(), "") for line in lines if line.strip()]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(output)) for command, output in found]


def agree(expected: str, found: str) -> bool:
    """Whether an output is what the page says, up to blanks at the ends of lines and `...` lines."""
    pattern = ""
    for line in _trimmed(expected).split("\n"):
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line) + "\n"
    return re.fullmatch(pattern, _trimmed(found) + "\n") is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


def only_checked(block: Block) -> bool:
    """Whether a console block holds set-up and long commands only."""
    return all(ONLY_CHECKED.match(command) for command, _ in commands(block))


def with_codes(source: str) -> str:
    """A page with the table of the doctor's codes in its place, made from the checks."""
    from deadweight.io.doctor import ON_THE_FEATURES, ON_THE_LOG, ON_THE_TABLE, ON_THE_TARGET
    from deadweight.io.requirements import OF_FEATURES, REQUIREMENTS

    checks = (*REQUIREMENTS, *OF_FEATURES, *ON_THE_TABLE, *ON_THE_LOG, *ON_THE_TARGET, *ON_THE_FEATURES)
    rows = sorted({f"| {check.code} | {check.severity} | {check.title} |" for check in checks})
    table = "\n".join(["| code | severity | finding |", "| --- | --- | --- |", *rows])
    return re.sub(
        r"<!-- codes -->.*<!-- /codes -->",
        lambda _: f"<!-- codes -->\n\n{table}\n\n<!-- /codes -->",
        source,
        flags=re.DOTALL,
    )


def fill(path: Path) -> None:
    """Run a page and write what its blocks print into it."""
    page, edits = Page(path), []
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        for block in page.blocks:
            if block.reason:
                continue
            if block.language == "python":
                printed = runner.python(block, path)
                if block.output is not None and not agree(block.output.text, printed):
                    edits.append((block.output, _trimmed(printed) + "\n"))
            elif block.language == "console" and not only_checked(block):
                text, prompts = "", "$ " in block.text
                for command, expected in commands(block):
                    printed = runner.console(command)
                    shown = expected if agree(expected, printed) else _trimmed(printed)
                    text += f"$ {command}\n" + (shown + "\n" if shown else "")
                if prompts:
                    edits.append((block, text))
    source = page.source
    for block, text in reversed(edits):
        source = source[: block.start] + text + source[block.end :]
    path.write_text(with_codes(source), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        fill(Path(name))
