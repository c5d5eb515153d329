"""Durations on logs that are read in parts: the numbers of the log in memory, and of a sum over its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from stream.folders import policies, table_of, write

import deadweight as dw
from deadweight.io.open import open_log
from deadweight.io.stream import Stream, open_stream

GAMMA = 0.8
EVERY = ["WIS", "PDIS", "WPDIS", "INCRIS", "DR", "WDR", "DM", "BEHAVIOUR"]
pytestmark = pytest.mark.filterwarnings("ignore:Assumption")


def timed(**kind: Any) -> pa.Table:
    table = table_of(80, propensities=True, **kind)
    durations = np.random.default_rng(3).choice([0.25, 1.0, 7.0], table.num_rows)
    return table.append_column("duration", pa.array(durations))


@pytest.fixture(scope="module", params=[{"truncated": True}, {"fixed": True}, {"text": True}], ids=str)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Row groups, and so parts, end in the middle of episodes."""
    return write(tmp_path_factory.mktemp("timed") / "log", timed(**request.param), group_rows=70)


def stream_of(folder: Path) -> Stream:
    found = open_stream(folder, part_rows=150)
    assert len(found) > 2
    return found


def labelled(log: dw.Trajectories) -> list[Any]:
    """The policies in the labels of a log."""
    return [dw.TabularPolicy(table, log.state_labels, log.action_labels) for table in policies()]


def values(ev: dw.Evaluation) -> list[float]:
    return [number for est in ev.estimates.values() for number in (est.value, *(est.interval or ()))]


def test_the_default_table_is_that_in_memory(folder: Path) -> None:
    log = dw.read(folder)
    expected = dw.evaluate(log, *labelled(log), gamma=GAMMA)
    found = dw.evaluate(stream_of(folder), *labelled(log), gamma=GAMMA)
    np.testing.assert_allclose(values(found), values(expected), rtol=1e-9)
    assert found.verdict.answer == expected.verdict.answer
    assert found.conventions["gamma"] == GAMMA


def test_every_kind_of_estimate_is_that_in_memory(folder: Path) -> None:
    log = dw.read(folder)
    asked = {"gamma": GAMMA, "interval": None}
    expected = dw.evaluate(log, *labelled(log), EVERY, **asked)
    found = dw.evaluate(stream_of(folder), *labelled(log), EVERY, **asked)
    np.testing.assert_allclose(values(found), values(expected), rtol=1e-10)


def test_two_workers_have_the_bits_of_one(folder: Path) -> None:
    log = dw.read(folder)
    found = []
    for workers in (1, 2):
        with open_log(folder, part_rows=150, workers=workers) as stream:
            names = ["WPDIS", "WDR", "C-WSPDIS"]
            found.append(values(dw.evaluate(stream, *labelled(log), names, gamma=GAMMA)))
    assert found[0] == found[1]


def test_the_mean_return_is_the_sum_over_rows(tmp_path: Path) -> None:
    table = timed().to_pandas()
    total = 0.0
    for _, episode in table.groupby("episode"):
        clock = 0.0
        for reward, duration in zip(episode.reward, episode.duration, strict=True):
            total += GAMMA**clock * reward
            clock += duration
    stream = stream_of(write(tmp_path / "log", timed(), group_rows=70))
    found = dw.estimate("BEHAVIOUR", stream, gamma=GAMMA, interval=None).value
    assert found == pytest.approx(total / table.episode.nunique(), rel=1e-12)


def test_a_discount_of_one_does_not_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "log", timed(), group_rows=70)
    expected = dw.estimate("WPDIS", dw.read(folder), interval=None).value
    monkeypatch.setattr(dw.Trajectories, "discounted", None)
    assert dw.estimate("WPDIS", stream_of(folder), interval=None).value == pytest.approx(expected, rel=1e-12)
