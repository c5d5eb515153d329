"""How good is the automatic drop? Mean squared errors of plain, hand-set and automatic variants.

The truth of every problem is known; a run is one log: the error of every variant, the intervals of the
automatic rows and of the headline, and the verdict. Ratios compare variants on the same logs, and their
Monte-Carlo errors are those of paired runs.

Some cells were looked at while the rule was chosen, the fresh ones were not: nothing was tuned on them. Among
both are rewards for a past that the labels hide, hidden frailty, few episodes, late rewards, features cut
into fifty cells, and labels that mean nothing at all: there a wrong model asks for too much dropping.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deadweight.answers.blend import NORMAL
from deadweight.domains import stochastic_lift
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem, as_policy
from deadweight.negligible.state_tests import DropWarning
from deadweight.verbs.estimate import evaluate
from deadweight_studies.headline import facts, judged
from deadweight_studies.headline import fresh_problems as headline_problems
from deadweight_studies.headline_tables import geometric
from deadweight_studies.problems import (
    BinnedCartpole,
    StudyProblem,
    conveyor_belt,
    endless,
    frailty,
    hard_problems,
    hidden,
    late_reward,
    machine_repair,
    previous_action,
    random_problem,
    river,
    study_problems,
    windy_grid,
)
from deadweight_studies.records import Record
from deadweight_studies.study import MSERatio, Study, geometric_mean, markdown, mse_ratio, of_columns

# --- Cells


@dataclass(frozen=True)
class NoiseLabels:
    """A problem whose policies depend on nothing, and whose log shows random labels for its states.

    Attributes:
      name: how tables call it.
      problem: the exact problem.
      episodes: size of a log.
      labels: number of labels.
    """

    name: str
    problem: Problem
    episodes: int
    labels: int = 20

    @property
    def pi_e(self) -> TabularPolicy:
        """The new policy, which does not depend on the label."""
        return self._for_labels(self.problem.pi_e)

    @property
    def pi_b(self) -> TabularPolicy:
        """The old policy, which does not depend on it either."""
        return self._for_labels(self.problem.pi_b)

    def _for_labels(self, policy: TabularPolicy) -> TabularPolicy:
        return TabularPolicy(np.tile(policy.probs[0], (self.labels, 1)))

    @property
    def values(self) -> tuple[float, float]:
        """The exact values of the evaluation and of the behaviour policy."""
        return self.problem.true_value, self.problem.behaviour_value

    def sample(self, seed: int | np.random.SeedSequence) -> Trajectories:
        """A log in which every step has a label by chance."""
        of_log, of_labels = np.random.SeedSequence(seed).spawn(2) if isinstance(seed, int) else seed.spawn(2)
        log = self.problem.sample(self.episodes, of_log)
        labels = np.random.default_rng(of_labels).integers(self.labels, size=log.n_steps)
        return Trajectories(
            labels,
            log.actions,
            log.rewards,
            log.offsets,
            propensities=log.propensities,
            terminated=log.terminated,
        )._limited_to(log.time_limit)


Task = StudyProblem | BinnedCartpole | NoiseLabels


def blind(n_states: int, n_actions: int, horizon: int, seed: int) -> Problem:
    """A random problem with policies that depend on nothing; pi_e prefers what pays on average."""
    problem = random_problem(n_states, n_actions, horizon, seed)
    pi_e = np.full(n_actions, 0.4 / n_actions)
    pi_e[problem.mdp.r.mean(axis=0).argmax()] += 0.6
    both = (np.tile(probs, (n_states, 1)) for probs in (pi_e, np.full(n_actions, 1.0 / n_actions)))
    return Problem(problem.name, problem.mdp, *(as_policy(probs, problem.mdp) for probs in both))


@cache
def tuned_cells() -> dict[str, Task]:
    """Cells that were looked at while the rule was chosen, in the order that their seeds depend on."""
    cells: list[Task] = [*study_problems(), *hard_problems(), *headline_problems()]
    cells += [
        NoiseLabels("noise labels: river", river(), 300),
        NoiseLabels("noise labels: conveyor belt", conveyor_belt(), 500),
        NoiseLabels("noise labels: random 30 x 4", blind(30, 4, 10, seed=2), 400),
        NoiseLabels("noise labels: random 8 x 2", blind(8, 2, 12, seed=5), 300, labels=50),
        BinnedCartpole("cartpole in 50 other cells", 400, seed=22),
        BinnedCartpole("cartpole in 50 cells, 150 episodes", 150, seed=23),
    ]
    return {cell.name: cell for cell in cells}


@cache
def fresh_cells() -> dict[str, Task]:
    """Cells that nobody looked at while the rule was chosen."""
    cells: list[Task] = [
        previous_action("previous action pays, 7 x 3", 7, 3, horizon=10, seed=41, episodes=400),
        previous_action("previous action pays, 12 x 2", 12, 2, horizon=12, seed=42, episodes=300),
        frailty("hidden frailty, 7 x 2", 7, 2, horizon=15, seed=43, episodes=300),
        BinnedCartpole("cartpole in yet other cells", 400, seed=24),
        BinnedCartpole("cartpole in yet other cells, 200 episodes", 200, seed=25),
        NoiseLabels("noise labels: short river", river(7, horizon=15), 300, labels=10),
        NoiseLabels("noise labels: random 12 x 3", blind(12, 3, 12, seed=44), 300),
        StudyProblem("random 10 x 3", random_problem(10, 3, 12, seed=45), 200),
        StudyProblem("random 25 x 2", random_problem(25, 2, 30, seed=46), 150),
        hidden("hidden 9 x 3", random_problem(18, 3, 15, seed=47), 300),
        StudyProblem("late reward, 25 x 3", late_reward(25, 3, seed=48), 300),
        StudyProblem("fixed horizon, 15 x 2", endless(15, 2, horizon=20, seed=49), 250),
        StudyProblem("short belt", conveyor_belt(24, every=6), 400),
        StudyProblem("short river", river(7, horizon=20), 250),
        StudyProblem("machine repair, 6 levels", machine_repair(6, horizon=30), 300),
        StudyProblem("windy grid, 5 x 5", windy_grid(5, horizon=25), 300),
        StudyProblem("stochastic lift 13", stochastic_lift(13), 1000),
    ]
    return {cell.name: cell for cell in cells}


@cache
def cells() -> dict[str, Task]:
    """All cells, the fresh ones last."""
    return {**tuned_cells(), **fresh_cells()}


# --- The study

SEED = 2026
HAND_SET = "q-gap:1.0"
SINGLE = ("DM", "WIS", "WPDIS", "WDR", "C-WSPDIS", "WDRSIS")
PLAIN = ("BEHAVIOUR", "BLEND", *SINGLE[:4])
STATE_BASED = ("C-WSPDIS", "WDRSIS", "DRSIS", "WSPDIS")
# Rows whose intervals are judged.
ROWS = ("C-WSPDIS", "WDRSIS", "BLEND")
COMPARISONS = (
    ("C-WSPDIS automatic", "WPDIS"),
    ("WDRSIS automatic", "WDR"),
    ("DRSIS automatic", "WDR"),
    ("WSPDIS automatic", "WPDIS"),
    ("C-WSPDIS free", "WPDIS"),
    ("WDRSIS free", "WDR"),
    ("C-WSPDIS hand-set", "WPDIS"),
    ("WDRSIS hand-set", "WDR"),
)


@dataclass(frozen=True)
class Line:
    """What the runs of one problem say.

    Attributes:
      problem, fresh, runs: which, whether nothing was tuned on it, and how many logs.
      ratios: one for each of `COMPARISONS`.
      coverage, width: of 95 % intervals, by row; the median width is over 2 x 1.96 root mean squared errors.
      error, best: MSE of BLEND over that of the best single estimate in hindsight, and which that is.
      right, wrong: shares of verdicts.
    """

    problem: str
    fresh: bool
    runs: int
    ratios: tuple[MSERatio, ...]
    coverage: dict[str, float]
    width: dict[str, float]
    error: float
    best: str
    right: float
    wrong: float


def run(name: str, number: int) -> dict[str, Any]:
    """Error of every variant on one log, some intervals, and the verdict."""
    task, place = cells()[name], list(cells()).index(name)
    log = task.sample(np.random.SeedSequence([SEED, place, number]))
    truth = task.values[0]
    errors: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)
        rows = evaluate(log, task.pi_e, task.pi_b, (*PLAIN, *STATE_BASED), background=False)
        errors.update({name: rows[name].value - truth for name in PLAIN})
        errors.update({f"{name} automatic": rows[name].value - truth for name in STATE_BASED})
        for suffix, drop in (("free", "auto:free"), ("hand-set", HAND_SET)):
            dropping = evaluate(log, task.pi_e, task.pi_b, STATE_BASED[:2], drop=drop, interval=None)
            errors.update({f"{name} {suffix}": dropping[name].value - truth for name in STATE_BASED[:2]})
    ends = {name: [float(end) - truth for end in rows[name].interval or ()] for name in ROWS}
    return {"errors": errors, "ends": ends, "verdict": judged(rows.verdict.answer, task.values)}


def line(name: str, records: list[Record]) -> Line:
    """The line of a problem from its runs."""
    errors, ends = of_columns(records, "errors"), of_columns(records, "ends")
    squares = {
        row: float(np.square(errors[row if row in errors else f"{row} automatic"]).mean())
        for row in (*ROWS, *SINGLE)
    }
    best = min(SINGLE, key=squares.__getitem__)
    verdicts = [record["verdict"] for record in records]
    return Line(
        problem=name,
        fresh=name in fresh_cells(),
        runs=len(records),
        ratios=tuple(mse_ratio(errors[variant], errors[base]) for variant, base in COMPARISONS),
        coverage={row: float(((end[:, 0] <= 0) & (end[:, 1] >= 0)).mean()) for row, end in ends.items()},
        width={
            row: float(np.median(end[:, 1] - end[:, 0]) / (2 * NORMAL * np.sqrt(squares[row])))
            for row, end in ends.items()
        },
        error=squares["BLEND"] / squares[best],
        best=best,
        right=verdicts.count("right") / len(records),
        wrong=verdicts.count("wrong") / len(records),
    )


# With one or two effective episodes an interval has no end to speak of; it counts as so wide in a mean.
WIDEST = 100.0


def table(lines: list[Line]) -> str:
    """Errors, intervals and verdicts of the cells that the rule was chosen on, and of the fresh ones."""
    tables = []
    for title, group in (
        ("cells that the rule was chosen on", [line for line in lines if not line.fresh]),
        ("fresh cells", [line for line in lines if line.fresh]),
    ):
        if group:
            tables += [_errors(title, group), _intervals(title, group)]
    return "\n\n".join(tables) + "\n"


def _errors(title: str, group: list[Line]) -> str:
    heads = [title, "logs", *(f"{variant} / {base}" for variant, base in COMPARISONS)]
    rows = [[line.problem, str(line.runs), *map(str, line.ratios)] for line in group]
    known = {problem.name for problem in study_problems()}
    first = [line for line in group if line.problem in known]
    for name, part in (("", group), (", the sixteen problems of version 0.1", first)):
        if not part or (name and len(part) == len(group)):
            continue
        columns = [[line.ratios[j] for line in part] for j in range(len(COMPARISONS))]
        rows.append([f"**geometric mean{name}**", "", *(str(geometric_mean(column)) for column in columns)])
        worst = [max(column, key=lambda ratio: ratio.value) for column in columns]
        rows.append([f"**worst{name}**", "", *map(str, worst)])
    return markdown(heads, rows)


def _intervals(title: str, group: list[Line]) -> str:
    heads = [
        *(title, *(f"coverage {row}" for row in ROWS), *(f"width {row}" for row in ROWS)),
        *("BLEND over best", "best", "right", "wrong"),
    ]
    rows = [
        [
            *(line.problem, *(f"{line.coverage[row]:.2f}" for row in ROWS)),
            *(_width(line.width[row]) for row in ROWS),
            *(f"{line.error:.2f}", line.best, f"{line.right:.2f}", f"{line.wrong:.3f}"),
        ]
        for line in group
    ]
    rows.append(
        [
            *("**lowest coverage, geometric means, mean shares**",),
            *(f"{min(line.coverage[row] for line in group):.2f}" for row in ROWS),
            *(f"{geometric(min(line.width[row], WIDEST) for line in group):.2f}" for row in ROWS),
            *(f"{geometric(line.error for line in group):.2f}", ""),
            *(f"{np.mean([line.right for line in group]):.2f}",),
            *(f"{np.mean([line.wrong for line in group]):.3f}",),
        ]
    )
    return markdown(heads, rows)


def _width(width: float) -> str:
    return f"{width:.2f}" if width < WIDEST else f"> {WIDEST:.0f}"


def _fingerprint(place: int, task: Task) -> Iterator[object]:
    yield from (place, SEED, HAND_SET, PLAIN, STATE_BASED, ROWS, *facts(task))


STUDY = Study(
    name="automatic",
    cells=cells,
    run=run,
    fingerprint=_fingerprint,
    line=line,
    table=table,
    words=lambda line: f"{line.problem}: {', '.join(map(str, line.ratios[:2]))}",
)
