"""Doubts about a log: how often flags are raised, rightly and wrongly.

`deadweight study doubts` is about the old policy: logs of problems with exact truths are evaluated with the
exact probabilities, with those of one action doubled or halved, and with those of another policy; each as a
table and as a logged column. What is counted is what stands on BLEND, which the verdict rests on.

`python -m deadweight_studies.doubts 200` is about the episodes: logs of a random problem and of an old policy
that looked at more than the state, with and without episodes of one person, conditions that change, copies,
and a severity that nobody logged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deadweight.answers.answering import Answers
from deadweight.diagnostics.weight_report import is_contradicted, mean_weight_z
from deadweight.domains import deterministic_lift
from deadweight.log.trajectories import Trajectories, episode_of_rows
from deadweight.question.drops import NOTHING_DROPPED
from deadweight.question.question import ask
from deadweight.tools.thresholds import FAR_FROM_ONE
from deadweight.typing import FloatArray
from deadweight.verbs.estimate import evaluate
from deadweight_studies.problems import StudyProblem, hard_problems, random_problem, study_problems
from deadweight_studies.records import Record
from deadweight_studies.study import Study, markdown, of_problems

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
    return {cell.name: cell for cell in (*lifts, *study_problems(), *hard_problems(), *horizons)}


def run(name: str, number: int) -> dict[str, Any]:
    """What is said of one log, by probabilities as stated and by form."""
    cell, place = cells()[name], list(cells()).index(name)
    rng = np.random.default_rng([SEED, place, number])
    log, pi_b = cell.sample(int(rng.integers(2**31))), cell.pi_b.probs
    action = number % pi_b.shape[1]
    another = 0.9 * rng.dirichlet(np.ones(pi_b.shape[1]), len(pi_b)) + 0.1 / pi_b.shape[1]
    tables = (pi_b, _times(pi_b, action, 2.0), _times(pi_b, action, 0.5), another)
    stated = dict(zip(STATED, tables, strict=True))
    record: dict[str, Any] = {}
    for kind, probs in stated.items():
        summing = probs / probs.sum(axis=1, keepdims=True)
        logged = log.with_propensities(probs[log.states, log.actions])
        asked = (ask(log, cell.pi_e.probs, summing), ask(logged, cell.pi_e.probs))
        for form, question in zip(FORMS, asked, strict=True):
            z = mean_weight_z(Answers(question, ()), NOTHING_DROPPED.weighting(question.pair))
            far = z is not None and abs(z) > FAR_FROM_ONE
            record[f"{kind} {form}"] = [z is not None, far, is_contradicted(question)]
    return record


def _times(probs: FloatArray, action: int, factor: float) -> FloatArray:
    """The probabilities with those of one action off by a factor, as far as they can be."""
    wrong = probs.copy()
    wrong[:, action] = np.minimum(wrong[:, action] * factor, 1.0)
    return wrong


def line(name: str, records: list[Record]) -> Line:
    """The shares of a cell."""
    shares = {}
    for kind in STATED:
        forms = [np.array([record[f"{kind} {form}"] for record in records]) for form in FORMS]
        rates = np.array(
            [[*raised[:, 1:].mean(axis=0), raised[:, 1:].any(axis=1).mean()] for raised in forms]
        )
        worst = rates.max(axis=0) if kind == EXACT else rates.min(axis=0)
        shares[kind] = dict(zip(DOUBTS, worst.tolist(), strict=True))
    said = float(np.mean([record[f"{EXACT} {FORMS[0]}"][0] for record in records]))
    return Line(name, len(records), said, shares)


def table(lines: list[Line]) -> str:
    """False alarms, then what wrong probabilities raise."""
    shown = [(kind, doubt) for kind in STATED for doubt in (DOUBTS if kind == EXACT else DOUBTS[2:])]
    heads = ["problem", "logs", "mean can be tested", *(f"{kind}: {doubt}" for kind, doubt in shown)]
    rows = [
        [line.problem, str(line.runs), f"{line.said:.2f}"]
        + [f"{line.shares[kind][doubt]:.3f}" for kind, doubt in shown]
        for line in lines
    ]
    return markdown(heads, rows) + "\n"


def _words(line: Line) -> str:
    shares = ", ".join(f"{kind} {by_doubt['either']:.3f}" for kind, by_doubt in line.shares.items())
    return f"{line.problem}, {line.runs} logs: {shares}"


STUDY = Study(
    name="doubts",
    cells=cells,
    run=run,
    fingerprint=of_problems(SEED),
    folder="",
    line=line,
    table=table,
    words=_words,
)


# --- Doubts about the episodes

FLAGS = ("confounded-model", "maybe-clustered", "drift", "copies")
LOGGED = 1_000
HORIZON = 3
PI_E = np.tile([0.4, 0.6], (3, 1))

Cell = Callable[[np.random.Generator], tuple[Trajectories, Any, Any]]


def doubtful_logs() -> dict[str, Cell]:
    """By name, what draws a log with its two policies."""
    problem = random_problem(8, 3, 12, seed=1)

    def changed(shape: Callable[[np.random.Generator, int], FloatArray]) -> Cell:
        def draw(rng: np.random.Generator) -> tuple[Trajectories, Any, Any]:
            log = problem.sample(LOGGED, _seed(rng))
            rewards = log.rewards + rng.normal(size=log.n_steps)
            spread = np.add.reduceat(rewards, log.offsets[:-1]).std()
            each = shape(rng, LOGGED) * spread / log.lengths
            return _paid(log, rewards + each[episode_of_rows(log)]), problem.pi_e, problem.pi_b

        return draw

    def persons(size: int, share: float) -> Cell:
        each = np.sqrt(share / (1 - share))
        return changed(lambda rng, n: each * np.repeat(rng.normal(size=-(-n // size)), size)[:n])

    def copied(share: float) -> Cell:
        def draw(rng: np.random.Generator) -> tuple[Trajectories, Any, Any]:
            log = problem.sample(LOGGED, _seed(rng))
            again = rng.choice(LOGGED, int(share * LOGGED), replace=False)
            return log.select(np.append(np.arange(LOGGED), again)), problem.pi_e, problem.pi_b

        return draw

    return {
        "nothing": changed(lambda rng, n: np.zeros(n)),
        "persons of 5 episodes, intraclass correlation .5": persons(5, 0.5),
        "persons of 5 episodes, .3": persons(5, 0.3),
        "persons of 2 episodes, .3": persons(2, 0.3),
        "returns rise by one standard deviation": changed(lambda rng, n: np.linspace(-0.5, 0.5, n)),
        "returns fall by half of one halfway": changed(lambda rng, n: np.repeat([0.25, -0.25], n // 2)),
        "rewards of the problem alone": copied(0.0),
        "the same, one in twenty copied": copied(0.05),
        "a severity that changes what is done only": lambda rng: severe(rng, 0.0),
        "a severity that pays .3 of a standard deviation": lambda rng: severe(rng, 0.3),
        "a severity that pays one": lambda rng: severe(rng, 1.0),
    }


def severe(rng: np.random.Generator, pays: float) -> tuple[Trajectories, Any, Any]:
    """Three states at random; the old policy acts by a severity, and its probabilities are logged."""
    n = LOGGED
    severity = np.repeat(rng.random(n) < 0.5, HORIZON)
    chance = np.where(severity, 0.8, 0.3)
    states = np.tile(np.arange(HORIZON), n)
    actions = (rng.random(n * HORIZON) < chance).astype(np.int64)
    rewards = states + actions + pays * severity + rng.normal(size=n * HORIZON)
    logged = np.where(actions == 1, chance, 1 - chance)
    log = Trajectories(states, actions, rewards, np.arange(0, n * HORIZON + 1, HORIZON), propensities=logged)
    return log, PI_E, None


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 31))


def _paid(log: Trajectories, rewards: FloatArray) -> Trajectories:
    return Trajectories(log.states, log.actions, rewards, log.offsets, terminated=log.terminated)


def shares_of_flags(runs: int) -> Iterator[str]:
    """The lines of the table: shares of logs with each flag."""
    yield f"| logs of {LOGGED:,} episodes | {' | '.join(FLAGS)} |"
    yield "| --- |" + " ---: |" * len(FLAGS)
    for place, (name, draw) in enumerate(doubtful_logs().items()):
        raised = np.zeros(len(FLAGS))
        for number in range(runs):
            log, pi_e, pi_b = draw(np.random.default_rng([2026, place, number]))
            flags = evaluate(log, pi_e, pi_b, ["BLEND"], background=False).headline.flags
            raised += [flag in flags for flag in FLAGS]
        yield f"| {name} | {' | '.join(f'{share:.3f}' for share in raised / runs)} |"


if __name__ == "__main__":
    for text in shares_of_flags(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
