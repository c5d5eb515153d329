"""Do the intervals cover? Every kind of interval on many logs of problems whose answer is known.

A cell is a problem and a number of episodes; a run is one log of it. Each run asks whether every kind of
interval holds the value that it claims to hold, how wide it is, whether the verdict is right, and whether it
says "better" where the evaluation policy *is* the behaviour policy. In the hidden problems every fitted model
is wrong. The tables say how often each interval held its target, and how wide it was.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.domains import inventory, stochastic_lift
from deadweight.log.behaviour import estimate_behaviour
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem
from deadweight.mdp.tabular import TabularMDP, entry_rows, policy_value
from deadweight.negligible.state_tests import DropWarning
from deadweight.results.estimate import Estimate
from deadweight.results.evaluation import Evaluation
from deadweight.tools.files import write_text, writing
from deadweight.typing import FloatArray
from deadweight.verbs.estimate import estimate, evaluate
from deadweight.verbs.verdict import verdict
from deadweight_studies.problems import StudyProblem, study_problems
from deadweight_studies.study import Runs, first_runs, markdown, of_problems

LEVEL = 0.95
RESAMPLES = 200
SEED = 2024
AUTO = ("WPDIS", "C-WSPDIS", "WDRSIS")
# Problems of the other studies, with their numbers of episodes.
FROM_STUDIES = (
    "taxi, 10 steps",
    "conveyor belt",
    "river",
    "machine repair",
    "windy grid",
    "random 8 x 3",
    "random 30 x 4",
    "random 60 x 5, sparse reward",
    "hidden 8 x 3",
    "hidden 20 x 2",
)


@dataclass(frozen=True)
class Row:
    """One interval of one run."""

    estimator: str
    interval: str
    covers: str
    lower: float
    upper: float
    target: float

    @property
    def covered(self) -> bool:
        """Whether the interval holds its target."""
        return self.lower <= self.target <= self.upper


@cache
def cells() -> dict[str, StudyProblem]:
    """All cells by name."""
    known = {problem.name: problem for problem in study_problems()}
    chosen = [known[name] for name in FROM_STUDIES]
    chosen += [
        StudyProblem("stochastic lift 7, 12 steps", cut(stochastic_lift(7), 12), 300),
        StudyProblem("inventory, 10 steps", inventory(10, horizon=10, pi_e="softened-optimal"), 250),
        replace(known["random 8 x 3"], episodes=800),
        replace(known["hidden 8 x 3"], episodes=1200),
        known["random 20 x 2, long"],
        known["conveyor belt, hidden load"],
    ]
    return {f"{cell.name}, n = {cell.episodes}": cell for cell in chosen}


def cut(problem: Problem, horizon: int) -> Problem:
    """The problem with every episode cut at a horizon."""
    mdp = problem.mdp
    short = TabularMDP._trusted(mdp.P, mdp.r, mdp.d0, horizon, mdp.transition_rewards)
    return Problem(f"{problem.name}, {horizon} steps", short, problem.pi_e, problem.pi_b)


def possible_returns(mdp: TabularMDP, horizon: int) -> tuple[float, float]:
    """The smallest and the largest return that an episode can have, by dynamic programming."""
    rows = entry_rows(mdp.P)
    paid = mdp.r.ravel()[rows] if mdp.transition_rewards is None else mdp.transition_rewards
    states = rows // mdp.n_actions

    def extreme(choose: np.ufunc, worst: float) -> FloatArray:
        v = np.zeros(mdp.n_states + 1)
        for _ in range(horizon):
            following = np.full(mdp.n_states + 1, worst)
            choose.at(following, states, paid + v[mdp.P.indices])
            following[-1] = 0.0
            v = following
        return v[:-1][mdp.d0 > 0]

    return float(extreme(np.minimum, np.inf).min()), float(extreme(np.maximum, -np.inf).max())


def run(name: str, number: int) -> dict[str, Any]:
    """All intervals and null verdicts of one run, ready for JSON."""
    cell = cells()[name]
    log = cell.sample(np.random.SeedSequence([SEED, list(cells()).index(name), number]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)
        table = evaluate(
            log, cell.pi_e, cell.pi_b, ["BEHAVIOUR", *AUTO], drop="auto", level=LEVEL, background=False
        )
        rows = list(intervals(cell, log, table))
        better = dict(null_verdicts(cell, log))
    return {
        "rows": [[*vars(row).values()] for row in rows],
        "better": better,
        "verdicts": {name: judged(table, name, cell) for name in AUTO},
    }


def judged(table: Evaluation, name: str, cell: StudyProblem) -> str:
    """Whether the verdict on the evaluation policy is "right", "wrong", or "cannot tell"."""
    answer = verdict(table[name], table["BEHAVIOUR"]).answer
    if answer == "cannot tell":
        return answer
    better = cell.problem.true_value > cell.problem.behaviour_value
    return "right" if (answer == "better") == better else "wrong"


def intervals(cell: StudyProblem, log: Trajectories, table: Evaluation) -> Iterator[Row]:
    """Every kind of interval on one log; `table` has those of the kind "auto"."""
    problem = cell.problem
    horizon, truth = problem.horizon, problem.true_value
    assert horizon is not None
    settings: dict[str, Any] = {
        "level": LEVEL,
        "resamples": RESAMPLES,
        "return_range": possible_returns(problem.mdp, horizon),
    }

    def ask(estimator: str, kind: str, drop: Any) -> Estimate:
        return estimate(estimator, log, cell.pi_e, cell.pi_b, drop=drop, interval=kind, **settings)

    for estimator in AUTO:
        yield _row(table[estimator], truth)
        yield _without_cross_check(table[estimator], truth)
    dropped = table["C-WSPDIS"].dropped
    for kind in ("student-t", "bootstrap", "bca"):
        yield _row(ask("WPDIS", kind, None), truth)
        yield _row(ask("WSPDIS", kind, dropped), truth)
    for kind in ("guaranteed", "bernstein"):
        yield _row(ask("IS", kind, None), truth)
    bound = ask("SIS", "guaranteed", "auto")
    assert bound.bounds is not None
    yield _row(bound, _value_of_mu(cell, bound.bounds.dropped))


def null_verdicts(cell: StudyProblem, log: Trajectories) -> Iterator[tuple[str, bool]]:
    """Whether the verdict says "better" when pi_e is pi_b: with pi_b known, and with pi_b from counts."""
    for how, pi_b in (("known", cell.pi_b), ("counts", estimate_behaviour(log))):
        table = evaluate(log, cell.pi_b, pi_b, ["BEHAVIOUR", *AUTO], drop="auto", background=False)
        for estimator in AUTO:
            yield f"{estimator}, pi_b {how}", verdict(table[estimator], table["BEHAVIOUR"]).answer == "better"


def _row(estimate: Estimate, target: float) -> Row:
    bounds = estimate.bounds
    assert bounds is not None
    return Row(estimate.name, bounds.kind, bounds.covers, bounds.lower, bounds.upper, target)


def _without_cross_check(estimate: Estimate, target: float) -> Row:
    """What the interval would be with `cross_check=False`."""
    bounds, centre = estimate.bounds, estimate.centre
    assert bounds is not None
    half = bounds.sampling_error + abs(estimate.bias or 0.0)
    return Row(estimate.name, "auto unchecked", bounds.covers, centre - half, centre + half, target)


def _value_of_mu(cell: StudyProblem, dropped: list[Any]) -> float:
    """Exact value of the policy equal to pi_b in the dropped states and to pi_e elsewhere."""
    problem = cell.problem
    shown = np.arange(problem.mdp.n_states) if cell.shown is None else cell.shown
    mask = np.isin(shown, dropped)[:, None]
    return policy_value(problem.mdp, np.where(mask, problem.pi_b.probs, problem.pi_e.probs))


STUDY = Runs(name="coverage", cells=cells, run=run, fingerprint=of_problems(SEED, LEVEL, RESAMPLES, AUTO))

# --- Tables

HEADINGS = ("cell", "runs", "estimator", "interval", "covers", "coverage", "std_error", "median_width")

ANSWERS = ("right", "cannot tell", "wrong")


@dataclass(frozen=True)
class Line:
    """One kind of interval of one estimator in one cell."""

    cell: str
    runs: int
    estimator: str
    interval: str
    covers: str
    coverage: float
    std_error: float
    median_width: float


Shares = dict[str, dict[str, str]]


def summarise(out: Path, runs: int | None = None) -> tuple[list[Line], Shares, Shares]:
    """Lines of the first `runs` runs, and by cell the shares of wrong "better" and of other verdicts."""
    lines: list[Line] = []
    better: Shares = {}
    verdicts: Shares = {}
    for cell, store in sorted(STUDY.stores(out).items(), key=lambda item: item[1].path):
        records = first_runs(store, runs)
        if not records:
            continue
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for record in records:
            for values in record["rows"]:
                row = Row(*values)
                groups[row.estimator, row.interval].append(row)
        for (estimator, interval), rows in groups.items():
            share = float(np.mean([row.covered for row in rows]))
            error = float(np.sqrt(share * (1 - share) / len(rows)))
            width = float(np.median([row.upper - row.lower for row in rows]))
            covers = "V(mu_D)" if estimator == "SIS" else "V(pi_e)"
            lines.append(Line(cell, len(rows), estimator, interval, covers, share, error, width))
        names = records[0]["better"]
        better[cell] = {name: f"{np.mean([r['better'][name] for r in records]):.3f}" for name in names}
        verdicts[cell] = {
            name: " / ".join(
                f"{np.mean([r['verdicts'][name] == answer for r in records]):.3f}" for answer in ANSWERS
            )
            for name in AUTO
        }
    return lines, better, verdicts


def write_tables(out: Path, runs: int | None = None) -> str:
    """Write coverage.csv and coverage.md into the folder; returns the text of the second."""
    lines, better, verdicts = summarise(out, runs)
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(HEADINGS)
    writer.writerows([getattr(line, heading) for heading in HEADINGS] for line in lines)
    tables = [
        _wide(lines, "coverage"),
        _wide(lines, "median_width"),
        _shares('wrongly "better"', better),
        _shares(" / ".join(ANSWERS), verdicts),
    ]
    text = "\n\n".join(tables)
    with writing(out / "coverage.md"):
        write_text(out / "coverage.csv", table.getvalue())
        write_text(out / "coverage.md", text + "\n")
    return text


def _wide(lines: list[Line], what: str) -> str:
    """A Markdown table with a row a cell and a column for each estimator and interval."""
    columns = list(dict.fromkeys((line.interval, line.estimator) for line in lines))
    cells = list(dict.fromkeys(line.cell for line in lines))
    values = {(line.cell, line.interval, line.estimator): getattr(line, what) for line in lines}
    form = "{:.3f}" if what == "coverage" else "{:.3g}"
    heads = [what.replace("_", " "), *(f"{interval} {estimator}" for interval, estimator in columns)]
    rows = [[cell, *(form.format(values[cell, *column]) for column in columns)] for cell in cells]
    return markdown(heads, rows)


def _shares(heading: str, by_cell: Shares) -> str:
    names = list(next(iter(by_cell.values()), {}))
    return markdown([heading, *names], [[cell, *shares.values()] for cell, shares in by_cell.items()])
