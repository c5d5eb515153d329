"""Cut episodes: weights for the chance of being cut against counting what was cut off as nothing.

Logs of problems with exact truths are cut in five ways: by chance alone, sooner in states that promise
little, sooner at late steps, by both, and by a variable that the log does not show and that pays or costs at
every step. The last one is a case that no weights from the log can repair.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deadweight.log.trajectories import Trajectories, episode_of_rows, step_of_rows
from deadweight.mdp.problem import Problem
from deadweight.mdp.tabular import q_values
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

SEED = 1992
NAMES = ("BEHAVIOUR", "WPDIS", "WDR", "DM", "BLEND")
PROBLEMS = ("river", "windy grid", "random 8 x 3", "random 30 x 4")
UNSEEN = "by what the log does not show"
CUTS = ("by chance alone", "by state", "by step", "by state and step", UNSEEN)
AVERAGE = 0.06  # about this share of the steps is the last one that is seen
IGNORED, WEIGHED = "counted as nothing", "weighed"


@dataclass(frozen=True)
class Line:
    """One way of being cut on one problem.

    Attributes:
      cut, problem: which.
      share: of the episodes that were cut.
      ratios: by estimator, MSE with weights over MSE without.
      covered: by estimator, how many intervals hold the truth without and with weights.
      ways: how often each way of grouping was chosen.
      runs: logs.
    """

    cut: str
    problem: str
    share: float
    ratios: tuple[MSERatio, ...]
    covered: tuple[tuple[int, int], ...]
    ways: Counter[str]
    runs: int


@cache
def cells() -> dict[str, StudyProblem]:
    """Every way of being cut on every problem."""
    problems = problems_named(PROBLEMS)
    return {f"{cut}: {name}": problem for cut in CUTS for name, problem in problems.items()}


def cut_log(
    problem: Problem, log: Trajectories, cut: str, rng: np.random.Generator
) -> tuple[Trajectories, float]:
    """The log with episodes that were cut, after which nothing is known; and the share of them."""
    episode = episode_of_rows(log)
    steps = step_of_rows(log)
    horizon = problem.mdp.horizon or log.horizon
    frail = rng.random(log.n_episodes) < 0.5
    rewards = log.rewards
    if cut == UNSEEN:  # mean zero, so that values stay what they are
        rewards = rewards + np.where(frail, -1.0, 1.0)[episode] * float(np.std(rewards) or 1.0) / 2
    chance = _chances(problem, cut, horizon, log.states, steps, frail[episode])
    stopped = (rng.random(log.n_steps) < chance) & (steps < horizon - 1)
    first = np.full(log.n_episodes, log.n_steps)
    np.minimum.at(first, episode[stopped], steps[stopped])
    kept = steps <= first[episode]
    lengths = np.minimum(log.lengths, first + 1)
    was_cut = first < log.lengths
    seen = Trajectories(
        log.states[kept],
        log.actions[kept],
        rewards[kept],
        np.concatenate([[0], np.cumsum(lengths)]),
        propensities=None if log.propensities is None else log.propensities[kept],
        terminated=log.terminated & ~was_cut,
    )._limited_to(horizon)
    return seen, float(was_cut.mean())


def _chances(problem: Problem, cut: str, horizon: int, states: Any, steps: Any, frail: Any) -> FloatArray:
    """(steps,) the chance of being cut after each step."""
    promise = (q_values(problem.mdp, problem.pi_b, horizon)[0] * problem.pi_b.probs).sum(axis=1)
    low = 1.0 - promise.argsort().argsort() / max(1, len(promise) - 1)  # 1 in the state that promises least
    late = np.arange(horizon) / max(1, horizon - 1)
    by_state, by_step = 2 * AVERAGE * low[states], 2 * AVERAGE * late[steps]
    chances: dict[str, FloatArray] = {
        CUTS[0]: np.full(len(states), AVERAGE),
        CUTS[1]: by_state,
        CUTS[2]: by_step,
        CUTS[3]: 4 * AVERAGE * low[states] * late[steps],
        CUTS[4]: np.where(frail, 2 * AVERAGE, AVERAGE / 4),
    }
    return chances[cut]


def run(name: str, number: int) -> dict[str, Any]:
    """Errors on one log, and which intervals hold the truth, without and with weights."""
    cut, _, _ = name.partition(": ")
    cell, place = cells()[name], list(cells()).index(name)
    seeds = np.random.SeedSequence([SEED, place, number]).spawn(2)
    whole = cell.problem.sample(cell.episodes, seeds[0])
    log, share = cut_log(cell.problem, whole, cut, np.random.default_rng(seeds[1]))
    new, old = cell.values
    record: dict[str, Any] = {"share": share, "errors": {}, "covered": {}}
    for kind, way in ((IGNORED, None), (WEIGHED, "auto")):
        ev = evaluate(log, cell.pi_e, cell.pi_b, NAMES, background=False, cut_weights=way)
        for estimator in NAMES:
            truth, bounds = old if estimator == "BEHAVIOUR" else new, ev[estimator].interval
            holds = bounds is not None and bounds[0] <= truth <= bounds[1]
            record["errors"][f"{estimator} {kind}"] = ev[estimator].value - truth
            record["covered"][f"{estimator} {kind}"] = holds
        if way is not None:
            record["by"] = ev.conventions["cut_weights"]["by"]
    return record


def line(name: str, records: list[Record]) -> Line:
    """What the runs of a cell say."""
    errors, covered = of_columns(records, "errors"), of_columns(records, "covered")
    held = {key: int(holds.sum()) for key, holds in covered.items()}
    cut, _, problem = name.partition(": ")
    return Line(
        cut,
        problem,
        float(np.mean([record["share"] for record in records])),
        tuple(mse_ratio(errors[f"{name} {WEIGHED}"], errors[f"{name} {IGNORED}"]) for name in NAMES),
        tuple((held[f"{name} {IGNORED}"], held[f"{name} {WEIGHED}"]) for name in NAMES),
        Counter(record["by"] for record in records),
        len(records),
    )


def table(lines: list[Line]) -> str:
    """Mean squared errors by way of being cut, and how often intervals hold."""
    heads = ["who is cut", "episodes cut", *(f"{name}, weighed / not" for name in NAMES), "groups chosen"]
    rows, held = [], []
    for cut in CUTS:
        group = [line for line in lines if line.cut == cut]
        if not group:
            continue
        means = [geometric_mean([line.ratios[j] for line in group]) for j in range(len(NAMES))]
        ways = sum((line.ways for line in group), Counter[str]())
        chosen = ", ".join(f"{way} {number}" for way, number in ways.most_common())
        share = f"{np.mean([line.share for line in group]):.0%}"
        rows.append([cut, share, *map(str, means), chosen])
        logs = sum(line.runs for line in group)
        shares = [
            " -> ".join(f"{sum(line.covered[j][k] for line in group) / logs:.2f}" for k in range(2))
            for j in range(len(NAMES))
        ]
        held.append([cut, *shares, str(logs)])
    errors = markdown(heads, rows, left=(0, len(heads) - 1))
    return f"{errors}\n\n{markdown(['who is cut', *NAMES, 'logs'], held)}\n"


def _words(line: Line) -> str:
    ratios = ", ".join(f"{name} {ratio}" for name, ratio in zip(NAMES, line.ratios, strict=True))
    return f"{line.cut}, {line.problem}: {ratios}"


STUDY = Study(
    name="cuts",
    cells=cells,
    run=run,
    fingerprint=of_problems(SEED, NAMES, CUTS, AVERAGE),
    line=line,
    table=table,
    words=_words,
)
