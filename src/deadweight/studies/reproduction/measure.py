"""One run: its episodes drawn, its drop sets found, and every column of the experiment estimated.

This is what a worker process does; it depends on nothing but its task.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from deadweight.estimate import evaluate
from deadweight.log.state_sets import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.negligible import DropWarning, covariance, lift, q_gap
from deadweight.studies.reproduction.protocols import RELATIVE_EPSILON, Protocol
from deadweight.studies.reproduction.spec import EXPERIMENTS, Column, Experiment
from deadweight.studies.reproduction.worlds import World, exact_bound, world
from deadweight.values.model import fit_mdp

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
    """All rows of a run."""
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
            found = table[column.estimator]
            visited = set(log.state_labels[np.unique(log.states)].tolist())
            n_dropped = len(visited.intersection(found.dropped))
            rows[column.label] = Row(
                task.setting, task.run, column.label, found.value, n_dropped, found.dropped_share
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
