"""Every block of README and docs runs as printed and prints what the page says; every claim has a command."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

import deadweight_studies
import pytest
from pages import ROOT, Block, Page, Runner, agree, commands, only_checked, pages, with_codes
from typer.main import get_command

import deadweight
from deadweight.cli.app import app
from deadweight.results.estimate import FLAGS

MOST_NOT_RUN = 3
CLAIMS = ROOT / "docs" / "claims.md"
NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?!\w)(\s?%)?")
MARK = re.compile(r"(\S+(?: %)?)<!-- claim: ([a-z0-9-]+) -->")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_blocks_run_as_printed(path: Path, tmp_path: Path) -> None:
    page, runner = Page(path), Runner(tmp_path)
    for block in page.blocks:
        where = f"{name_of(path)}, line {block.line}"
        if block.reason or (block.language == "console" and only_checked(block)):
            check_commands_exist(block)
        elif block.language == "python":
            printed = runner.python(block, path)
            expected = "" if block.output is None else block.output.text
            assert block.output is None or agree(expected, printed), f"{where} prints:\n{printed}"
        elif block.language == "console":
            for command, expected in commands(block):
                printed = runner.console(command)
                assert "$ " not in block.text or agree(expected, printed), f"{where} prints:\n{printed}"


def test_few_blocks_are_not_run() -> None:
    left_out = [(name_of(path), block.line) for path in pages() for block in Page(path).not_run]
    assert len(left_out) <= MOST_NOT_RUN, left_out


def test_nothing_is_patched_on_a_page() -> None:
    """An extension that needs a mock of something private is none."""
    blocks = [(name_of(path), block) for path in pages() for block in Page(path).blocks]
    assert [
        (name, block.line) for name, block in blocks if re.search(r"patch|setattr|mock", block.text)
    ] == []


def check_commands_exist(block: Block) -> None:
    if block.language == "console":
        for command, _ in commands(block):
            check_exists(command)


def check_exists(command: str) -> None:
    """A command that is not run must at least be one: its program, target, file and options exist."""
    words = command.split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    program, rest = words[0], words[1:]
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert next(word for word in rest if "=" not in word) in targets, command
    elif program == "deadweight":
        found = get_command(app).get_command(None, rest[0])  # type: ignore[attr-defined,arg-type]
        assert found is not None or rest[0] == "--version", command
        options = {name for option in found.params for name in option.opts} if found else set()
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= options, command
    elif program == "pytest":
        for target in (word for word in rest if not word.startswith("-")):
            file, _, function = target.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8") if function else ""
            assert (ROOT / file).exists(), command
            assert not function or f"def {function}(" in text, command
    elif program == "python":
        assert (ROOT / rest[0]).is_file(), command
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for extra in re.findall(r"deadweight\[([\w,]+)\]", command):
            assert set(extra.split(",")) <= set(project["optional-dependencies"]), command
    else:
        assert program in ("git", "uv"), f"Nobody can tell whether this works: {command}"


def claim_rows() -> dict[str, list[str]]:
    """Cells of each line of the claims page, by id."""
    lines = CLAIMS.read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if line.startswith("| `")
    ]
    return {cells[0].strip("`"): cells for cells in rows}


def test_every_claim_has_a_command_that_exists_and_a_date() -> None:
    rows = claim_rows()
    assert rows
    for identity, cells in rows.items():
        assert len(cells) == 5, identity
        for command in re.findall(r"`([^`]+)`", cells[2]):
            check_exists(command)
        assert re.search(r"`[^`]+`", cells[2]), f"{identity} names no command"
        assert date.fromisoformat(cells[4]), identity


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_marked_numbers_are_on_the_claims_page(path: Path) -> None:
    rows = claim_rows()
    for number, identity in MARK.findall(path.read_text(encoding="utf-8")):
        assert identity in rows, f"{name_of(path)} marks a claim {identity} that is not on the claims page"
        bare = number.strip("*_(),.;:`")
        assert bare in rows[identity][1], f"{name_of(path)}: {bare} is not in the claim {identity}"


def numbers(text: str) -> list[set[float]]:
    """All numbers of a text that are not part of a word; 94 % may also be written 0.94."""
    found = NUMBER.findall(re.sub(r"<!--.*?-->", "", text))
    values = [(float(digits.replace(",", "")), percent) for digits, percent in found]
    return [{value, round(value / 100, 9)} if percent else {value} for value, percent in values]


@pytest.mark.parametrize("identity", [name for name, cells in claim_rows().items() if "](" in cells[3]])
def test_the_numbers_of_a_claim_stand_on_the_page_that_shows_them(identity: str) -> None:
    _, claim, _, where, _ = claim_rows()[identity]
    page = re.search(r"\]\((.+?)\)", where)
    assert page is not None
    shown = set().union(*numbers((CLAIMS.parent / page[1]).read_text(encoding="utf-8")))
    missing = [sorted(each) for each in numbers(claim) if not each & shown]
    assert missing == [], f"{identity}: {page[1]} does not have {missing}"


def test_every_claim_is_made_somewhere() -> None:
    elsewhere = [path for path in pages() if path != CLAIMS]
    made = {identity for path in elsewhere for _, identity in MARK.findall(path.read_text(encoding="utf-8"))}
    assert set(claim_rows()) <= made, set(claim_rows()) - made


def test_the_doctors_codes_are_all_listed() -> None:
    page = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
    assert "| DW203 |" in page
    assert page == with_codes(page), "run `python tests/pages.py docs/logs.md`"


def test_the_glossary_lists_all_flags() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == set(FLAGS)


def test_pages_name_no_machine_and_no_registry() -> None:
    for path in pages():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/(home|root|work|Users)/|pypi\.org|files\.pythonhosted", text), name_of(path)


def test_figures_name_their_command() -> None:
    """The lines after a figure say which command made it."""
    for path in pages():
        if "reproduction" in path.parts:
            continue  # its ledger names the command once for all
        lines = path.read_text(encoding="utf-8").splitlines()
        for k, line in enumerate(lines):
            if re.match(r"!\[.*\]\(.*\.(svg|png)\)", line):
                near = re.findall(r"`((?:deadweight|python|make) [^`]+)`", " ".join(lines[k + 1 : k + 5]))
                assert near, f"{name_of(path)}, line {k + 1}: a figure without its command"
                check_exists(near[0])


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_for_contributors_names_is_there(name: str) -> None:
    paths = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|c|h))`", (ROOT / name).read_text(encoding="utf-8"))
    assert paths
    places = [ROOT, Path(deadweight.__file__).parent, Path(deadweight_studies.__file__).parents[1]]
    named = [path.removeprefix("src/deadweight/") for path in paths]
    assert [path for path in named if not any((place / path).exists() for place in places)] == []
