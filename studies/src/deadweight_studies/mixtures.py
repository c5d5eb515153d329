"""Several old policies: propensities of their mixture against each episode's own, on the same logs.

Five mixes of old policies on six problems with exact truths. Own propensities are unbiased as well wherever
every old policy does what the new one may do; in the last row one of them does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem, simulate
from deadweight.typing import FloatArray
from deadweight.verbs.estimate import evaluate
from deadweight_studies.problems import StudyProblem, problems_named
from deadweight_studies.records import Record
from deadweight_studies.study import (
    MSERatio,
    Study,
    geometric_mean,
    markdown,
    mse_ratio,
    of_columns,
    of_problems,
)

SEED = 2028
NAMES = ("WPDIS", "WDR")
# Only such whose weights have a variance: without one no ratio of mean squares settles.
PROBLEMS = (
    "river",
    "conveyor belt",
    "windy grid",
    "random 8 x 3",
    "random 30 x 4",
    "random 20 x 2, long",
)
MIXES = ("half old, half nearer", "half old, half flat", "one in five nearer", "three", "half old, half away")
BLIND = "one never takes an action"


@dataclass(frozen=True)
class Line:
    """One mix on one problem.

    Attributes:
      mix, problem: which.
      ratios: MSE with the mixture's propensities over that with each episode's own, by estimator.
      errors: mean error in standard errors of that mean, with own propensities and with the mixture; of PDIS
        where one old policy is blind, else of WPDIS.
      runs: logs.
    """

    mix: str
    problem: str
    ratios: tuple[MSERatio, ...]
    errors: tuple[float, float]
    runs: int


@cache
def cells() -> dict[str, StudyProblem]:
    """Every mix on every problem, and the blind one on two of them."""
    problems = problems_named(PROBLEMS)
    fair = {f"{mix}: {name}": problem for mix in MIXES for name, problem in problems.items()}
    blind = {f"{BLIND}: {name}": problems[name] for name in ("random 8 x 3", "random 30 x 4")}
    return {**fair, **blind}


def old_policies(mix: str, problem: Problem) -> list[tuple[float, FloatArray]]:
    """The old policies of a mix, with their shares."""
    old, new = problem.pi_b.probs, problem.pi_e.probs
    flat = np.full_like(old, 1.0 / old.shape[1])
    nearer = 0.4 * old + 0.6 * new
    away = np.maximum(old - 0.6 * (new - old), 0.05)
    away = away / away.sum(axis=1, keepdims=True)
    if mix == BLIND:
        blind = old.copy()
        blind[np.arange(len(old)), new.argmax(axis=1)] = 0.0
        return [(0.5, blind / blind.sum(axis=1, keepdims=True)), (0.5, old)]
    return {
        MIXES[0]: [(0.5, old), (0.5, nearer)],
        MIXES[1]: [(0.5, old), (0.5, flat)],
        MIXES[2]: [(0.8, old), (0.2, nearer)],
        MIXES[3]: [(0.4, old), (0.3, flat), (0.3, nearer)],
        MIXES[4]: [(0.5, old), (0.5, away)],
    }[mix]


def sample(problem: Problem, mix: str, episodes: int, seed: np.random.SeedSequence) -> Trajectories:
    """A log of all old policies, with each episode's own propensities."""
    logs, ids = [], []
    policies = old_policies(mix, problem)
    for number, ((share, policy), child) in enumerate(zip(policies, seed.spawn(len(policies)), strict=True)):
        logs.append(simulate(problem.mdp, policy, max(1, round(share * episodes)), child))
        ids += [number] * logs[-1].n_episodes
    lengths = np.concatenate([log.lengths for log in logs])
    return Trajectories(
        np.concatenate([log.states for log in logs]),
        np.concatenate([log.actions for log in logs]),
        np.concatenate([log.rewards for log in logs]),
        np.concatenate([[0], np.cumsum(lengths)]),
        propensities=np.concatenate([log.propensities for log in logs if log.propensities is not None]),
        terminated=np.concatenate([log.terminated for log in logs]),
        behaviour_ids=ids,
    )._limited_to(problem.mdp.horizon)


def run(name: str, number: int) -> dict[str, Any]:
    """Errors on one log, by estimator, with own propensities and with those of the mixture."""
    mix, _, _ = name.partition(": ")
    cell, place = cells()[name], list(cells()).index(name)
    log = sample(cell.problem, mix, cell.episodes, np.random.SeedSequence([SEED, place, number]))
    policies = {j: policy for j, (_, policy) in enumerate(old_policies(mix, cell.problem))}
    truth = cell.problem.true_value
    errors = {}
    names = _names(mix)
    for kind, pi_b in (("own", None), ("mixture", policies)):
        table = evaluate(log, cell.problem.pi_e, pi_b, names, interval=None)
        errors.update({f"{name} {kind}": table[name].value - truth for name in names})
    return {"errors": errors}


def line(name: str, records: list[Record]) -> Line:
    """Ratios and mean errors of a cell."""
    errors = of_columns(records, "errors")
    mix, _, problem = name.partition(": ")
    ratios = tuple(mse_ratio(errors[f"{name} mixture"], errors[f"{name} own"]) for name in NAMES)
    unbiased = _names(mix)[-1] if mix == BLIND else NAMES[0]
    off = _z(errors[f"{unbiased} own"]), _z(errors[f"{unbiased} mixture"])
    return Line(mix, problem, ratios, off, len(records))


def table(lines: list[Line]) -> str:
    """Ratios by mix, with geometric means; and the case in which one old policy is blind."""
    heads = ["mix", *(f"{name}, mixture / own" for name in NAMES), "worst problem, WPDIS", "logs a problem"]
    fair = [line for line in lines if line.mix != BLIND]
    rows = []
    for title, group in [
        *((mix, [line for line in fair if line.mix == mix]) for mix in MIXES),
        ("**all**", fair),
    ]:
        if group:
            means = [geometric_mean([line.ratios[j] for line in group]) for j in range(len(NAMES))]
            worst = max(group, key=lambda line: line.ratios[0].value)
            fewest = min(line.runs for line in group)
            rows.append([title, *map(str, means), f"{worst.ratios[0]} ({worst.problem})", str(fewest)])
    text = markdown(heads, rows) + "\n"
    for line in lines:
        if line.mix == BLIND:
            text += (
                f"\nWhere {BLIND} that the new policy likes ({line.problem}, {line.runs} logs): PDIS with "
                f"own propensities is off by {line.errors[0]:+.1f} standard errors of its mean, with the "
                f"mixture by {line.errors[1]:+.1f}.\n"
            )
    return text


def _names(mix: str) -> tuple[str, ...]:
    """What is estimated: where one old policy is blind also PDIS, whose mean is right if its weights are."""
    return (*NAMES, "PDIS") if mix == BLIND else NAMES


def _z(errors: FloatArray) -> float:
    """The mean error in its standard errors."""
    spread = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else np.inf
    return float(errors.mean() / spread)


STUDY = Study(
    name="mixtures",
    cells=cells,
    run=run,
    fingerprint=of_problems(SEED, NAMES, MIXES),
    line=line,
    table=table,
    words=lambda line: f"{line.mix}, {line.problem}: {', '.join(map(str, line.ratios))}",
)
