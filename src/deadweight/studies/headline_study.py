"""How good is the headline? BLEND and the rows beside it, on problems whose answer is known.

A run is one log: every row of the table with its interval, the verdict, and the verdict where the new policy
is the old one with probabilities from counts. Cells on which the rule was chosen stand apart from those on
which it was not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.domains import stochastic_lift
from deadweight.estimate import evaluate
from deadweight.estimating import answered_table
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.extremes import DropWarning
from deadweight.policy.behaviour import estimate_behaviour
from deadweight.policy.policies import TabularPolicy
from deadweight.question.asking import ask
from deadweight.question.core import Question
from deadweight.question.learned_behaviour import fit_behaviour
from deadweight.records import digest
from deadweight.studies.cartpole import BinnedCartpole
from deadweight.studies.hard import endless, frailty, hard_problems, late_reward, previous_action
from deadweight.studies.interval_coverage import cells as old_cells
from deadweight.studies.magic import magic
from deadweight.studies.problems import StudyProblem, hidden, random_problem
from deadweight.studies.real_kinds import Cell, Confounded, InFeatures, Kind, real_cells
from deadweight.studies.runs import Stores, make_runs, store_of
from deadweight.verdict import verdict

SEED = 2029
LEVEL = 0.95
MAGIC_SEED = 2016
NAMES = ("BLEND", "BEHAVIOUR", "DM", "LIN", "WIS", "WPDIS", "C-WSPDIS", "WDR", "WDRSIS")
# Estimates that a mix has beside those of the table.
ALSO = ("WIN3", "WIN2")
# Rows whose automatic drop is compared with the free one.
DROPPED = ("C-WSPDIS", "WDRSIS")
# Headlines of earlier versions, whose verdicts stand beside that of the mix.
BEFORE = ("C-WSPDIS", "WPDIS")


Task = StudyProblem | BinnedCartpole | Confounded | InFeatures


@cache
def headline_cells() -> dict[str, Cell]:
    """All cells by name, in the order that their seeds depend on."""
    tasks: list[Task] = [*old_cells().values(), *hard_problems()]
    tasks += [
        StudyProblem(f"stochastic lift {size}, uncut", stochastic_lift(size), 1000) for size in (7, 11, 17)
    ]
    cells = [Cell(task, True, _kind(task)) for task in (*tasks, *fresh_problems())]
    return {named(cell.task): cell for cell in [*cells, *real_cells()]}


def _kind(task: Task) -> Kind:
    """Of a cell that was here before there were kinds."""
    as_it_is = isinstance(task, StudyProblem) and task.shown is None
    return "well specified" if as_it_is else "not Markov"


def named(task: Task) -> str:
    """The name of a task with its number of episodes, which some names have already."""
    number = f", n = {task.episodes}"
    return f"{task.name.removesuffix(number)}{number}"


def fresh_problems() -> list[StudyProblem | BinnedCartpole]:
    """Tasks of older kinds, on which no rule for a drop was chosen, nor the first rule of BLEND."""
    return [
        BinnedCartpole(),
        StudyProblem("stochastic lift 9, uncut", stochastic_lift(9), 1000),
        previous_action("previous action pays, 8 x 2", 8, 2, horizon=10, seed=31, episodes=400),
        frailty("hidden frailty, 6 x 3", 6, 3, horizon=12, seed=32, episodes=300),
        StudyProblem("random 40 x 4", random_problem(40, 4, 15, seed=33), 120),
        StudyProblem("random 15 x 3", random_problem(15, 3, 15, seed=34), 250),
        StudyProblem("late reward, 30 x 3", late_reward(30, 3, seed=35), 300),
        StudyProblem("fixed horizon, 20 x 3", endless(20, 3, horizon=15, seed=36), 250),
        hidden("hidden 12 x 3", random_problem(24, 3, 15, seed=37), 400),
        replace(hidden("hidden 10 x 2", random_problem(20, 2, 30, seed=38), 300), episodes=150),
    ]


def run(name: str, number: int) -> dict[str, Any]:
    """One log of a cell, ready for JSON."""
    cells = headline_cells()
    return measured(cells[name].task, np.random.SeedSequence([SEED, list(cells).index(name), number]))


def measured(task: Task, seed: np.random.SeedSequence) -> dict[str, Any]:
    """All that a run keeps of one log."""
    log = task.sample(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)
        question = ask(log, task.pi_e, task.pi_b)
        table, _ = answered_table(question, NAMES, "auto", None, "auto", LEVEL)
        free = evaluate(log, task.pi_e, task.pi_b, DROPPED, drop="auto:free", interval=None)
        null = evaluate(log, *_same_policy(task, log), ["BEHAVIOUR", "BLEND"], background=False)
    headline = table["BLEND"]
    mix = headline.blend
    assert mix is not None
    parts = {part.name: part.value for part in mix.parts}
    before = {one: verdict(table[one], table["BEHAVIOUR"]).answer for one in BEFORE}
    return {
        "rows": {one: [table[one].value, *(table[one].interval or ())] for one in table},
        "parts": {one: parts[one] for one in ALSO if one in parts},
        "shares": mix.shares,
        "magic": magic(question, np.random.default_rng(MAGIC_SEED)),
        "free": {one: free[one].value for one in DROPPED},
        "flags": list(headline.flags),
        "infinite": "infinite-variance" in table["WPDIS"].flags,
        "error": table["DM"].std_error,
        "verdict": judged(table.verdict.answer, task.values),
        "before": {one: judged(answer, task.values) for one, answer in before.items()},
        "null": null.verdict.answer,
        "evidence": evidence_of(question),
    }


def _same_policy(task: Task, log: Trajectories) -> tuple[Any, Any]:
    """The old policy as a new one, and as it is known from the log itself."""
    if not log.has_states:
        return task.pi_b, fit_behaviour(log, candidates=["logit"], seed=0)
    counted = estimate_behaviour(log)
    return (task.pi_b if isinstance(task.pi_b, TabularPolicy) else counted), counted


def evidence_of(question: Question) -> dict[str, Any]:
    """What the mix of a question was made of, as far as it is numbers: other rules can be tried on it."""
    made = next(one for one in question.paths.values() if is_dataclass(one) and hasattr(one, "covariance"))
    found = {one.name: getattr(made, one.name) for one in fields(made)}
    size = len(found["names"])
    return {name: _kept(value) for name, value in found.items() if _is_kept(value, size)}


def _is_kept(value: object, size: int) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim <= 2 and all(length == size for length in value.shape)
    words = isinstance(value, tuple) and all(isinstance(one, str) for one in value)
    return words or isinstance(value, bool | int | float | str)


def _kept(value: Any) -> Any:
    """With twelve digits, which is all that a replay needs."""
    if isinstance(value, np.ndarray | tuple):
        return [_kept(one) for one in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def judged(answer: str, values: tuple[float, float]) -> str:
    """Whether a verdict is "right", "wrong", or "cannot tell"."""
    if answer == "cannot tell":
        return answer
    return "right" if (answer == "better") == (values[0] > values[1]) else "wrong"


def stores(out: Path) -> Stores:
    """The store of every cell."""
    return {
        name: store_of(out / "runs", "headline", name, digest(place, SEED, NAMES, DROPPED, *facts(cell.task)))
        for place, (name, cell) in enumerate(headline_cells().items())
    }


def facts(task: Any) -> Iterator[object]:
    """What the logs of a task depend on."""
    yield from (task.name, task.episodes, task.values, repr(getattr(task, "noise", None)))
    yield from (one.probs for one in (task.pi_e, task.pi_b) if isinstance(one, TabularPolicy))


def study(
    out: Path,
    runs: int,
    workers: int = 1,
    only: Iterable[str] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Iterator[str]:
    """Make all runs that `out` does not hold yet; yields the name of each finished cell."""
    return make_runs(stores(out), run, runs, workers, tell, only)
