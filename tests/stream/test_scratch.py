"""Parts that were kept for later passes are what was decoded, to the bit, and nothing of them stays."""

from __future__ import annotations

import gc
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream.folders import policies, table_of, write

import deadweight as dw
from deadweight.errors import EstimationError
from deadweight.io import scratch as scratch_module
from deadweight.io import stream as stream_module
from deadweight.io.part_log import CommonLabels
from deadweight.io.scratch import Shelf
from deadweight.io.stream import Stream, open_stream
from deadweight.values.model import counts_by_fold

COLUMNS = ("states", "actions", "rewards", "offsets", "terminated", "_last_successor", "propensities",
           "target_probs", "durations")  # fmt: skip


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that nobody else writes to."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def evaluated(log: Any) -> dict[str, Any]:
    return dw.evaluate(log, *policies()).to_dict()


def fetches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The parts that are decoded from now on."""
    seen: list[Any] = []
    original = stream_module.fetch

    def watched(files: Any, part: Any) -> Any:
        seen.append(part)
        return original(files, part)

    monkeypatch.setattr(stream_module, "fetch", watched)
    return seen


@pytest.mark.parametrize("kind", [{}, {"truncated": True, "propensities": True}, {"text": True}])
def test_what_is_kept_is_what_was_decoded(kind: dict[str, Any], tmp_path: Path, temporary: Path) -> None:
    stream = open_stream(write(tmp_path / "log", table_of(**kind)), part_rows=40)
    stream.will_be_read_again()
    for part in range(len(stream)):
        decoded = stream.pieces(part, stream.fetch(part))
        again = stream.fetch(part)
        assert isinstance(again, list)
        for one, other in zip(decoded, stream.pieces(part, again), strict=True):
            for name in COLUMNS:
                expected, found = getattr(one, name), getattr(other, name)
                np.testing.assert_array_equal(found, expected)
                assert found is None or found.dtype == expected.dtype
            assert one.has_next_states == other.has_next_states


def test_a_default_table_decodes_once_and_has_the_same_bits_where_there_is_no_room(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "log", table_of(300, truncated=True), group_rows=200)
    seen = fetches(monkeypatch)
    stream = open_stream(folder, part_rows=200)
    expected = evaluated(stream)
    assert len(seen) == len(stream) > 4
    monkeypatch.setattr(scratch_module, "SHARE", 0.0)
    seen.clear()
    assert evaluated(open_stream(folder, part_rows=200)) == expected
    assert len(seen) == 5 * len(stream), "a default table takes five passes"


def test_one_pass_keeps_nothing(tmp_path: Path, temporary: Path) -> None:
    stream = open_stream(write(tmp_path / "log", table_of()), part_rows=40)
    dw.estimate("WPDIS", stream, *policies(), interval=None)
    assert not list(temporary.iterdir())


def test_a_full_disk_costs_time_only(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "log", table_of(300))
    expected = evaluated(open_stream(folder, part_rows=200))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scratch_module, "write_column", full)
    assert evaluated(open_stream(folder, part_rows=200)) == expected


def test_the_folder_goes_with_the_work_and_with_its_errors(tmp_path: Path, temporary: Path) -> None:
    folder = write(tmp_path / "log", table_of(300))
    with stream_of(folder) as log:
        evaluated(log)
        assert list(temporary.iterdir())
    assert not list(temporary.iterdir())
    evaluated(log)  # what is asked afterwards is kept anew, and goes with the log
    del log
    gc.collect()
    assert not list(temporary.iterdir())
    with pytest.raises(EstimationError, match=r"1,?000"), stream_of(folder) as log:
        dw.estimate("WDR", log, *policies(), cross_fit=1_000)
    assert not list(temporary.iterdir())


def a_shelf(log: dw.Trajectories) -> Shelf:
    labels = CommonLabels(log.state_labels, log.action_labels)
    return Shelf(tempfile.mkdtemp(), labels)


def test_two_threads_that_keep_the_same_part_lose_nothing(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0), (1, 1, 0.0)]] * 5)
    shelf, write_one = a_shelf(log), Shelf._write
    second = threading.Thread(target=shelf.keep, args=(0, [log]))

    def written(own: Shelf, *arguments: Any) -> Any:
        if threading.current_thread() is not second:  # in the middle of the first, the other keeps all of it
            second.start()
            second.join()
        return write_one(own, *arguments)

    monkeypatch.setattr(Shelf, "_write", written)
    shelf.keep(0, [log])
    kept = shelf.kept(0)
    assert kept is not None
    assert [one.n_episodes for one in kept] == [5]
    assert [place.name for place in Path(shelf.folder).iterdir()] == ["part-0"], "the slower one left nothing"


def emptied(part: Path) -> None:
    shutil.rmtree(part)
    part.mkdir()


def shortened(part: Path) -> None:
    rewards = part / "0" / "rewards.f8"
    rewards.write_bytes(rewards.read_bytes()[:-8])


def without_a_column(part: Path) -> None:
    (part / "0" / "propensities.f8").unlink()


def without_a_log(part: Path) -> None:
    shutil.rmtree(part / "0")


@pytest.mark.parametrize("damage", [emptied, shortened, without_a_column, without_a_log])
def test_a_part_that_is_no_longer_whole_is_not_kept(damage: Any, temporary: Path) -> None:
    log = dw.Trajectories.from_episodes([[(0, 0, 1.0), (1, 1, 0.0)]] * 5)
    shelf = a_shelf(log.with_propensities(np.full(10, 0.5)))
    shelf.keep(0, [log.with_propensities(np.full(10, 0.5))])
    assert shelf.kept(0) is not None
    damage(Path(shelf.folder) / "part-0")
    assert shelf.kept(0) is None
    shelf.keep(0, [log])  # nobody minds


def stream_of(folder: Path) -> Any:
    from deadweight.io.open import open_log

    return open_log(folder, part_rows=200)


@pytest.mark.parametrize("part_rows", [7, 40, 10_000])
def test_folds_are_counted_in_the_first_pass(part_rows: int, tmp_path: Path) -> None:
    """Without knowing how many episodes come before a part, fold by fold as in memory."""
    folder = write(tmp_path / "log", table_of(61, truncated=True))
    stream: Stream = open_stream(folder, part_rows=part_rows)
    assert stream.known is None
    found, expected = (counts_by_fold(log, 5, 6, 3) for log in (stream, [dw.read(folder)]))
    assert found.n == expected.n == 61
    for one, other in zip(found.own, expected.own, strict=True):
        np.testing.assert_array_equal(one.transitions.keys, other.transitions.keys)
        np.testing.assert_array_equal(one.transitions.sums, other.transitions.sums)
        np.testing.assert_allclose(one.pairs.sums, other.pairs.sums, rtol=1e-12)
        np.testing.assert_array_equal(one.starts.sums, other.starts.sums)
