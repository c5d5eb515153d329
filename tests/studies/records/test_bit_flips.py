"""2,000 single bit flips in the store of each command: what is read is what was written, or is missed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from deadweight_studies import automatic as automatic_drop
from deadweight_studies import coverage as interval_coverage
from deadweight_studies.records import Entry, Store, digest, encode
from deadweight_studies.reproduction.run import EXACT, Task, Work, open_store, record_of
from deadweight_studies.reproduction.worlds import PUBLISHED
from deadweight_studies.study import store_of

FLIPS = 2000


def of_reproduce(folder: Path) -> Store:
    store = open_store(Work(("deterministic-lift",), PUBLISHED, folder), "deterministic-lift").records
    for run in (EXACT, 0, 1):
        store.put((7, run), record_of(Task("deterministic-lift", 7, run, PUBLISHED)))
    return store


def of_study(folder: Path) -> Store:
    store = store_of(folder, "automatic", "brook", digest(automatic_drop.SEED))
    for run in range(3):
        store.put((run,), automatic_drop.run("river", run))
    return store


def of_coverage(folder: Path) -> Store:
    store = store_of(folder, "coverage", "hidden brook", digest(interval_coverage.SEED))
    for run in range(2):
        store.put((run,), interval_coverage.run("hidden 8 x 3, n = 300", run))
    return store


def content(store: Store) -> dict[bytes, bytes]:
    """Every record to the last bit, by its key."""
    return {repr(key).encode(): encode(Entry(key, store.made_with, record)) for key, record in store.items()}


@pytest.mark.parametrize("fill", [of_reproduce, of_study, of_coverage])
def test_every_flip_is_detected_or_harmless(fill: Callable[[Path], Store], tmp_path: Path) -> None:
    store = fill(tmp_path)
    store.tidy()
    whole = store.path.read_bytes()
    expected = content(store)
    assert len(expected) >= 2
    rng = np.random.default_rng(12)
    path = tmp_path / "flipped.jsonl"
    for bit in rng.integers(8 * len(whole), size=FLIPS).tolist():
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        read = Store(path, store.made_with)
        found = content(read)
        assert found.items() <= expected.items(), f"bit {bit} changed a record unnoticed"
        assert len(found) < len(expected), f"bit {bit}: a damaged line was taken for whole"
        assert read.damaged, f"bit {bit}: a record is missing without a word"
    for key, record in store.items():  # what is missed is made again, and the file is as it was
        read.put(key, record)
    read.tidy()
    assert path.read_bytes() == whole
