"""`reproduce`, `study`, `coverage`: killed at ten places, damaged, two at once: the same bytes after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from studies.records.commands import COMMANDS, RECORDS, finish, kill_when, lines, outcome, start

pytestmark = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    found = {}
    for name in COMMANDS:
        folder = tmp_path_factory.mktemp(name)
        finish(start(name, folder), folder)
        assert lines(folder) == RECORDS
        found[name] = outcome(folder)
    return found


def test_killed_at_ten_places(name: str, undisturbed: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    """Each time it goes on from the last kill; a copy, resumed, must come out as if undisturbed."""
    folder = tmp_path / "killed"
    unfinished = 0
    before: set[bytes] = set()
    for place in range(10):
        process = start(name, folder)
        if place < 9:  # at the start, and after each of eight records
            kill_when(process, lambda place=place: (folder / "out").exists() and lines(folder) >= place)
        else:  # when the tables are being written
            kill_when(process, lambda: any(folder.rglob("*.md")) or any(folder.rglob("*.csv")))
        unfinished += lines(folder) < RECORDS
        kept = [line for path in folder.rglob("*.jsonl") for line in path.read_bytes().splitlines(True)]
        assert before <= set(kept), "finished runs were lost"
        assert len(kept) == len(set(kept)), "finished runs were kept twice"
        before = {line for line in kept if line.endswith(b"\n")}
        copy = tmp_path / str(place)
        shutil.copytree(folder, copy)
        finish(start(name, copy), copy)
        assert outcome(copy) == undisturbed[name], f"after a kill at place {place}"
    assert unfinished >= 5, "most were finished before they could be killed"


def test_damage_is_one_line_and_made_again(
    name: str, undisturbed: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    for path, content in undisturbed[name].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    store = sorted(tmp_path.rglob("*.jsonl"))[0]
    damaged = bytearray(store.read_bytes())
    damaged[damaged.index(b"0.") + 2] ^= 1  # a digit of a number
    store.write_bytes(bytes(damaged) + b'{"key": [3], "made_wi')
    finish(start(name, tmp_path), tmp_path)
    assert outcome(tmp_path) == undisturbed[name]
    said = [line for line in (tmp_path / "remarked").read_text().splitlines() if "damaged" in line]
    assert len(said) == 1
    assert said[0].startswith(f"2 records in '{store.relative_to(tmp_path)}'")


def test_two_at_once_lose_nothing(
    name: str, undisturbed: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    both = [start(name, tmp_path), start(name, tmp_path)]
    for process in both:
        finish(process, tmp_path)
    found, expected = outcome(tmp_path), dict(undisturbed[name])
    for outcomes in (found, expected):
        del outcomes["said"]  # both wrote there
    assert found == expected
