"""How good is the automatic drop? Mean squared errors of plain, hand-set and automatic variants.

The truth of every problem is known; a run is one log: the error of every variant, the intervals of the
automatic rows and of the headline, and the verdict. Ratios compare variants on the same logs, and their
Monte-Carlo errors are those of paired runs. `automatic_tables` prints what the runs say.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.answers.blend import NORMAL
from deadweight.domains import stochastic_lift
from deadweight.log.policies import TabularPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem, as_policy
from deadweight.negligible.state_tests import DropWarning
from deadweight.typing import FloatArray
from deadweight.verbs.estimate import evaluate
from deadweight_studies.coverage import markdown as table
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
from deadweight_studies.records import digest
from deadweight_studies.runs import Stores, first_runs, make_runs, store_of

# --------------------------------------------------------------------------------------------------------
# Problems for the automatic drop: where it should help, and where a wrong model asks for too much of it.
#
# The first were looked at while the rule was chosen, the last were not: nothing was tuned on them. Among both
# are rewards for a past that the labels hide, hidden frailty, few episodes, late rewards, features cut into
# fifty cells, and labels that mean nothing at all.


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
        """The same whatever the label says."""
        return self._for_labels(self.problem.pi_e)

    @property
    def pi_b(self) -> TabularPolicy:
        """Likewise."""
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
    both = (np.tile(one, (n_states, 1)) for one in (pi_e, np.full(n_actions, 1.0 / n_actions)))
    return Problem(problem.name, problem.mdp, *(as_policy(one, problem.mdp) for one in both))


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
    """Cells that were not."""
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


# --------------------------------------------------------------------------------------------------------

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
class MSERatio:
    """MSE of one variant over that of another, on the same runs."""

    value: float
    std_error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.std_error:.3f}"


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


def stores(out: Path) -> Stores:
    """The store of every problem."""
    settings = (SEED, HAND_SET, PLAIN, STATE_BASED, ROWS)
    return {
        name: store_of(out / "runs", "automatic", name, digest(place, *settings, *facts(task)))
        for place, (name, task) in enumerate(_problems().items())
    }


def study(
    out: Path, runs: int, workers: int = 1, tell: Callable[[str], None] = lambda line: None
) -> Iterator[Line]:
    """Lines of the table, one a problem, as they are finished; `tell` gets remarks on what was found."""
    kept = stores(out)
    for name in make_runs(kept, run, runs, workers, tell):
        yield line_of(name, first_runs(kept[name], runs))


def run(name: str, number: int) -> dict[str, Any]:
    """Error of every variant on one log, some intervals, and the verdict."""
    problems = _problems()
    task = problems[name]
    log = task.sample(np.random.SeedSequence([SEED, list(problems).index(name), number]))
    truth = task.values[0]
    errors: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)
        table = evaluate(log, task.pi_e, task.pi_b, (*PLAIN, *STATE_BASED), background=False)
        errors.update({one: table[one].value - truth for one in PLAIN})
        errors.update({f"{one} automatic": table[one].value - truth for one in STATE_BASED})
        for suffix, drop in (("free", "auto:free"), ("hand-set", HAND_SET)):
            other = evaluate(log, task.pi_e, task.pi_b, STATE_BASED[:2], drop=drop, interval=None)
            errors.update({f"{one} {suffix}": other[one].value - truth for one in STATE_BASED[:2]})
    ends = {one: [float(end) - truth for end in table[one].interval or ()] for one in ROWS}
    return {"errors": errors, "ends": ends, "verdict": judged(table.verdict.answer, task.values)}


@cache
def _problems() -> dict[str, Task]:
    return {**tuned_cells(), **fresh_cells()}


def line_of(name: str, made: list[dict[str, Any]]) -> Line:
    """The line of a problem from its runs."""
    errors = {key: np.array([one["errors"][key] for one in made]) for key in made[0]["errors"]}
    row_errors = {one: errors.get(one, errors.get(f"{one} automatic")) for one in (*ROWS, *SINGLE)}
    squares = {one: float(np.square(found).mean()) for one, found in row_errors.items() if found is not None}
    ends = {one: np.array([record["ends"][one] for record in made]) for one in ROWS}
    best = min(SINGLE, key=squares.__getitem__)
    verdicts = [record["verdict"] for record in made]
    return Line(
        problem=name,
        fresh=name in fresh_cells(),
        runs=len(made),
        ratios=tuple(mse_ratio(errors[variant], errors[base]) for variant, base in COMPARISONS),
        coverage={one: float(((end[:, 0] <= 0) & (end[:, 1] >= 0)).mean()) for one, end in ends.items()},
        width={
            one: float(np.median(end[:, 1] - end[:, 0]) / (2 * NORMAL * np.sqrt(squares[one])))
            for one, end in ends.items()
        },
        error=squares["BLEND"] / squares[best],
        best=best,
        right=verdicts.count("right") / len(made),
        wrong=verdicts.count("wrong") / len(made),
    )


def mse_ratio(errors: FloatArray, base: FloatArray) -> MSERatio:
    """Ratio of mean squares, with the delta-method error of paired runs."""
    top, bottom = np.square(errors), np.square(base)
    ratio = float(top.mean() / bottom.mean())
    influence = (top - ratio * bottom) / bottom.mean()
    return MSERatio(ratio, float(influence.std(ddof=1) / np.sqrt(len(errors))))


def geometric_mean(ratios: list[MSERatio]) -> MSERatio:
    """Geometric mean over problems, with the error that their own errors imply."""
    logs = np.log([ratio.value for ratio in ratios])
    errors = np.array([ratio.std_error / ratio.value for ratio in ratios])
    mean = float(np.exp(logs.mean()))
    return MSERatio(mean, mean * float(np.sqrt(np.square(errors).sum())) / len(ratios))


# --------------------------------------------------------------------------------------------------------
# The study of the automatic drop as tables: errors, intervals and verdicts, fresh problems apart.

# With one or two effective episodes an interval has no end to speak of; it counts as so wide in a mean.
WIDEST = 100.0


def markdown(lines: list[Line]) -> str:
    """All tables: cells that the rule was chosen on, and those that it was not."""
    tables = []
    for title, some in (
        ("cells that the rule was chosen on", [line for line in lines if not line.fresh]),
        ("fresh cells", [line for line in lines if line.fresh]),
    ):
        if some:
            tables += [_errors(title, some), _intervals(title, some)]
    return "\n\n".join(tables) + "\n"


def _errors(title: str, some: list[Line]) -> str:
    heads = [title, "logs", *(f"{variant} / {base}" for variant, base in COMPARISONS)]
    rows = [[line.problem, str(line.runs), *map(str, line.ratios)] for line in some]
    known = {problem.name for problem in study_problems()}
    first = [line for line in some if line.problem in known]
    for name, group in (("", some), (", the sixteen problems of version 0.1", first)):
        if not group or (name and len(group) == len(some)):
            continue
        columns = [[line.ratios[j] for line in group] for j in range(len(COMPARISONS))]
        rows.append([f"**geometric mean{name}**", "", *(str(geometric_mean(column)) for column in columns)])
        worst = [max(column, key=lambda ratio: ratio.value) for column in columns]
        rows.append([f"**worst{name}**", "", *map(str, worst)])
    return table(heads, rows)


def _intervals(title: str, some: list[Line]) -> str:
    heads = [
        *(title, *(f"coverage {one}" for one in ROWS), *(f"width {one}" for one in ROWS)),
        *("BLEND over best", "best", "right", "wrong"),
    ]
    rows = [
        [
            *(line.problem, *(f"{line.coverage[one]:.2f}" for one in ROWS)),
            *(_width(line.width[one]) for one in ROWS),
            *(f"{line.error:.2f}", line.best, f"{line.right:.2f}", f"{line.wrong:.3f}"),
        ]
        for line in some
    ]
    rows.append(
        [
            *("**lowest coverage, geometric means, mean shares**",),
            *(f"{min(line.coverage[one] for line in some):.2f}" for one in ROWS),
            *(f"{geometric(min(line.width[one], WIDEST) for line in some):.2f}" for one in ROWS),
            *(f"{geometric(line.error for line in some):.2f}", ""),
            *(f"{np.mean([line.right for line in some]):.2f}",),
            *(f"{np.mean([line.wrong for line in some]):.3f}",),
        ]
    )
    return table(heads, rows)


def _width(width: float) -> str:
    return f"{width:.2f}" if width < WIDEST else f"> {WIDEST:.0f}"
