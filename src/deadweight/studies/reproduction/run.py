"""The runner: makes the runs that are not there yet, in parallel, and keeps each as soon as it is finished.

Workers are processes of their own, also when there is only one, so that the numbers do not depend on how many
there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from deadweight._version import __version__
from deadweight.basics.atomic import check_folder
from deadweight.records import Job, Record, fill, remarks
from deadweight.studies.reproduction.experiment_rows import RowStore, as_record
from deadweight.studies.reproduction.measure import EXACT, Task, measure
from deadweight.studies.reproduction.protocols import Protocol
from deadweight.studies.reproduction.spec import EXPERIMENTS, Experiment
from deadweight.studies.reproduction.worlds import TAXI_FILES, taxi_policies

Advance = Callable[[float, float, str], None]  # seconds' worth done, seconds' worth in all, what was done
Tell = Callable[[str], None]


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


def carry_out(
    work: Work,
    advance: Advance = lambda done, total, what: None,
    tell: Tell = lambda line: None,
) -> dict[str, RowStore]:
    """Make all runs that are missing, and return the stores with all of them gathered.

    `tell` gets a line on what was found damaged, or made by another version.
    """
    check_folder(work.folder / "rows")
    stores = {name: open_store(work, name) for name in work.experiments}
    for line in remarks([store.records for store in stores.values()]):
        tell(line)
    jobs = [job for store in stores.values() for job in _jobs(work, store) if not job.done]
    total, done = sum(_cost(job) for job in jobs), 0.0
    advance(0.0, total, "")
    for job in fill(jobs, record_of, work.workers, apart=True):
        done += _cost(job)
        task = _task(job)
        advance(done, total, f"{task.experiment} {task.setting}")
    for store in stores.values():
        store.gather()
    return stores


def record_of(task: Task) -> Record:
    """What a worker makes of a task."""
    return as_record(measure(task))


def open_store(work: Work, experiment: str) -> RowStore:
    """The store of an experiment, with the fingerprint that its rows must have."""
    policies = _policies_print(experiment, work.policies)
    return RowStore(work.folder, made_with(work.protocol.name, experiment, policies))


def made_with(protocol: str, experiment: str, policies: str) -> dict[str, str]:
    """The fingerprint: this version of the package, and all that determines the rows."""
    spec = repr(replace(EXPERIMENTS[experiment], costs=()))
    return {
        "version": __version__,
        "protocol": protocol,
        "experiment": experiment,
        "policies": policies,
        "spec": hashlib.sha256(spec.encode()).hexdigest()[:16],
    }


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


def _jobs(work: Work, store: RowStore) -> Iterator[Job]:
    experiment = store.experiment
    policies = work.policies if experiment.name == "taxi" else None
    for setting in experiment.settings:
        for run in (EXACT, *range(run_count(experiment, work.runs))):
            task = Task(experiment.name, setting, run, work.protocol, policies)
            yield Job(store.records, (setting, run), (task,))


def _task(job: Job) -> Task:
    task: Task = job.arguments[0]
    return task


def _cost(job: Job) -> float:
    task = _task(job)
    experiment = EXPERIMENTS[task.experiment]
    return experiment.costs[experiment.settings.index(task.setting)]
