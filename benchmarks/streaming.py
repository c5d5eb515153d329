"""Streams: four estimators, and the default table, against decoding the same columns and doing nothing.

Also the peak memory of ever larger folders, two processes against one, and Ray against neither, to the bit.
Run: `python benchmarks/streaming.py [million rows] [plain or default]`; the folders go to a temporary place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deadweight_studies.benchmark.timing import Ratio, ratio, seconds

import deadweight as dw
from deadweight.io.stream import open_stream
from deadweight.sums.executors import Executor, InProcess, Processes, Ray

NAMES = ("IS", "WIS", "PDIS", "WPDIS")
COLUMNS = ["episode", "step", "state", "action", "reward"]
MILLION = 1_000_000
PEAK = """
import sys
sys.path.insert(0, {here!r})
from streaming import JOBS
JOBS[{job!r}]({folder!r})
# Not getrusage: what a parent held when it started this process counts there.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def write_folder(folder: Path, rows: int, ragged: bool, rows_a_file: int = 5 * MILLION) -> Path:
    """Episodes of 100 steps, or of 50 to 150, over files that do not end where episodes do."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    lengths = rng.integers(50, 151, rows // 50) if ragged else np.full(rows // 100 + 1, 100)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    episode = np.repeat(np.arange(len(lengths)), lengths)[:rows]
    step = np.arange(rows) - offsets[episode]
    for lo in range(0, rows, rows_a_file):
        here = slice(lo, min(lo + rows_a_file, rows))
        size = here.stop - lo
        columns = {
            "episode": episode[here],
            "step": step[here],
            "state": rng.integers(50, size=size),
            "action": rng.integers(4, size=size),
            "reward": rng.normal(size=size),
            "behaviour_prob": rng.random(size),
        }
        pq.write_table(pa.table(columns), folder / f"part-{lo // rows_a_file:03d}.parquet")
    return folder


def policies() -> tuple[np.ndarray, np.ndarray]:
    """Two policies of 50 states and 4 actions."""
    rng = np.random.default_rng(1)
    return rng.dirichlet(np.full(4, 20.0), 50), rng.dirichlet(np.full(4, 20.0), 50)


def evaluate(folder: str | Path, executor: Executor | None = None) -> list[float]:
    """Four estimates in one pass."""
    stream = open_stream(folder, executor=executor)
    ev = dw.evaluate(stream, *policies(), NAMES, interval=None)
    return [ev[name].value for name in NAMES]


def default(folder: str | Path, executor: Executor | None = None) -> list[float]:
    """What is evaluated where nobody says what: five passes, since episodes are said to end by themselves."""
    ev = dw.evaluate(open_stream(folder, executor=executor, time_limit=None), *policies())
    return [estimate.value for estimate in ev.estimates.values()]


Work = Callable[..., list[float]]
JOBS: dict[str, Work] = {"plain": evaluate, "default": default}
ROUNDS = {"plain": 5, "default": 3}


def decode(folder: Path, threads: bool = False) -> None:
    """Read the same columns, row group by row group, and let them go; in one thread, as a stream does."""
    for path in sorted(folder.iterdir()):
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                file.read_row_groups([number], columns=COLUMNS, use_threads=threads)


def main(millions: int = 20, job: str = "plain") -> None:
    """Print every ratio with its quartiles."""
    work = JOBS[job]
    rows, small, large = millions * MILLION, millions // 4, millions * 5 // 2
    print(f"{rows:,} rows, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before the start")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        folders = {kind: write_folder(home / kind, rows, kind == "ragged") for kind in ("equal", "ragged")}
        for kind, folder in folders.items():
            print(f"{job}, {kind} lengths, against decoding its columns: {stream_ratio(work, folder, False)}")
            print(f"  against decoding them in all threads:               {stream_ratio(work, folder, True)}")
            print(f"  processor time of all threads, over that of decoding: {cpu_ratio(work, folder):.2f}x")
        peaks = [peak(job, write_folder(home / f"{size}M", size * MILLION, True)) for size in (small, large)]
        print(f"peak memory, {small}M rows {peaks[0]:.0f} MiB, {large}M rows {peaks[1]:.0f} MiB")
        expected = work(folders["ragged"], InProcess())
        one, two = Processes(1), Processes(2)
        assert work(folders["ragged"], one) == work(folders["ragged"], two) == expected
        found = ratio(lambda: work(folders["ragged"], one), lambda: work(folders["ragged"], two), ROUNDS[job])
        print(f"one process against two, same bits: {found}")
        one.close(), two.close()
        on_ray(work, folders["ragged"], expected)


def stream_ratio(work: Work, folder: Path, threads: bool) -> Ratio:
    """A stream against decoding."""
    rounds = next(ROUNDS[name] for name, one in JOBS.items() if one is work)
    return ratio(lambda: work(folder), lambda: decode(folder, threads), rounds)


def cpu_ratio(work: Work, folder: Path) -> float:
    """Processor seconds of a stream over those of decoding, all threads together."""
    spent = []
    for job in (work, decode):
        start = time.process_time()
        job(folder)
        spent.append(time.process_time() - start)
    return spent[0] / spent[1]


def peak(job: str, folder: Path) -> float:
    """Peak memory, in MiB, of a process that evaluates a folder."""
    code = PEAK.format(here=str(Path(__file__).parent), folder=str(folder), job=job)
    return float(subprocess.check_output([sys.executable, "-c", code])) / 1024


def on_ray(work: Work, folder: Path, expected: list[float]) -> None:
    """Ray's result is the same to the bit; its seconds beyond its start."""
    executor = Ray(workers=2)
    try:
        start = seconds(executor._connected)
    except dw.errors.MissingExtra as missing:
        print(missing)
        return
    values: list[float] = []
    first = seconds(lambda: values.extend(work(folder, executor)))
    serial = seconds(lambda: work(folder))
    assert values == expected
    print(
        f"Ray: the same bits; start {start:.1f} s, then {first:.1f} s where one process takes {serial:.1f} s"
    )
    executor.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, *sys.argv[2:3])
