"""Workers change nothing: same bits for one, two and seven, in processes and on Ray, and after a death."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream.folders import KilledOnce, killed_always, mean_reward, policies, table_of, write

import deadweight as dw
from deadweight.errors import EstimationError, OptionError
from deadweight.io.stream import Stream, open_stream
from deadweight.sums.executors import Executor, InProcess, Processes, Ray, executor_for
from deadweight.sums.reduction import reduce_log

NAMES = [name for name in dw.ESTIMATORS if "SDRE" not in name]


def bits(ev: Any) -> dict[str, Any]:
    return {
        name: (ev[name].value, ev[name].std_error, ev[name].interval, ev[name].ess, ev[name].bias)
        for name in ev
    }


def everything(stream: Stream) -> dict[str, Any]:
    """All estimators with their second pass, the automatic drop, a bootstrap and the verdict."""
    pi_e, pi_b = policies()
    table = dw.evaluate(stream, pi_e, pi_b, NAMES, drop=["s1", "s2"])
    found = bits(table)
    found["auto"] = dw.estimate("WSPDIS", stream, pi_e, pi_b, gamma=0.9).value
    found["SSDRE"] = bits({"SSDRE": dw.estimate("SSDRE", stream, pi_e, pi_b, mode="policy", drop=["s1"])})
    bootstrap = dw.estimate("WPDIS", stream, pi_e, pi_b, interval="bootstrap", resamples=20)
    found["bootstrap"] = bootstrap.interval
    found["steps"] = bootstrap.ess_steps.tolist()
    found["verdict"] = table.verdict.interval
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log") / "parts", table_of(text=True, truncated=True))


@pytest.fixture(scope="module")
def serial(folder: Path) -> dict[str, Any]:
    return everything(open_stream(folder, part_rows=40))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Executor]:
    """A local Ray cluster; a skip where Ray is not installed, a failure where it is expected."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError:
        if os.environ.get("DEADWEIGHT_RAY") == "1":
            raise
        pytest.skip(
            "Ray is not installed: pip install 'deadweight[ray]' (DEADWEIGHT_RAY=1 makes this an error)"
        )
    tests = str(Path(__file__).parent.parent)
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": tests}},
    )
    yield Ray()
    ray.shutdown()


@pytest.mark.parametrize("workers", [2, 7])
def test_processes_give_the_same_bits(workers: int, folder: Path, serial: dict[str, Any]) -> None:
    executor = Processes(workers)
    assert everything(open_stream(folder, part_rows=40, executor=executor)) == serial
    executor.close()


@pytest.mark.ray
def test_ray_gives_the_same_bits(cluster: Executor, folder: Path, serial: dict[str, Any]) -> None:
    assert everything(open_stream(folder, part_rows=40, executor=cluster)) == serial


def test_a_killed_process_costs_a_retry(folder: Path, tmp_path: Path) -> None:
    stream = open_stream(folder, part_rows=40)
    expected = reduce_log(stream, mean_reward)
    executor = Processes(2)
    again = open_stream(folder, part_rows=40, executor=executor)
    mark = tmp_path / "killed"
    assert reduce_log(again, KilledOnce(str(mark), stream[3].n_episodes)) == expected
    assert mark.exists()
    assert reduce_log(again, mean_reward) == expected, "the pool goes on"
    executor.close()


@pytest.mark.ray
def test_a_killed_ray_worker_costs_a_retry(cluster: Executor, folder: Path, tmp_path: Path) -> None:
    stream = open_stream(folder, part_rows=40)
    again = open_stream(folder, part_rows=40, executor=cluster)
    mark = tmp_path / "killed"
    found = reduce_log(again, KilledOnce(str(mark), stream[3].n_episodes))
    assert mark.exists()
    assert found == reduce_log(stream, mean_reward)


def test_a_part_that_kills_every_worker_ends_the_run(folder: Path) -> None:
    executor = Processes(1)
    stream = open_stream(folder, part_rows=1_000, executor=executor)
    with pytest.raises(EstimationError, match="killed 4 times"):
        reduce_log(stream, killed_always)
    executor.close()


def test_workers_end_when_they_are_let_go(folder: Path) -> None:
    executor = Processes(2)
    reduce_log(open_stream(folder, part_rows=40, executor=executor), mean_reward)
    processes = [worker.process for worker in executor.pool.members]
    assert len(processes) == 2
    executor.close()
    assert all(process.exitcode is not None for process in processes)


def test_a_script_without_a_guard_can_use_workers(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from deadweight.sums.executors import executor_for\n"
        "from deadweight.io.stream import open_stream\n"
        f"stream = open_stream({str(folder)!r}, part_rows=40, executor=executor_for(2))\n"
        "print(stream.census.n)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("60\n", "")


def test_work_that_cannot_travel_is_refused(folder: Path) -> None:
    stream = open_stream(folder, part_rows=40, executor=Processes(2))
    with pytest.raises(EstimationError, match=r"cannot be given this work(?s:.*)workers=1"):
        reduce_log(stream, lambda block: mean_reward(block))


def test_work_that_only_a_script_knows_is_refused(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from deadweight.sums.executors import executor_for\n"
        "from deadweight.io.stream import open_stream\n"
        "from deadweight.sums.reduction import reduce_log\n"
        "def own(block): return []\n"
        f"reduce_log(open_stream({str(folder)!r}, part_rows=40, executor=executor_for(2)), own)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    assert "EstimationError: Worker processes cannot be given this work" in done.stderr
    assert "killed" not in done.stderr


def test_which_executor() -> None:
    assert isinstance(executor_for(), InProcess)
    assert isinstance(executor_for(3), Processes)
    assert isinstance(executor_for(1, "local"), Ray)
    for workers in (0, -1, 1.5, True):
        with pytest.raises(OptionError, match="workers"):
            executor_for(workers)  # type: ignore[arg-type]


def test_paths_with_workers(tmp_path: Path) -> None:
    """What a user writes; the log has two parts by the default size of one only if it is large."""
    folder = write(tmp_path / "log", table_of())
    pi_e, pi_b = policies()
    found = dw.estimate("WPDIS", folder, pi_e, pi_b, workers=2)
    assert found.value == dw.estimate("WPDIS", dw.read(folder), pi_e, pi_b).value
    assert np.isfinite(found.std_error)
