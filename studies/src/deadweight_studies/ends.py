"""What a log that does not say how its episodes end is taken for, and what that does to the numbers.

Logs of a fixed length are read from tables without flags; logs of tasks that end by themselves must not be
taken for cut; and where nothing was cut, a model solved until it settles has no bias from the length of the
longest episode.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from deadweight.domains import deterministic_lift, stochastic_lift
from deadweight.errors import Assumption
from deadweight.io.open import read
from deadweight.log.trajectories import Trajectories, episode_of_rows, step_of_rows
from deadweight.mdp.problem import Problem, as_policy, simulate
from deadweight.mdp.tabular import TabularMDP
from deadweight.verbs.estimate import estimate, evaluate
from deadweight_studies.problems import StudyProblem, conveyor_belt, random_problem, windy_grid
from deadweight_studies.records import Record
from deadweight_studies.study import Study, markdown, of_problems

SEED = 812
EPISODES = 2_000
FIXED_LENGTH = "fixed length"
LIFTS = (7, 11, 17)
NEVER_CUT = 100_000


def ergodic(n_states: int = 6, n_actions: int = 2, horizon: int = 10, seed: int = 11) -> Problem:
    """A task that never ends by itself, cut after a fixed number of steps."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
    r = rng.normal(size=(n_states, n_actions)) + 0.5
    mdp = TabularMDP(P, r, np.eye(n_states)[0], horizon)
    pi_e, random = (rng.dirichlet(np.full(n_actions, 2.0), n_states) for _ in range(2))
    pi_b = 0.5 * random + 0.5 / n_actions
    return Problem("ergodic", mdp, as_policy(pi_e, mdp), as_policy(pi_b, mdp))


def self_ending() -> dict[str, Problem]:
    """Tasks that end by themselves; where they have a horizon, logs are made without it."""
    return {
        "deterministic lift 7": deterministic_lift(7),
        "deterministic lift 17": deterministic_lift(17),
        **{f"stochastic lift {size}": stochastic_lift(size) for size in LIFTS},
        "conveyor belt": conveyor_belt(),
        "windy grid": windy_grid(),
        "random 8 x 3": random_problem(8, 3, 12, seed=1),
    }


def table_without_flags(log: Trajectories) -> dict[str, Any]:
    """The columns of a log that every table has."""
    return {
        "episode": episode_of_rows(log),
        "step": step_of_rows(log),
        "state": log.states,
        "action": log.actions,
        "reward": log.rewards,
    }


def run_fixed_length(name: str, number: int) -> dict[str, Any]:
    """One log of ten steps an episode, read without flags and, wrongly, as if all episodes had ended."""
    problem = ergodic()
    table = table_without_flags(problem.sample(EPISODES, np.random.SeedSequence([SEED, 0, number])))
    record: dict[str, Any] = {}
    for key, limit in (("inferred", "infer"), ("ended", None)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Assumption)
            log = read(table, time_limit=limit)  # type: ignore[arg-type]
        ev = evaluate(log, problem.pi_e, problem.pi_b)
        old = estimate("DM", log, problem.pi_e, problem.pi_b, interval=None, solve="longest").value
        record[key] = {
            "time_limit": log.time_limit,
            "misfit": "model-misfit" in ev["DM"].flags,
            "headline": ev.headline.name,
            "DM": [ev["DM"].value - problem.true_value, ev["DM"].std_error],
            "headline error": [ev.headline.value - problem.true_value, ev.headline.std_error],
            "DM over the longest": old - problem.true_value,
        }
    return record


def run_self_ending(name: str, number: int) -> dict[str, Any]:
    """One uncut log: is it taken for cut, and where is DM?"""
    problem, place = self_ending()[name], list(self_ending()).index(name)
    seed = np.random.SeedSequence([SEED, 1 + place, number])
    log = simulate(problem.mdp, problem.pi_b, EPISODES // 2, seed, NEVER_CUT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Assumption)
        as_read = read(table_without_flags(log))
    errors = {}
    if problem.horizon is None:
        for solve in ("settled", "longest"):
            dm = estimate("DM", as_read, problem.pi_e, problem.pi_b, interval=None, solve=solve)
            errors[solve] = dm.value - problem.true_value
    return {"time_limit": as_read.time_limit, "errors": errors}


def cells() -> dict[str, StudyProblem]:
    """All problems of the study with the size of a log, in the order that the lines have."""
    ending = {name: StudyProblem(name, problem, EPISODES // 2) for name, problem in self_ending().items()}
    return {FIXED_LENGTH: StudyProblem(FIXED_LENGTH, ergodic(), EPISODES), **ending}


def run(name: str, number: int) -> dict[str, Any]:
    """One log of a cell."""
    return (run_fixed_length if name == FIXED_LENGTH else run_self_ending)(name, number)


CLOSE = ("DM", "headline error")
SOLVES = ("settled", "longest")
HEADINGS = (
    (
        *(
            "2,000 episodes of 10 steps",
            "time limit 10",
            "flag `model-misfit`",
            "DM within 3 standard errors",
        ),
        *("headline within 3 (which)", "mean error of DM", 'the same with `solve="longest"`'),
    ),
    ("1,000 episodes, never cut", "taken for cut", "bias of DM", 'with `solve="longest"`'),
)
Rows = list[list[str]]  # the first cell has two


def line(name: str, records: list[Record]) -> Rows:
    """The rows of a cell."""
    if name == FIXED_LENGTH:
        return [
            _fixed_row("read without flags", [record["inferred"] for record in records]),
            _fixed_row("read with time_limit=None", [record["ended"] for record in records]),
        ]
    limited = sum(record["time_limit"] is not None for record in records)
    errors = [record["errors"] for record in records if record["errors"]]
    return [[name, str(limited), *(_bias([error[solve] for error in errors]) for solve in SOLVES)]]


def _fixed_row(how: str, outcomes: list[dict[str, Any]]) -> list[str]:
    close = {
        name: sum(abs(error) <= 3 * spread for error, spread in (outcome[name] for outcome in outcomes))
        for name in CLOSE
    }
    return [
        how,
        str(sum(outcome["time_limit"] == 10 for outcome in outcomes)),
        str(sum(outcome["misfit"] for outcome in outcomes)),
        str(close["DM"]),
        f"{close['headline error']} ({outcomes[0]['headline']})",
        f"{np.mean([outcome['DM'][0] for outcome in outcomes]):+.3f}",
        f"{np.mean([outcome['DM over the longest'] for outcome in outcomes]):+.3f}",
    ]


def _bias(errors: list[float]) -> str:
    if not errors:
        return ""
    mean = round(float(np.mean(errors)), 3) + 0.0  # without a minus before zero
    return f"{mean:+.3f} ± {np.std(errors, ddof=1) / np.sqrt(len(errors)):.3f}"


def table(lines: list[Rows]) -> str:
    """Logs of a fixed length, and logs of tasks that end by themselves."""
    ending = [row for rows in lines[1:] for row in rows]
    return "".join(f"{markdown(*both)}\n\n" for both in zip(HEADINGS, (lines[0], ending), strict=True))[:-1]


STUDY = Study(
    name="ends",
    cells=cells,
    run=run,
    fingerprint=of_problems(SEED),
    line=line,
    table=table,
    words=lambda rows: "\n".join("| " + " | ".join(row) + " |" for row in rows),
)
