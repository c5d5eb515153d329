"""Runs of a study: made once, in parallel, kept line by line, and never repeated.

A run is a function of a problem's name and the run's number only, so that a study can be stopped, resumed,
extended and repeated in part. Each finished run is one line of JSON; a line that an interruption cut short is
ignored and made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

Run = Callable[[str, int], dict[str, Any]]


def make_runs(folder: Path, name: str, run: Run, runs: int, workers: int = 1) -> list[dict[str, Any]]:
    """The first `runs` runs of a problem, making those that the folder does not hold yet."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{''.join(c if c.isalnum() else '-' for c in name)}.jsonl"
    done = {record["run"]: record for record in read_runs(path)}
    missing = [number for number in range(runs) if number not in done]
    with path.open("a", encoding="utf-8") as file:
        if file.tell():  # an interrupted run may have left half a line
            file.write("\n")
        for number, result in zip(missing, _results(run, name, missing, workers), strict=True):
            record = {"name": name, "run": number, **result}
            file.write(json.dumps(record) + "\n")
            file.flush()
            done[number] = record
    return [done[number] for number in range(runs)]


def read_runs(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def _results(run: Run, name: str, numbers: list[int], workers: int) -> Iterator[dict[str, Any]]:
    if workers == 1 or len(numbers) < 2:
        yield from (run(name, number) for number in numbers)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(run, [name] * len(numbers), numbers, chunksize=2)
