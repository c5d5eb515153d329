"""Cut episodes: weights for the chance of being cut against counting what was cut off as nothing.

Logs of problems with exact truths are cut in five ways: by chance alone, sooner in states that promise
little, sooner at late steps, by both, and by a variable that the log does not show and that pays or costs at
every step. The last one is a case that no weights from the log can mend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.log.trajectories import Trajectories, episode_of_rows, step_of_rows
from deadweight.mdp.problem import Problem
from deadweight.mdp.tabular import q_values
from deadweight.typing import FloatArray
from deadweight.verbs.estimate import evaluate
from deadweight_studies.automatic import MSERatio, geometric_mean, mse_ratio
from deadweight_studies.problems import StudyProblem, study_problems
from deadweight_studies.runs import Stores, first_runs, make_runs, open_stores

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
    found = Trajectories(
        log.states[kept],
        log.actions[kept],
        rewards[kept],
        np.concatenate([[0], np.cumsum(lengths)]),
        propensities=None if log.propensities is None else log.propensities[kept],
        terminated=log.terminated & ~was_cut,
    )._limited_to(horizon)
    return found, float(was_cut.mean())


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
    cut, _, problem_name = name.partition(": ")
    cell = _problems()[problem_name]
    seeds = np.random.SeedSequence([SEED, list(_cells()).index(name), number]).spawn(2)
    whole = cell.problem.sample(cell.episodes, seeds[0])
    log, share = cut_log(cell.problem, whole, cut, np.random.default_rng(seeds[1]))
    new, old = cell.values
    found: dict[str, Any] = {"share": share, "errors": {}, "covered": {}}
    for kind, way in ((IGNORED, None), (WEIGHED, "auto")):
        ev = evaluate(log, cell.pi_e, cell.pi_b, NAMES, background=False, cut_weights=way)
        for one in NAMES:
            truth, bounds = old if one == "BEHAVIOUR" else new, ev[one].interval
            found["errors"][f"{one} {kind}"] = ev[one].value - truth
            found["covered"][f"{one} {kind}"] = bounds is not None and bounds[0] <= truth <= bounds[1]
        if way is not None:
            found["by"] = ev.conventions["cut_weights"]["by"]
    return found


def study(
    out: Path, runs: int, workers: int = 1, tell: Callable[[str], None] = lambda line: None
) -> Iterator[Line]:
    """Lines of the table, one a cell, as they are finished."""
    kept = stores(out)
    for name in make_runs(kept, run, runs, workers, tell):
        made = first_runs(kept[name], runs)
        keys = made[0]["errors"]
        errors = {key: np.array([one["errors"][key] for one in made]) for key in keys}
        held = {key: sum(one["covered"][key] for one in made) for key in keys}
        cut, _, problem = name.partition(": ")
        yield Line(
            cut,
            problem,
            float(np.mean([one["share"] for one in made])),
            tuple(mse_ratio(errors[f"{one} {WEIGHED}"], errors[f"{one} {IGNORED}"]) for one in NAMES),
            tuple((held[f"{one} {IGNORED}"], held[f"{one} {WEIGHED}"]) for one in NAMES),
            Counter(one["by"] for one in made),
            len(made),
        )


def stores(out: Path) -> Stores:
    """The store of every cell."""
    return open_stores(out / "runs", "cuts", _cells(), SEED, NAMES, CUTS, AVERAGE)


def markdown(lines: list[Line]) -> str:
    """Mean squared errors by way of being cut, and how often intervals hold."""
    heads = ["who is cut", "episodes cut", *(f"{name}, weighed / not" for name in NAMES), "groups chosen"]
    rows = [heads, ["---", *["---:"] * len(NAMES), "---:", "---"]]
    held = [["who is cut", *NAMES, "logs"], ["---", *["---:"] * (len(NAMES) + 1)]]
    for cut in CUTS:
        some = [line for line in lines if line.cut == cut]
        if not some:
            continue
        means = [geometric_mean([line.ratios[j] for line in some]) for j in range(len(NAMES))]
        ways = sum((line.ways for line in some), Counter[str]())
        chosen = ", ".join(f"{way} {number}" for way, number in ways.most_common())
        share = f"{np.mean([line.share for line in some]):.0%}"
        rows.append([cut, share, *map(str, means), chosen])
        logs = sum(line.runs for line in some)
        shares = [
            " -> ".join(f"{sum(line.covered[j][k] for line in some) / logs:.2f}" for k in range(2))
            for j in range(len(NAMES))
        ]
        held.append([cut, *shares, str(logs)])
    tables = ("\n".join("| " + " | ".join(row) + " |" for row in table) for table in (rows, held))
    return "\n\n".join(tables) + "\n"


@cache
def _problems() -> dict[str, StudyProblem]:
    return {problem.name: problem for problem in study_problems() if problem.name in PROBLEMS}


@cache
def _cells() -> dict[str, StudyProblem]:
    return {f"{cut}: {name}": problem for cut in CUTS for name, problem in _problems().items()}
