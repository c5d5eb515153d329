"""Propensities from counts on a stream are those of the log in memory, for any parts and workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deadweight as dw
from deadweight.errors import DataError
from deadweight.io.open import open_log
from deadweight.io.stream import open_stream
from deadweight.sums.executors import executor_for

LIFT = dw.domains.stochastic_lift(7)


def write(path: Path, episodes: int, rows: int) -> dw.Trajectories:
    log = LIFT.sample(episodes, seed=3)
    columns = {
        "episode": np.repeat(np.arange(log.n_episodes), log.lengths),
        "step": np.concatenate([np.arange(n) for n in log.lengths]),
        "state": log.states,
        "action": log.actions,
        "reward": log.rewards,
        "behaviour_prob": np.full(log.n_steps, 0.9),  # wrong on purpose: counts do not look at it
    }
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return log.with_propensities(dw.cross_fitted_propensities(log))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("rows", [7, 50])
def test_as_in_memory(tmp_path: Path, rows: int, workers: int) -> None:
    expected = write(tmp_path / "log.parquet", 53, rows)
    executor = executor_for(workers)
    stream = open_stream(tmp_path, executor=executor, part_rows=rows, time_limit=None).counted()
    assert len(stream) > 3
    found = np.concatenate([stream[i].propensities for i in range(len(stream))])
    assert found == pytest.approx(expected.propensities, rel=1e-14)
    value = dw.estimate("WPDIS", stream, LIFT.pi_e).value
    assert value == pytest.approx(dw.estimate("WPDIS", expected, LIFT.pi_e).value, rel=1e-12)
    executor.close()


def test_the_front_door_counts_in_parts_and_whole(tmp_path: Path) -> None:
    expected = write(tmp_path / "log.parquet", 53, 50)
    for part_rows in (50, 10_000):
        with open_log(tmp_path, part_rows=part_rows, counts=True, time_limit=None) as log:
            value = dw.estimate("WIS", log, LIFT.pi_e).value
        assert value == pytest.approx(dw.estimate("WIS", expected, LIFT.pi_e).value, rel=1e-12)


def test_too_few_episodes_say_so(tmp_path: Path) -> None:
    write(tmp_path / "log.parquet", 53, 50)
    table = pq.read_table(tmp_path / "log.parquet").slice(0, 12)
    few = table.filter(pa.compute.less(table["episode"], 4))
    pq.write_table(few, tmp_path / "log.parquet", row_group_size=3)
    with pytest.raises(DataError, match="5 episodes or more"):
        open_stream(tmp_path, part_rows=3, time_limit=None).counted()
