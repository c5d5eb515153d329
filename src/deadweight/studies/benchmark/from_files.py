"""The main job from files: a folder of Parquet against decoding it, and a CSV at the command line."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from deadweight.estimate import evaluate
from deadweight.io.stream import open_stream
from deadweight.log.row_numbers import episode_of_rows, step_of_rows
from deadweight.studies.benchmark.logs import Setting, setting
from deadweight.studies.benchmark.paired import ratio
from deadweight.studies.benchmark.result import Result

FILES = 4
NEEDED = ["episode", "step", "state", "action", "reward", "terminated"]
PLAIN = ("IS", "WIS", "PDIS", "WPDIS")


def parquet(scale: float) -> list[Result]:
    """A default evaluate, and four plain estimators, of a folder that is read in parts."""
    made = setting(max(FILES, int(200_000 * scale)), 100)
    with tempfile.TemporaryDirectory() as folder:
        _write(made, Path(folder))
        files = sorted(str(path) for path in Path(folder).iterdir())
        decode, every = partial(decode_in_one_thread, files), partial(decode_in_all_threads, files)

        def default() -> None:
            evaluate(open_stream(folder), made.pi_e, made.pi_b)

        def few() -> None:
            evaluate(open_stream(folder), made.pi_e, made.pi_b, PLAIN, interval=None)

        what = f"of Parquet, {made.log.n_steps:,} rows, against decoding"
        return [
            Result(f"default evaluate {what} in one thread", str(ratio(default, decode, 3)), "at most 8x"),
            Result(
                f"IS, WIS, PDIS and WPDIS {what} in one thread", str(ratio(few, decode, 5)), "at most 1.5x"
            ),
            Result("the same against decoding in all threads", str(ratio(few, every, 5)), "at most 1.6x"),
        ]


def _write(made: Setting, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = made.log
    episode = episode_of_rows(log)
    step = step_of_rows(log)
    last = np.zeros(log.n_steps, dtype=bool)
    last[log.offsets[1:] - 1] = True
    columns = (episode, step, log.states, log.actions, log.rewards, last)
    table = pa.table(dict(zip(NEEDED, columns, strict=True)))
    for k, rows in enumerate(np.array_split(np.arange(log.n_episodes), FILES)):
        lo, hi = int(log.offsets[rows[0]]), int(log.offsets[rows[-1] + 1])
        pq.write_table(table.slice(lo, hi - lo), folder / f"part-{k}.parquet", row_group_size=250_000)


def decode_in_one_thread(files: list[str]) -> None:
    """Row group by row group, the quickest way that keeps to one thread.

    `read_table(use_threads=False)` does not: it reads ahead on other threads, and kept 1.65 processors busy.
    """
    import pyarrow.parquet as pq

    for file in files:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            for number in range(parquet.num_row_groups):
                parquet.read_row_group(number, columns=NEEDED, use_threads=False)


def decode_in_all_threads(files: list[str]) -> None:
    """As Arrow does by itself."""
    import pyarrow.parquet as pq

    for file in files:
        pq.read_table(file, columns=NEEDED)


def command_line(scale: float) -> list[Result]:
    """`deadweight evaluate` on a CSV of 1,000 x 50 steps in a fresh process."""
    made = setting(max(2, int(1_000 * scale)), 50)
    with tempfile.TemporaryDirectory() as folder:
        log, policy = Path(folder) / "log.csv", Path(folder) / "policy.csv"
        _write_csv(made, log, policy)
        command = [sys.executable, "-m", "deadweight", "evaluate", str(log), "--target", str(policy)]
        spent = [_cpu_seconds(command) for _ in range(3)]
    what = f"CPU seconds of `deadweight evaluate` on a CSV of {made.log.n_steps:,} rows"
    return [Result(what, f"{np.median(spent):.2f}", "at most 1.6")]


def _write_csv(made: Setting, log: Path, policy: Path) -> None:
    flat, taken = made.log, made.pi_b[made.log.states, made.log.actions]
    episode = episode_of_rows(flat)
    step = step_of_rows(flat)
    rows = zip(episode, step, flat.states, flat.actions, flat.rewards, taken, strict=True)
    lines = [f"{i},{t},{s},{a},{r!r},{p!r}" for i, t, s, a, r, p in map(_plain, rows)]
    log.write_text("\n".join(["episode,step,state,action,reward,behaviour_prob", *lines]) + "\n")
    cells = [f"{s},{a},{float(p)!r}" for s, row in enumerate(made.pi_e) for a, p in enumerate(row)]
    policy.write_text("\n".join(["state,action,prob", *cells]) + "\n")


def _plain(row: tuple[np.generic, ...]) -> list[float]:
    return [value.item() for value in row]


def _cpu_seconds(command: list[str]) -> float:
    """Of a process and its children, all threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "COLUMNS": "120"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
