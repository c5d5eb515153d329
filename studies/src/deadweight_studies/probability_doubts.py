"""Doubts about the old policy: how often the flags of its probabilities are raised, rightly and wrongly.

Logs of problems with exact truths are evaluated with the exact probabilities, with those of one action
doubled or halved, and with those of another policy; each as a table and as a logged column. What is counted
is what stands on BLEND, which the verdict rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.diagnostics.weight_report import is_contradicted, mean_weight_z
from deadweight.mdp.paper_domains import deterministic_lift
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import ask
from deadweight.tools.thresholds import FAR_FROM_ONE
from deadweight.typing import FloatArray
from deadweight_studies.problems import StudyProblem, hard_problems, random_problem, study_problems
from deadweight_studies.runs import first_runs, make_runs, open_stores

SEED = 1923
EXACT = "exact"
STATED = (EXACT, "doubled", "halved", "another policy's")
FORMS = ("table", "column")
DOUBTS = ("mean-weight", "behaviour-miscalibrated", "either")


@dataclass(frozen=True)
class Line:
    """One problem.

    Attributes:
      problem: its name.
      runs: logs.
      said: share of the logs with exact probabilities whose mean weight can be tested at all.
      shares: by probabilities as stated and doubt, the share of logs with it; of table and column the one
        that is further from what it should be.
    """

    problem: str
    runs: int
    said: float
    shares: dict[str, dict[str, float]]


@cache
def cells() -> dict[str, StudyProblem]:
    """All problems, in the order that their seeds depend on."""
    lifts = [
        StudyProblem(f"deterministic lift {size}, n = {n}", deterministic_lift(size), n)
        for size in (7, 11, 17)
        for n in (200, 1000)
    ]
    horizons = [
        StudyProblem(f"random 8 x 3, {steps} steps, n = {n}", random_problem(8, 3, steps, seed=steps), n)
        for steps in (3, 5, 10, 25)
        for n in (50, 200, 1000)
    ]
    return {one.name: one for one in (*lifts, *study_problems(), *hard_problems(), *horizons)}


def run(name: str, number: int) -> dict[str, Any]:
    """What is said of one log, by probabilities as stated and by form."""
    every = cells()
    cell = every[name]
    rng = np.random.default_rng([SEED, list(every).index(name), number])
    log, pi_b = cell.sample(int(rng.integers(2**31))), cell.pi_b.probs
    action = number % pi_b.shape[1]
    other = 0.9 * rng.dirichlet(np.ones(pi_b.shape[1]), len(pi_b)) + 0.1 / pi_b.shape[1]
    tables = (pi_b, _times(pi_b, action, 2.0), _times(pi_b, action, 0.5), other)
    stated = dict(zip(STATED, tables, strict=True))
    found: dict[str, Any] = {}
    for kind, probs in stated.items():
        summing = probs / probs.sum(axis=1, keepdims=True)
        logged = log.with_propensities(probs[log.states, log.actions])
        asked = (ask(log, cell.pi_e.probs, summing), ask(logged, cell.pi_e.probs))
        for form, question in zip(FORMS, asked, strict=True):
            z = mean_weight_z(Answers(question, ()), NOTHING_DROPPED.weighting(question.pair))
            far = z is not None and abs(z) > FAR_FROM_ONE
            found[f"{kind} {form}"] = [z is not None, far, is_contradicted(question)]
    return found


def _times(probs: FloatArray, action: int, factor: float) -> FloatArray:
    """The probabilities with those of one action off by a factor, as far as they can be."""
    wrong = probs.copy()
    wrong[:, action] = np.minimum(wrong[:, action] * factor, 1.0)
    return wrong


def study(folder: Path, runs: int, workers: int, tell: Callable[[str], None]) -> Iterator[Line]:
    """The lines, as they are finished."""
    stores = open_stores(folder, "doubts", cells(), SEED)
    for name in make_runs(stores, run, runs, workers, tell):
        yield _line(name, first_runs(stores[name], runs))


def _line(name: str, records: list[Any]) -> Line:
    shares = {}
    for kind in STATED:
        forms = [np.array([record[f"{kind} {form}"] for record in records]) for form in FORMS]
        rates = np.array([[*one[:, 1:].mean(axis=0), one[:, 1:].any(axis=1).mean()] for one in forms])
        worst = rates.max(axis=0) if kind == EXACT else rates.min(axis=0)
        shares[kind] = dict(zip(DOUBTS, worst.tolist(), strict=True))
    said = float(np.mean([record[f"{EXACT} {FORMS[0]}"][0] for record in records]))
    return Line(name, len(records), said, shares)


def markdown(lines: list[Line]) -> str:
    """The table: false alarms, then what wrong probabilities raise."""
    head = [f"{kind}: {doubt}" for kind in STATED for doubt in (DOUBTS if kind == EXACT else DOUBTS[2:])]
    rows = ["| problem | logs | mean can be tested | " + " | ".join(head) + " |"]
    rows.append("| --- |" + " ---: |" * (len(head) + 2))
    for line in lines:
        numbers = [
            f"{line.shares[kind][doubt]:.3f}"
            for kind in STATED
            for doubt in (DOUBTS if kind == EXACT else DOUBTS[2:])
        ]
        rows.append(f"| {line.problem} | {line.runs} | {line.said:.2f} | {' | '.join(numbers)} |")
    return "\n".join(rows) + "\n"
