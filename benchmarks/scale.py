"""Scale: from a folder of simulated Parquet to a verdict, with processor time and memory.

Run: `python benchmarks/scale.py 10 --workers 2`, for 10 million rows. The folder goes to a temporary place,
or stays where `--folder` says and is used again. The log is that of a shop whose truth is known, the command
is the one that a user would type.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import deadweight as dw

MILLION = 1_000_000
STEPS = 20
ROWS_A_FILE = 2 * MILLION


def shop() -> dw.domains.Problem:
    """Days of a shop, of twenty steps each."""
    return dw.domains.inventory(horizon=STEPS, pi_e="softened-optimal")


def new_policy() -> np.ndarray:
    """(S, A) a careful step from the old policy towards a better one."""
    problem = shop()
    mixed: np.ndarray = 0.8 * problem.pi_b.probs + 0.2 * problem.pi_e.probs
    return mixed


def write_folder(folder: Path, rows: int) -> None:
    """Two million rows a file, with the probability of each order."""
    problem = shop()
    for number, first in enumerate(range(0, rows, ROWS_A_FILE)):
        episodes = min(ROWS_A_FILE, rows - first) // STEPS
        log = problem.sample(episodes, seed=number)
        columns = {
            "episode": np.repeat(np.arange(episodes) + first // STEPS, STEPS),
            "step": np.tile(np.arange(STEPS), episodes),
            "state": log.states,
            "action": log.actions,
            "reward": log.rewards,
            "behaviour_prob": log.propensities,
            "terminated": np.zeros(episodes * STEPS, dtype=bool),
        }
        pq.write_table(pa.table(columns), folder / f"part-{number:03d}.parquet", row_group_size=MILLION)


def prepare(folder: Path, rows: int) -> None:
    """The folder, unless it is there, by a process of its own: a child's peak begins with its parent's."""
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        subprocess.run([sys.executable, __file__, str(rows // MILLION), "--write", str(folder)], check=True)


def main() -> None:
    """Write, evaluate as a user would, and say what it took."""
    given = argparse.ArgumentParser()
    given.add_argument("million", type=int, nargs="?", default=10)
    given.add_argument("--workers", default="1")
    given.add_argument("--estimators", default="")
    given.add_argument("--folder", type=Path, default=None)
    given.add_argument("--write", type=Path, default=None, help=argparse.SUPPRESS)
    asked = given.parse_args()
    if asked.write is not None:
        write_folder(asked.write, asked.million * MILLION)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder, policy = asked.folder or Path(scratch) / "logs", Path(scratch) / "policy.npy"
        np.save(policy, new_policy())
        prepare(folder, asked.million * MILLION)
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e9
        command = [sys.executable, "-m", "deadweight", "evaluate", str(folder), "--target", str(policy)]
        command += ["--json", "--stream", "--workers", asked.workers, "--estimators", asked.estimators]
        start = time.monotonic()
        with open(Path(scratch) / "found.json", "w+b") as out:
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
            _, code, used = os.wait4(child.pid, 0)
            assert code == 0, "the evaluation failed"
            out.seek(0)
            document = json.load(out)
        wall = time.monotonic() - start
    verdict = document["verdict"]
    headline = document["estimates"][verdict["estimator"]]
    low, high = headline["interval"]
    processor = used.ru_utime + used.ru_stime
    print(f"{asked.million} million rows ({size:.2f} GB of Parquet), {asked.workers} worker(s)")
    print(f"processor {processor:.0f} s, wall {wall:.0f} s, largest process {used.ru_maxrss / 1e6:.2f} GB")
    print(f"{verdict['estimator']} {headline['value']:.4f} [{low:.4f}, {high:.4f}]: {verdict['answer']}")
    print(f"truth {dw.policy_value(shop().mdp, new_policy()):.4f}, old policy {shop().behaviour_value:.4f}")


if __name__ == "__main__":
    main()
