"""Random logs come in by every door, and the library makes of each what plain loops make of the log itself.

The loops (`reference`) are given the episodes from which a log was made, never what a door gave back. A
failure names the world and the door, and `PYTHONPATH=tests python -m doors.ways_in WORLD DOOR` repeats that
one. `.ci/run` sends 5,000 worlds (`DEADWEIGHT_DOORS=5000`), each through some seven of the doors in turn.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from doors.ways_in import DOORS, doors_of, wrong
from doors.worlds import world

WORLDS = int(os.environ.get("DEADWEIGHT_DOORS", "240"))
TOGETHER = 20
MOST_SHOWN = 10

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:minari"),
    pytest.mark.filterwarnings("ignore::deadweight.negligible.DropWarning"),
]


@pytest.mark.parametrize("first", range(0, WORLDS, TOGETHER))
def test_what_comes_in_is_what_the_loops_say(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    failures, entered = [], 0
    for seed in range(first, min(first + TOGETHER, WORLDS)):
        drawn = world(seed)
        for door in doors_of(drawn):
            folder = tmp_path / f"{seed} {door}"
            folder.mkdir()
            failures += [f"world {seed}, {door}: {what}" for what in wrong(door, drawn, folder)]
            entered += 1
    assert entered > TOGETHER
    assert not failures, "\n".join([f"{len(failures)} wrong", *failures[:MOST_SHOWN]])


def test_every_door_is_gone_through_often() -> None:
    """Also in the part of the worlds that the ordinary tests take, and with every kind of label."""
    worlds = [world(seed) for seed in range(200)]
    ways = [(door, drawn) for drawn in worlds for door in doors_of(drawn)]
    counted = {door: sum(door == one for one, _ in ways) for door in DOORS}
    assert min(counted.values()) >= 1, counted
    assert {name for drawn in worlds for name in drawn.names} >= {
        "DM",
        "WDRSIS",
        "INCRIS",
        "C-WSPDIS",
        "SMIS",
    }
    for what in ("states", "actions", "ids", "steps", "rewards"):
        assert len({drawn.kinds[what] for drawn in worlds}) >= 8, what
