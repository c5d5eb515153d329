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

from deadweight.blend.mixing import NORMAL
from deadweight.estimate import evaluate
from deadweight.negligible.extremes import DropWarning
from deadweight.records import digest
from deadweight.studies.drop_cells import Task, fresh_cells, tuned_cells
from deadweight.studies.headline_study import facts, judged
from deadweight.studies.runs import Stores, first_runs, make_runs, store_of
from deadweight.typing import FloatArray

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
