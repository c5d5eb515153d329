"""The runner: makes the runs that are not there yet, in parallel, and keeps each as soon as it is finished.

Workers are fresh processes with one BLAS thread each, also when there is only one, so that the numbers do not
depend on how many there are. Only this process writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from deadweight._version import __version__
from deadweight.experiments.measure import EXACT, Row, Task, measure
from deadweight.experiments.protocols import Protocol
from deadweight.experiments.spec import EXPERIMENTS, Experiment
from deadweight.experiments.store import OutputError, Store, write_whole
from deadweight.experiments.worlds import TAXI_FILES, taxi_policies

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
Advance = Callable[[float, float, str], None]  # seconds' worth done, seconds' worth in all, what was done


@dataclass(frozen=True)
class Work:
    """What is asked for.

    Attributes:
      experiments: names.
      protocol: how they are made.
      folder: where results go.
      runs: the first so many runs of each setting; None for all.
      workers: processes.
      policies: folder with taxi policies; None for those of the package.
    """

    experiments: tuple[str, ...]
    protocol: Protocol
    folder: Path
    runs: int | None = None
    workers: int = 1
    policies: str | None = None


def carry_out(work: Work, advance: Advance = lambda done, total, what: None) -> dict[str, Store]:
    """Make all runs that are missing, and return the stores with all of them gathered."""
    check_folder(work.folder)
    stores = {name: open_store(work, name) for name in work.experiments}
    tasks = [task for name in work.experiments for task in _missing(work, stores[name])]
    costs = {task: _cost(task) for task in tasks}
    total, done = sum(costs.values()), 0.0
    advance(0.0, total, "")
    for task, rows in _finished(tasks, work.workers):
        stores[task.experiment].add(task.setting, task.run, rows)
        done += costs[task]
        advance(done, total, f"{task.experiment} {task.setting}")
    for store in stores.values():
        store.gather()
    return stores


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to before any work is done."""
    probe = folder / "rows" / "writable"
    write_whole(probe, lambda temporary: temporary.write_bytes(b"x" * 4096))
    with contextlib.suppress(OSError):
        probe.unlink()


def open_store(work: Work, experiment: str) -> Store:
    """The store of an experiment, with the fingerprint that its rows must have."""
    fingerprint = {"version": __version__, "protocol": work.protocol.name, "experiment": experiment}
    fingerprint["policies"] = _policies_print(experiment, work.policies)
    spec = repr(replace(EXPERIMENTS[experiment], costs=()))
    fingerprint["spec"] = hashlib.sha256(spec.encode()).hexdigest()[:16]
    return Store(work.folder, work.protocol.name, experiment, fingerprint)


def _policies_print(experiment: str, policies: str | None) -> str:
    """Which policies taxi runs with: a digest of the files given, or "own"."""
    if experiment != "taxi" or policies is None:
        return "own"
    taxi_policies(policies)  # says what is wrong with them, if anything is
    digest = hashlib.sha256()
    for name in TAXI_FILES:
        digest.update((Path(policies) / name).read_bytes())
    return digest.hexdigest()[:16]


def run_count(experiment: Experiment, runs: int | None) -> int:
    """How many runs of a setting are wanted."""
    return experiment.runs if runs is None else min(runs, experiment.runs)


def _missing(work: Work, store: Store) -> Iterator[Task]:
    experiment = store.experiment
    policies = work.policies if experiment.name == "taxi" else None
    for setting in experiment.settings:
        for run in (EXACT, *range(run_count(experiment, work.runs))):
            if (setting, run) not in store.runs:
                yield Task(experiment.name, setting, run, work.protocol, policies)


def _cost(task: Task) -> float:
    experiment = EXPERIMENTS[task.experiment]
    return experiment.costs[experiment.settings.index(task.setting)]


def _finished(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, list[Row]]]:
    """Tasks with their rows, as they come."""
    if not tasks:
        return
    context = multiprocessing.get_context("spawn")
    with _one_thread(), ProcessPoolExecutor(min(workers, len(tasks)), context, _follow_parent) as pool:
        waiting = iter(tasks)
        running: dict[Future[list[Row]], Task] = {}
        try:
            while True:
                # A short queue: whatever goes wrong, little is under way.
                for task in _take(waiting, 2 * workers - len(running)):
                    running[pool.submit(measure, task)] = task
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    task = running.pop(future)
                    yield task, _result(future, task)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _take(tasks: Iterator[Task], most: int) -> list[Task]:
    return [task for _, task in zip(range(most), tasks, strict=False)]


def _result(future: Future[list[Row]], task: Task) -> list[Row]:
    from concurrent.futures.process import BrokenProcessPool

    try:
        return future.result()
    except BrokenProcessPool:
        raise OutputError(
            f"A worker process ended while it made run {task.run} of {task.experiment} {task.setting}.",
            fix="Memory may have run out: use fewer --workers. Finished runs are kept; start again to go on.",
        ) from None


def _follow_parent() -> None:
    """End this worker when the process that started it is gone, even if that was killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait_for_end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """New processes see one BLAS thread; several workers with several threads each only hinder each other."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
