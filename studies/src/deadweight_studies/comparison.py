"""Comparing many policies: is what is said of all of them together right, and how much can be said?

Every run draws policies and a log of one problem, compares them, and looks up the truth. Beside `compare`
stands what a user would do without it: an interval for each policy, at a level divided by their number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.answers.blend import half_width
from deadweight.log.behaviour import estimate_behaviour
from deadweight.mdp.problem import as_policy, softmax
from deadweight.mdp.tabular import policy_value, q_values
from deadweight.negligible.state_tests import DropWarning
from deadweight.results.comparison import Comparison
from deadweight.typing import FloatArray
from deadweight.verbs.compare import compare
from deadweight_studies.headline import fresh_problems
from deadweight_studies.problems import StudyProblem, hard_problems, study_problems
from deadweight_studies.real_kinds import real_problems
from deadweight_studies.runs import Stores, first_runs, make_runs, open_stores

SEED = 2031
COUNTS = (5, 20, 50)
LEVEL = 0.95
PROBLEMS = (
    "stochastic lift 7",
    "taxi, 10 steps",
    "conveyor belt",
    "river",
    "windy grid",
    "random 30 x 4",
    "hidden 8 x 3",
    "previous action pays, 6 x 2",
    "hidden frailty, 8 x 3",
    "random 30 x 4, n = 150",
    "late reward, 20 x 3",
    "fixed horizon, 12 x 3",
)
# On these no rule of a comparison was chosen.
FRESH = (
    "previous action pays, 8 x 2",
    "hidden frailty, 6 x 3",
    "random 15 x 3",
    "late reward, 30 x 3",
    "fixed horizon, 20 x 3",
    "hidden 12 x 3",
)
# Kinds that real logs have: what is hidden lasts longer than any window, and a plain one beside them.
REAL = ("toxic dose", "pays 5 later", "graph")
GROUPS = {"seen": PROBLEMS, "fresh": FRESH, "real": REAL}
# In these the behaviour policy is counted from the log, and not given.
COUNTED = ("river", "hidden 8 x 3", "late reward, 20 x 3", "random 15 x 3", "hidden 12 x 3")
LONGEST = 50  # steps over which action values are taken where a problem has no horizon
COLUMNS = (
    "familywise error",
    "false better",
    "holds the best",
    "size of the set",
    "separate: size",
    "claims",
    "separate: claims",
    "regret of the first",
    "more than it may lose",
    "of the highest lower end",
)
SHARE = "set / separate set"


@dataclass(frozen=True)
class Line:
    """One problem with one number of policies; `means` are over runs, by column."""

    problem: str
    policies: int
    means: dict[str, float]
    runs: int


def candidates(cell: StudyProblem, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """Policies that shift the behaviour policy towards, or away from, what is good, with noise of their own.

    The last is the behaviour policy itself. All depend on what the log shows only.
    """
    mdp, old = cell.problem.mdp, cell.problem.pi_b.probs
    shown = np.arange(mdp.n_states) if cell.shown is None else cell.shown
    q = q_values(mdp, old, mdp.horizon or LONGEST)[0]
    means = np.stack([np.bincount(shown, column) for column in q.T], axis=1) / np.bincount(shown)[:, None]
    q = means[shown] / ((means - means.mean(axis=1, keepdims=True)).std() + 1e-12)
    found = []
    for _ in range(count - 1):
        sign, share = (1.0 if rng.random() < 0.75 else -1.0), rng.uniform(0.1, 0.9)
        noise = rng.uniform(0.2, 1.5) * rng.normal(size=means.shape)[shown]
        liked = softmax((sign * q + noise) / rng.uniform(0.3, 1.5))
        found.append((1 - share) * old + share * liked)
    return [*found, old]


def run(name: str, number: int) -> dict[str, Any]:
    """What is said of one log, and whether it is true."""
    cell, count = cells()[name], int(name.rpartition(" x ")[2])
    place = list(cells()).index(name)
    rng = np.random.default_rng([SEED, place, number])
    mdp = cell.problem.mdp
    drawn = [as_policy(probs, mdp) for probs in candidates(cell, count, rng)]
    truth = np.array([policy_value(mdp, policy) for policy in drawn])
    log = cell.sample(np.random.SeedSequence([SEED + 1, place, number]))
    policies = {f"{k}": cell._shown_policy(policy) for k, policy in enumerate(drawn)}
    pi_b = estimate_behaviour(log) if cell.problem.name in COUNTED else cell.pi_b
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)
        found = compare(log, policies, pi_b, level=LEVEL, seed=number)
    return {"said": judged(found, truth, cell.problem.behaviour_value)}


def judged(found: Comparison, truth: FloatArray, old: float) -> dict[str, float]:
    """What was said against the truth, by column."""
    names = list(found)
    true = dict(zip(names, truth.tolist(), strict=True))
    intervals = {name: found.difference(name).interval for name in names}
    best = max(names, key=true.__getitem__)
    spread = max(true.values()) - min(true.values())
    separate = _separate(found)
    highest = max(low for low, _ in separate.values())
    lower_end = max(names, key=lambda name: separate[name][0])
    alone = [name for name in names if _claims_alone(found, name)]

    def regret(name: str) -> float:
        return (true[best] - true[name]) / spread if spread > 0 else 0.0

    slack = 1e-9 * max(abs(old), 1.0)
    missed = [not low - slack <= true[k] - old <= high + slack for k, (low, high) in intervals.items()]
    values = (
        any(missed),
        any(true[name] <= old + slack for name in found.better),
        best in found.may_be_best,
        len(found.may_be_best),
        sum(high >= highest for _, high in separate.values()),
        len(found.better) + len(found.worse),
        len(alone),
        regret(found.ranking[0]),
        true[best] - true[found.ranking[0]] > found.regret_bound[found.ranking[0]] + slack,
        regret(lower_end),
    )
    return dict(zip(COLUMNS, map(float, values), strict=True))


def _separate(found: Comparison) -> dict[str, tuple[float, float]]:
    """The interval that each policy would have by itself, at a level divided by the number of policies."""
    return {
        name: (one.value - half, one.value + half)
        for name in found
        for one, half in [(found[name].headline, _widened(found, name))]
    }


def _widened(found: Comparison, name: str, against: bool = False) -> float:
    """A blend's half-width at that level, of its value or of its distance from the mean return."""
    mixed = found[name].headline.blend
    assert mixed is not None
    half = mixed.baseline_error if against else mixed.half_width
    return at_level(half, mixed.contradiction, 1 - (1 - LEVEL) / len(found))


def at_level(half: float, bias: float, level: float) -> float:
    """The half-width of a blend at another level, from that at the study's.

    Of the two that it is the larger of, each gives a standard error, and the smaller of these is the one.
    """
    noise, with_bias = half / half_width(1.0, 0.0, LEVEL), (half - bias) / (half_width(1.0, 1.0, LEVEL) - 1.0)
    return half_width(min(noise, with_bias), bias, level)


def _claims_alone(found: Comparison, name: str) -> bool:
    """Whether an evaluation by itself would claim a difference from the behaviour policy."""
    distance = abs(found[name].headline.value - found.baseline_value)
    return distance > _widened(found, name, against=True)


def study(
    out: Path,
    runs: int,
    workers: int = 1,
    tell: Callable[[str], None] = lambda line: None,
    only: Iterable[str] | None = None,
) -> Iterator[Line]:
    """Lines of the table, one a cell, as they are finished."""
    kept = stores(out)
    for name in make_runs(kept, run, runs, workers, tell, only):
        made = [record["said"] for record in first_runs(kept[name], runs)]
        means = {column: float(np.mean([one[column] for one in made])) for column in COLUMNS}
        problem, _, count = name.rpartition(" x ")
        yield Line(problem, int(count), means, len(made))


def stores(out: Path) -> Stores:
    """The store of every cell."""
    return open_stores(out / "runs", "compare", cells(), SEED, COUNTS, LEVEL, COUNTED)


def markdown(lines: list[Line]) -> str:
    """Means by number of policies, over the problems of each group, and every cell."""
    heads = ["policies", "problem", "logs", *COLUMNS, SHARE]
    rows = [heads, ["---:", "---", "---:", *["---:"] * (len(COLUMNS) + 1)]]
    for count in COUNTS:
        for kind, problems in GROUPS.items():
            some = [line for line in lines if line.policies == count and line.problem in problems]
            if not some:
                continue
            mean = {column: float(np.mean([line.means[column] for line in some])) for column in COLUMNS}
            logs = str(sum(line.runs for line in some))
            rows.append([f"**{count}**", f"**{len(some)} {kind} problems**", logs, *_cells_of(mean)])
            rows += [[str(count), line.problem, str(line.runs), *_cells_of(line.means)] for line in some]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _cells_of(means: dict[str, float]) -> list[str]:
    share = means["size of the set"] / means["separate: size"]
    return [*(f"{means[column]:.3f}" for column in COLUMNS), f"{share:.2f}"]


@cache
def cells() -> dict[str, StudyProblem]:
    """Every problem with every number of policies."""
    found = (*study_problems(), *hard_problems(), *fresh_problems(), *real_problems(REAL))
    known = {problem.name: problem for problem in found if isinstance(problem, StudyProblem)}
    named = {name: _named(known[name], name) for some in GROUPS.values() for name in some}
    # Those that came later come last: seeds depend on the order.
    return {
        f"{name} x {count}": named[name]
        for some in ((*PROBLEMS, *FRESH), REAL)
        for count in COUNTS
        for name in some
    }


def _named(cell: StudyProblem, name: str) -> StudyProblem:
    """The cell with its problem under the name of the study."""
    return replace(cell, problem=replace(cell.problem, name=name))
