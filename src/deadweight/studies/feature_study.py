"""What the default does on logs with features: errors against plain estimates, and whether intervals hold.

A run is one log: all estimates of it, the interval of the headline, the verdict and its flags. The truth is
that of the problem, by simulation. Runs are kept, so that a study can be stopped and extended.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from deadweight.estimate import evaluate
from deadweight.records import Record, digest
from deadweight.studies import bad_models, feature_cells
from deadweight.studies.feature_cells import FeatureCell, cells
from deadweight.studies.runs import first_runs, make_runs, store_of

SEED = 1216
NAMES = ("BEHAVIOUR", "WPDIS", "DM", "WDR", "C-WSPDIS", "WDRSIS", "BLEND")
ANSWERS = ("better", "worse", "cannot tell")


@cache
def truth(name: str) -> float:
    """The value of pi_e of a cell."""
    return cells()[name].problem.true_value


def run(name: str, number: int) -> Record:
    """The estimates of one log."""
    cell, place = cells()[name], list(cells()).index(name)
    log = cell.problem.sample(cell.episodes, np.random.SeedSequence([SEED, place, number]))
    known = truth(name)
    began = time.process_time()
    options = {} if cell.model is None else {"model": cell.model(log, number)}
    ev = evaluate(log, cell.problem.pi_e, cell.pi_b(log, number), list(NAMES), background=False, **options)
    seconds = time.process_time() - began
    headline = ev.headline
    assert headline.interval is not None, "one was asked for"
    lower, upper = headline.interval
    return {
        "truth": known,
        "values": {estimator: ev[estimator].value for estimator in NAMES},
        "dropped": ev["C-WSPDIS"].dropped_share,
        "headline": headline.name,
        "interval": [float(lower), float(upper)],
        "ess": ev["WPDIS"].ess,
        "answer": ev.verdict.answer,
        "flags": sorted({flag for one in NAMES for flag in ev[one].flags}),
        "seconds": seconds,
    }


@dataclass(frozen=True)
class Line:
    """What the runs of one cell show.

    Attributes:
      name, cell: the cell.
      runs: how many.
      rmse: by estimator.
      coverage: share of the headline's intervals that hold the truth.
      width: of the headline's interval, mean, over 2 x 1.96 times its root mean square error.
      answers: share of runs by verdict.
      seconds: CPU time of one evaluation, median.
    """

    name: str
    cell: FeatureCell
    runs: int
    rmse: dict[str, float]
    coverage: float
    width: float
    answers: dict[str, float]
    seconds: float

    def ratio(self, estimator: str, plain: str) -> float:
        """Mean square error over that of a plain estimate."""
        return (self.rmse[estimator] / self.rmse[plain]) ** 2

    def __str__(self) -> str:
        return (
            f"{self.name}: C-WSPDIS/WPDIS {self.ratio('C-WSPDIS', 'WPDIS'):.2f}, WDRSIS/WDR "
            f"{self.ratio('WDRSIS', 'WDR'):.2f}, coverage {self.coverage:.2f} of {self.runs} runs"
        )


def study(
    folder: Path, runs: int, workers: int, tell: Callable[[str], None] = lambda line: None
) -> Iterator[Line]:
    """Make the runs that are missing, and yield each cell's line when it is done."""
    made = digest(inspect.getsource(feature_cells), inspect.getsource(bad_models), NAMES)
    stores = {name: store_of(folder, "features", name, made) for name in cells()}
    for name in make_runs(stores, run, runs, workers, tell):
        yield line_of(name, first_runs(stores[name], runs))


def line_of(name: str, records: list[Record]) -> Line:
    """The line of a cell from its runs."""
    known = records[0]["truth"]
    values = {one: np.array([record["values"][one] for record in records]) for one in NAMES}
    ends = np.array([record["interval"] for record in records])
    rmse = {one: float(np.sqrt(np.mean((found - known) ** 2))) for one, found in values.items()}
    centre = np.array([record["values"][record["headline"]] for record in records])
    error = max(float(np.sqrt(np.mean((centre - known) ** 2))), 1e-12)
    return Line(
        name=name,
        cell=cells()[name],
        runs=len(records),
        rmse=rmse,
        coverage=float(np.mean((ends[:, 0] <= known) & (known <= ends[:, 1]))),
        width=float(np.mean(ends[:, 1] - ends[:, 0]) / (2 * 1.96 * error)),
        answers={one: float(np.mean([record["answer"] == one for record in records])) for one in ANSWERS},
        seconds=float(np.median([record["seconds"] for record in records])),
    )


def markdown(lines: list[Line]) -> str:
    """The table of all cells, and the figures over them."""
    rows = [
        "| cell | RMSE: " + " | ".join(NAMES[1:]) + " | C-WSPDIS / WPDIS | WDRSIS / WDR | coverage | width | "
        "better / worse / cannot tell | CPU s |",
        "| --- " * (len(NAMES) + 6) + "|",
    ]
    for line in lines:
        errors = " | ".join(f"{line.rmse[name]:.3g}" for name in NAMES[1:])
        answers = " / ".join(f"{line.answers[answer]:.2f}" for answer in ANSWERS)
        rows.append(
            f"| {line.name} ({line.runs}) | {errors} | {line.ratio('C-WSPDIS', 'WPDIS'):.2f} | "
            f"{line.ratio('WDRSIS', 'WDR'):.2f} | {line.coverage:.2f} | {line.width:.2f} | {answers} | "
            f"{line.seconds:.1f} |"
        )
    groups = {
        "as they come": [one for one in lines if one.cell.is_fair and not one.cell.fresh],
        "as they come, fresh": [one for one in lines if one.cell.is_fair and one.cell.fresh],
        "useless models": [one for one in lines if one.cell.useless],
        "values in 50 cells": [one for one in lines if one.cell.binned],
    }
    said = [sentence for title, some in groups.items() for sentence in _summary(title, some)]
    return "\n".join([*rows, "", *said]) + "\n"


def _summary(title: str, lines: list[Line]) -> Iterator[str]:
    """Geometric mean and worst of the two ratios, and the lowest coverage."""
    if not lines:
        return
    for over, under in (("C-WSPDIS", "WPDIS"), ("WDRSIS", "WDR"), ("BLEND", "WPDIS")):
        ratios = np.array([line.ratio(over, under) for line in lines])
        mean = float(np.exp(np.log(ratios).mean()))
        yield (
            f"{over} / {under}, {len(lines)} cells, {title}: mean square error {mean:.2f} (geometric mean), "
            f"{ratios.max():.2f} (worst).\n"
        )
    lowest = min(lines, key=lambda line: line.coverage)
    yield f"Lowest coverage, {title}: {lowest.coverage:.2f} ({lowest.name}).\n"
