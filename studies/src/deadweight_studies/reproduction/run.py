"""The runner: makes the runs that are not there yet, in parallel, and keeps each as soon as it is finished.

Workers are processes of their own, also when there is only one, so that the numbers do not depend on how many
there are.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deadweight._version import __version__
from deadweight.log.labels import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.covariance_test import covariance
from deadweight.negligible.state_tests import DropWarning, lift, q_gap
from deadweight.tools.files import check_folder, write_whole, writing
from deadweight.values.model import fit_mdp
from deadweight.verbs.estimate import evaluate
from deadweight_studies.records import Job, Record, Store, fill, remarks
from deadweight_studies.reproduction.spec import EXPERIMENTS, Column, Experiment
from deadweight_studies.reproduction.worlds import (
    RELATIVE_EPSILON,
    TAXI_FILES,
    Protocol,
    World,
    exact_bound,
    taxi_policies,
    world,
)

# --- One run

EXACT = -1  # the "run" that holds what is known without sampling
REFERENCE, SAMPLED_RETURN, BEHAVIOUR_VALUE = "reference", "sampled return", "behaviour value"
BOUNDS = {"Cramer-Rao": False, "Cramer-Rao (pooled)": True}  # whether the model is the same at all times
MODEL_BASED = ("DR", "WDR", "DRSIS", "WDRSIS", "DM")


@dataclass(frozen=True)
class Task:
    """A run to be made: number `run` of a setting, or its exact values (`EXACT`)."""

    experiment: str
    setting: int
    run: int
    protocol: Protocol
    policies: str | None = None


@dataclass(frozen=True)
class Row:
    """One number of one run, with what was dropped for it."""

    setting: int
    run: int
    column: str
    value: float
    n_dropped: int = 0
    dropped_share: float = 0.0


def measure(task: Task) -> list[Row]:
    """All rows of a run, which a worker process makes from nothing but its task."""
    experiment = EXPERIMENTS[task.experiment]
    here = world(task.experiment, task.setting, task.protocol, task.policies)
    if task.run == EXACT:
        return _exact(experiment, here, task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)  # the rows themselves say how much was dropped
        return _estimates(experiment, here, task)


def _exact(experiment: Experiment, here: World, task: Task) -> list[Row]:
    values = {REFERENCE: here.reference, BEHAVIOUR_VALUE: here.problem.behaviour_value}
    if task.protocol.with_extras:
        episodes = experiment.episodes_of(task.setting)
        values |= {name: exact_bound(here.problem, episodes, pooled) for name, pooled in BOUNDS.items()}
    return [Row(task.setting, EXACT, name, value) for name, value in values.items()]


def _estimates(experiment: Experiment, here: World, task: Task) -> list[Row]:
    log, protocol = here.log(task.run), task.protocol
    ended = as_ended(log) if protocol.has("D6") else log
    drops = _Drops(experiment, here, protocol, log, ended)
    columns = (*experiment.columns, *(experiment.extras if protocol.with_extras else ()))
    rows = {}
    for (rule, modelled), group in _groups(columns).items():
        names = [column.estimator for column in group]
        table = evaluate(
            ended if modelled else log,
            here.problem.pi_e,
            here.problem.pi_b,
            names,
            drop=drops.of(rule),
            interval=None,
            **protocol.options(experiment),
        )
        for column in group:
            estimate = table[column.estimator]
            visited = set(log.state_labels[np.unique(log.states)].tolist())
            n_dropped = len(visited.intersection(estimate.dropped))
            rows[column.label] = Row(
                task.setting, task.run, column.label, estimate.value, n_dropped, estimate.dropped_share
            )
    result = [rows[column.label] for column in columns]
    if here.sampled_return is not None:
        result.append(Row(task.setting, task.run, SAMPLED_RETURN, here.sampled_return(task.run)))
    return result


def _groups(columns: tuple[Column, ...]) -> dict[tuple[str, bool], list[Column]]:
    """Columns that can share one call: the same drop (plain names ignore it) and the same log."""
    groups: dict[tuple[str, bool], list[Column]] = {}
    for column in columns:
        groups.setdefault((column.rule or "q", column.estimator in MODEL_BASED), []).append(column)
    return groups


def as_ended(log: Trajectories) -> Trajectories:
    """The log with every cut taken for termination, and the states after the cut forgotten."""
    if log.terminated.all():
        return log
    labels = log.state_labels[log.states]
    actions = log.action_labels[log.actions]
    return Trajectories(labels, actions, log.rewards, log.offsets, log.propensities)


class _Drops:
    """Drop sets of one run, each found once."""

    def __init__(
        self, experiment: Experiment, here: World, protocol: Protocol, log: Trajectories, ended: Trajectories
    ) -> None:
        self.experiment, self.problem, self.protocol = experiment, here.problem, protocol
        self.log, self.ended = log, ended
        self._found: dict[str, Any] = {}

    def of(self, rule: str) -> Any:
        """What `evaluate` takes as its drop."""
        if rule not in self._found:
            self._found[rule] = getattr(self, "_" + rule)()
        return self._found[rule]

    def _q(self) -> StateSet:
        protocol, experiment = self.protocol, self.experiment
        unseen = experiment.q_unseen if protocol.has("D10") else "pool"
        # The published Q test of taxi sees the state after the cut; that of inventory shares the DR model.
        log = self.log if unseen == "mean" else self.ended
        epsilon = experiment.epsilon
        if not protocol.has("D8"):
            epsilon = RELATIVE_EPSILON * _range_of_last_q(log)
        return q_gap(log, self.problem.pi_e, epsilon, unseen=unseen, solve="longest")

    def _lift(self) -> StateSet:
        return lift(self.problem.mdp)

    def _covariance(self) -> StateSet:
        variance = "sample" if self.protocol.has("D3") else "estimator"
        return covariance(self.log, self.problem.pi_e, self.problem.pi_b, variance=variance)

    def _auto(self) -> str:
        return "auto"


def _range_of_last_q(log: Trajectories) -> float:
    """Range of Q at the last step, which is the mean reward, over the pairs that were seen."""
    seen = np.zeros((log.n_states, log.n_actions), dtype=bool)
    seen[log.states, log.actions] = True
    return float(np.ptp(fit_mdp(log).r[seen]))


# --- Rows on disk

RunKey = tuple[int, int]  # setting, run
FIELDS = ("setting", "run", "column", "value", "n_dropped", "dropped_share")


class RowStore:
    """The rows of one experiment under one protocol: records run by run, and published as one Parquet file.

    The records (`rows/<protocol>/<experiment>.jsonl`) are what is read again; the Parquet file beside them is
    written from all of them whenever they are gathered, and its bytes depend on the rows alone.

    Args:
      folder: the output folder.
      made_with: the fingerprint of everything that the rows depend on, with "protocol" and "experiment".
    """

    def __init__(self, folder: Path, made_with: Mapping[str, str]) -> None:
        self.made_with = made_with
        self.experiment = EXPERIMENTS[made_with["experiment"]]
        self.records = Store(
            self.records_file(folder, made_with["protocol"], self.experiment.name), made_with
        )
        self.path = self.records.path.with_suffix(".parquet")

    @staticmethod
    def records_file(folder: Path, protocol: str, experiment: str) -> Path:
        """Where the records of an experiment are."""
        return folder / "rows" / protocol / f"{experiment}.jsonl"

    @property
    def runs(self) -> dict[RunKey, list[Row]]:
        """Rows of every finished run, in the order of the settings."""
        order = {setting: i for i, setting in enumerate(self.experiment.settings)}
        kept = {(int(key[0]), int(key[1])): record["rows"] for key, record in self.records.items()}
        return {
            key: [Row(*key, *values) for values in kept[key]]
            for key in sorted(kept, key=lambda key: (order[key[0]], key[1]))
        }

    def add(self, setting: int, run: int, rows: list[Row]) -> None:
        """Put a finished run on disk."""
        self.records.put((setting, run), as_record(rows))

    def gather(self) -> None:
        """Sort the records, and write all rows into one file."""
        import pyarrow
        import pyarrow.parquet

        self.records.tidy()
        types = (
            pyarrow.int32(),
            pyarrow.int32(),
            pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
            pyarrow.float64(),
            pyarrow.int32(),
            pyarrow.float64(),
        )
        schema = pyarrow.schema(list(zip(FIELDS, types, strict=True)), metadata=dict(self.made_with))
        columns = zip(*(astuple(row) for rows in self.runs.values() for row in rows), strict=True)
        arrays = [pyarrow.array(values, type=type_) for values, type_ in zip(columns, types, strict=True)]
        table = pyarrow.table(arrays, schema=schema)
        with writing(self.path):
            write_whole(self.path, lambda file: pyarrow.parquet.write_table(table, file, compression="zstd"))


def as_record(rows: list[Row]) -> Record:
    """The rows of one run; setting and run are the key."""
    return {"rows": [list(astuple(row)[2:]) for row in rows]}


# --- All runs

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
