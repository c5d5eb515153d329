"""Comparing many policies: is what is said of all of them together right, and how much can be said?

Every run draws policies and a log of one problem, compares them, and looks up the truth. Beside `compare`
stands what a user would do without it: an interval for each policy, at a level divided by their number.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from deadweight.answers.blend import half_width
from deadweight.log.behaviour import estimate_behaviour
from deadweight.mdp.problem import as_policy
from deadweight.mdp.tabular import policy_value, q_values
from deadweight.negligible.state_tests import DropWarning
from deadweight.results.comparison import Comparison
from deadweight.tools.arithmetic import softmax
from deadweight.typing import FloatArray
from deadweight.verbs.compare import compare
from deadweight_studies.headline import fresh_problems
from deadweight_studies.problems import StudyProblem, hard_problems, study_problems
from deadweight_studies.real_kinds import real_problems
from deadweight_studies.records import Record
from deadweight_studies.study import Study, markdown, of_problems

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
    policies = []
    for _ in range(count - 1):
        sign, share = (1.0 if rng.random() < 0.75 else -1.0), rng.uniform(0.1, 0.9)
        noise = rng.uniform(0.2, 1.5) * rng.normal(size=means.shape)[shown]
        liked = softmax((sign * q + noise) / rng.uniform(0.3, 1.5))
        policies.append((1 - share) * old + share * liked)
    return [*policies, old]


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
        comparison = compare(log, policies, pi_b, level=LEVEL, seed=number)
    return {"said": judged(comparison, truth, cell.problem.behaviour_value)}


def judged(comparison: Comparison, truth: FloatArray, old: float) -> dict[str, float]:
    """What was said against the truth, by column."""
    names = list(comparison)
    true = dict(zip(names, truth.tolist(), strict=True))
    intervals = {name: comparison.difference(name).interval for name in names}
    best = max(names, key=true.__getitem__)
    spread = max(true.values()) - min(true.values())
    separate = _separate(comparison)
    highest = max(low for low, _ in separate.values())
    lower_end = max(names, key=lambda name: separate[name][0])
    alone = [name for name in names if _claims_alone(comparison, name)]

    def regret(name: str) -> float:
        return (true[best] - true[name]) / spread if spread > 0 else 0.0

    slack = 1e-9 * max(abs(old), 1.0)
    missed = [not low - slack <= true[k] - old <= high + slack for k, (low, high) in intervals.items()]
    values = (
        any(missed),
        any(true[name] <= old + slack for name in comparison.better),
        best in comparison.may_be_best,
        len(comparison.may_be_best),
        sum(high >= highest for _, high in separate.values()),
        len(comparison.better) + len(comparison.worse),
        len(alone),
        regret(comparison.ranking[0]),
        true[best] - true[comparison.ranking[0]] > comparison.regret_bound[comparison.ranking[0]] + slack,
        regret(lower_end),
    )
    return dict(zip(COLUMNS, map(float, values), strict=True))


def _separate(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """The interval that each policy would have by itself, at a level divided by the number of policies."""
    return {
        name: (headline.value - half, headline.value + half)
        for name in comparison
        for headline, half in [(comparison[name].headline, _widened(comparison, name))]
    }


def _widened(comparison: Comparison, name: str, against: bool = False) -> float:
    """A blend's half-width at that level, of its value or of its distance from the mean return."""
    mixed = comparison[name].headline.blend
    assert mixed is not None
    half = mixed.baseline_error if against else mixed.half_width
    return at_level(half, mixed.contradiction, 1 - (1 - LEVEL) / len(comparison))


def at_level(half: float, bias: float, level: float) -> float:
    """The half-width of a blend at another level, from that at the study's.

    Of the two that it is the larger of, each gives a standard error, and the smaller of these is the one.
    """
    noise, with_bias = half / half_width(1.0, 0.0, LEVEL), (half - bias) / (half_width(1.0, 1.0, LEVEL) - 1.0)
    return half_width(min(noise, with_bias), bias, level)


def _claims_alone(comparison: Comparison, name: str) -> bool:
    """Whether an evaluation by itself would claim a difference from the behaviour policy."""
    distance = abs(comparison[name].headline.value - comparison.baseline_value)
    return distance > _widened(comparison, name, against=True)


def line(name: str, records: list[Record]) -> Line:
    """The means of a cell."""
    means = {column: float(np.mean([record["said"][column] for record in records])) for column in COLUMNS}
    problem, _, count = name.rpartition(" x ")
    return Line(problem, int(count), means, len(records))


def table(lines: list[Line]) -> str:
    """Means by number of policies, over the problems of each group, and every cell."""
    rows = []
    for count in COUNTS:
        for kind, problems in GROUPS.items():
            group = [line for line in lines if line.policies == count and line.problem in problems]
            if not group:
                continue
            mean = {column: float(np.mean([line.means[column] for line in group])) for column in COLUMNS}
            logs = str(sum(line.runs for line in group))
            rows.append([f"**{count}**", f"**{len(group)} {kind} problems**", logs, *_cells_of(mean)])
            rows += [[str(count), line.problem, str(line.runs), *_cells_of(line.means)] for line in group]
    return markdown(["policies", "problem", "logs", *COLUMNS, SHARE], rows, left=(1,)) + "\n"


def _cells_of(means: dict[str, float]) -> list[str]:
    share = means["size of the set"] / means["separate: size"]
    return [*(f"{means[column]:.3f}" for column in COLUMNS), f"{share:.2f}"]


@cache
def cells() -> dict[str, StudyProblem]:
    """Every problem with every number of policies."""
    known = (*study_problems(), *hard_problems(), *fresh_problems(), *real_problems(REAL))
    named = {
        cell.name: replace(cell, problem=replace(cell.problem, name=cell.name))
        for cell in known
        if isinstance(cell, StudyProblem)
    }
    # Those that came later come last: seeds depend on the order.
    return {
        f"{name} x {count}": named[name]
        for names in ((*PROBLEMS, *FRESH), REAL)
        for count in COUNTS
        for name in names
    }


def _words(line: Line) -> str:
    means = ", ".join(f"{name} {value:.2f}" for name, value in line.means.items())
    return f"{line.problem}, {line.policies} policies, {line.runs} logs: {means}"


STUDY = Study(
    name="compare",
    cells=cells,
    run=run,
    fingerprint=of_problems(SEED, COUNTS, LEVEL, COUNTED),
    line=line,
    table=table,
    words=_words,
)
