"""How good is the automatic drop? Mean squared errors of plain, hand-set and automatic variants.

Every problem has an exact truth; a run is one log. Ratios compare variants on the same logs, and their
Monte-Carlo errors are those of paired runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.estimate import evaluate
from deadweight.negligible.extremes import DropWarning
from deadweight.studies.problems import StudyProblem, study_problems
from deadweight.studies.runs import Stores, first_runs, make_runs, open_stores
from deadweight.typing import FloatArray

SEED = 2026
HAND_SET = "q-gap:1.0"
PLAIN = ("BEHAVIOUR", "DM", "WPDIS", "WDR")
STATE_BASED = ("WSPDIS", "C-WSPDIS", "DRSIS", "WDRSIS")
COMPARISONS = (
    ("C-WSPDIS automatic", "WPDIS"),
    ("DRSIS automatic", "WDR"),
    ("WDRSIS automatic", "WDR"),
    ("C-WSPDIS hand-set", "WPDIS"),
    ("WDRSIS hand-set", "WDR"),
    ("WSPDIS automatic", "WPDIS"),
    ("WSPDIS hand-set", "WPDIS"),
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
    """One problem's ratios."""

    problem: str
    fresh: bool
    ratios: tuple[MSERatio, ...]


def stores(out: Path) -> Stores:
    """The store of every problem."""
    return open_stores(out / "runs", "automatic", _problems(), SEED, HAND_SET, PLAIN, STATE_BASED)


def study(
    out: Path, runs: int, workers: int = 1, tell: Callable[[str], None] = lambda line: None
) -> Iterator[Line]:
    """Lines of the table, one a problem, as they are finished; `tell` gets remarks on what was found."""
    kept = stores(out)
    for name in make_runs(kept, run, runs, workers, tell):
        made = [record["errors"] for record in first_runs(kept[name], runs)]
        errors = {key: np.array([one[key] for one in made]) for key in made[0]}
        ratios = tuple(mse_ratio(errors[variant], errors[base]) for variant, base in COMPARISONS)
        yield Line(name, _problems()[name].fresh, ratios)


def run(name: str, number: int) -> dict[str, Any]:
    """Error of every variant on one log."""
    problems = _problems()
    problem = problems[name]
    log = problem.sample(np.random.SeedSequence([SEED, list(problems).index(name), number]))
    truth = problem.problem.true_value
    errors: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DropWarning)
        for suffix, names, drop in (
            ("", PLAIN, None),
            (" hand-set", STATE_BASED, HAND_SET),
            (" automatic", STATE_BASED, "auto"),
        ):
            ev = evaluate(log, problem.pi_e, problem.pi_b, names, drop=drop, interval=None)
            errors.update({name + suffix: ev[name].value - truth for name in names})
    return {"errors": errors}


@cache
def _problems() -> dict[str, StudyProblem]:
    return {problem.name: problem for problem in study_problems()}


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


def markdown(lines: list[Line]) -> str:
    """The table of all problems, with geometric means and worst ratios below."""
    heads = ["problem", "fresh", *(f"{variant} / {base}" for variant, base in COMPARISONS)]
    rows = [[line.problem, "yes" if line.fresh else "", *map(str, line.ratios)] for line in lines]
    for title, some in (("all", lines), ("fresh only", [line for line in lines if line.fresh])):
        if not some:
            continue
        columns = [[line.ratios[j] for line in some] for j in range(len(COMPARISONS))]
        rows.append([f"**geometric mean, {title}**", "", *(str(geometric_mean(some)) for some in columns)])
        worst = [max(column, key=lambda ratio: ratio.value) for column in columns]
        rows.append([f"**worst, {title}**", "", *map(str, worst)])
    table = [heads, ["---", "---", *["---:"] * len(COMPARISONS)], *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in table) + "\n"
