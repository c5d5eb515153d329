"""The store: exact records, whole lines, one fingerprint, and a lock that nobody can leave behind."""

from __future__ import annotations

import errno
import math
import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from deadweight_studies import records as lock
from deadweight_studies.records import (
    CHECK,
    Entry,
    Job,
    Store,
    _checksum,
    decode,
    digest,
    encode,
    fill,
    last_made_with,
    locked,
    remarks,
)

from deadweight.errors import OutputError
from deadweight.sums import executors as worker_pool

MADE_WITH = {"version": "1", "settings": "abc"}
HARD = [0.1 + 0.2, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, 2**70, "π", None, True]


def store(folder: Path, made_with: dict[str, str] = MADE_WITH) -> Store:
    return Store(folder / "cell.jsonl", made_with)


def filled(folder: Path, keys: list[int]) -> Store:
    found = store(folder)
    for key in keys:
        found.put((key,), {"value": key / 3})
    return found


def test_records_come_back_to_the_last_bit(tmp_path: Path) -> None:
    store(tmp_path).put(("a", 1), {"hard": HARD, "numpy": [np.float64(0.1), np.int64(7), np.bool_(True)]})
    back = store(tmp_path).get(("a", 1))
    assert list(map(repr, back["hard"])) == list(map(repr, HARD))
    assert back["numpy"] == [0.1, 7, True]


def test_what_is_in_memory_is_what_would_be_read(tmp_path: Path) -> None:
    one = store(tmp_path)
    one.put((0,), {"pair": (1, 2), "nan": -math.nan})
    assert repr(one.get((0,))) == repr(store(tmp_path).get((0,)))


def test_a_tidy_file_depends_on_the_records_alone(tmp_path: Path) -> None:
    for name, keys in (("a", [0, 1, 10, 2]), ("b", [2, 10, 1, 0])):
        filled(tmp_path / name, keys).tidy()
    assert store(tmp_path / "a").path.read_bytes() == store(tmp_path / "b").path.read_bytes()
    assert [key for key, _ in store(tmp_path / "a").items()] == [(0,), (1,), (2,), (10,)]


def test_the_first_record_under_a_key_counts(tmp_path: Path) -> None:
    one, other = store(tmp_path), store(tmp_path)
    assert len(one) == len(other) == 0
    one.put((0,), {"value": 1})
    other.put((0,), {"value": 2})
    assert other.get((0,)) == store(tmp_path).get((0,)) == {"value": 1}


def test_tidying_loses_nothing_that_others_added(tmp_path: Path) -> None:
    one = filled(tmp_path, [0])
    filled(tmp_path, [1, 2])
    one.tidy()
    two = filled(tmp_path, [3])
    one.put((4,), {"value": 4 / 3})
    two.tidy()
    assert list(store(tmp_path)) == [(0,), (1,), (2,), (3,), (4,)]


def test_a_line_cut_anywhere_costs_that_line_only(tmp_path: Path) -> None:
    path = filled(tmp_path, [0, 1]).path
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for end in range(second + 1, len(whole)):
        path.write_bytes(whole[:end])
        again = store(tmp_path)
        complete = end == len(whole) - 1  # only the line end is missing
        assert set(again) == ({(0,), (1,)} if complete else {(0,)})
        assert again.damaged == (not complete)
        again.put((1,), {"value": 1 / 3})
        again.put((2,), {"value": 2 / 3})
        assert [key for key, _ in store(tmp_path).items()] == [(0,), (1,), (2,)]
    again.tidy()
    assert path.read_bytes() == filled(tmp_path / "new", [0, 1, 2]).path.read_bytes()


def test_other_fingerprints_are_kept_and_not_used(tmp_path: Path) -> None:
    filled(tmp_path, [0, 1]).tidy()
    newer = store(tmp_path, {**MADE_WITH, "version": "2"})
    assert len(newer) == 0
    (remark,) = remarks([newer])
    assert remark.startswith(f"2 records in '{newer.path}' were made by another version")
    newer.put((0,), {"value": 7})
    newer.tidy()
    assert last_made_with(newer.path) == {**MADE_WITH, "version": "2"}
    older = store(tmp_path)
    older.tidy()
    assert [record["value"] for _, record in older.items()] == [0, 1 / 3]
    assert store(tmp_path, newer.made_with).get((0,)) == {"value": 7}
    assert last_made_with(older.path) == MADE_WITH


def test_damage_in_several_files_is_one_remark(tmp_path: Path) -> None:
    stores = []
    for name in "ab":
        path = filled(tmp_path, [0]).path.rename(tmp_path / f"{name}.jsonl")
        path.write_bytes(path.read_bytes().replace(b"0.0", b"0.1"))
        stores.append(Store(path, MADE_WITH))
    assert remarks(stores) == [
        f"2 records in '{tmp_path}' were damaged or cut short: left out, and made again where needed."
    ]


def test_lines_of_an_older_format_are_left_out(tmp_path: Path) -> None:
    store(tmp_path).path.write_text('{"name": "river", "run": 0, "errors": {}}\n[1, 2]\nnonsense\n\xff\n')
    again = store(tmp_path)
    assert (len(again), again.damaged) == (0, 4)


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = filled(tmp_path, [0])
    before = one.path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match=r"cell\.jsonl.*No space left on device"):
        one.put((1,), {"value": 1})
    with pytest.raises(OutputError, match="No space left on device"):
        filled(tmp_path / "other", [0])
    assert one.path.read_bytes() == before
    assert (1,) not in one


def test_a_lock_that_is_held_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    with locked(tmp_path), pytest.raises(OutputError, match="Another process has held the lock"):
        store(tmp_path).put((0,), {})
    store(tmp_path).put((0,), {})


def _killed_inside(folder: Path) -> None:
    with locked(folder):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_lock_left_by_a_kill_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = multiprocessing.get_context("fork").Process(target=_killed_inside, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / lock.NAME).exists()
    monkeypatch.setattr(lock, "PATIENCE", 0.0)
    store(tmp_path).put((0,), {})
    assert len(store(tmp_path)) == 1


def make(number: int) -> dict[str, float]:
    return {"value": number / 3}


@pytest.mark.parametrize("workers", [1, 2])
def test_only_what_is_missing_is_made(tmp_path: Path, workers: int) -> None:
    one = filled(tmp_path, [1, 3])
    jobs = [Job(one, (number,), (number,)) for number in range(6)]
    assert sorted(job.key for job in fill(jobs, make, workers)) == [(0,), (2,), (4,), (5,)]
    one.tidy()
    assert one.path.read_bytes() == filled(tmp_path / "alone", list(range(6))).path.read_bytes()
    assert list(fill(jobs, make, workers)) == []


def test_what_another_process_finished_meanwhile_is_not_made(tmp_path: Path) -> None:
    one, made = store(tmp_path), []

    def watched(number: int) -> dict[str, float]:
        made.append(number)
        if number == 0:
            filled(tmp_path, [2, 3])
        return make(number)

    jobs = [Job(one, (number,), (number,)) for number in range(5)]
    assert sorted(job.key for job in fill(jobs, watched, 1)) == [(number,) for number in range(5)]
    assert made == [0, 1, 4]


def test_a_digest_tells_settings_apart_but_not_the_last_bits() -> None:
    array = np.array([0.1, 0.2])
    assert digest(1, array, None) == digest(1, array + 1e-16, None)
    different = [(1, array), (1, array, 0), (2, array, None), (1, array * 1.001, None), (1, array[:1], None)]
    assert digest(1, array, None) not in {digest(*parts) for parts in different}


def end_at_once(number: int) -> dict[str, float]:
    os._exit(1)


def test_a_worker_that_ends_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "START", "fork")
    jobs = [Job(store(tmp_path), (number,), (number,)) for number in range(3)]
    with pytest.raises(OutputError, match="A worker process ended"):
        list(fill(jobs, end_at_once, 2))


def test_no_line_without_its_checksum() -> None:
    assert decode(b"") is None
    assert decode(b'{"key": [0], "made_with": {}, "record": {}}') is None
    assert decode(encode(Entry((0,), {}, {}))[:-1]) == Entry((0,), {}, {})


def test_a_line_of_another_kind_is_not_a_record() -> None:
    body = b'{"key": [0], "made_with": {}, "record": {}, "more": 1'
    assert decode(body + CHECK + _checksum(body) + b'"}') is None
