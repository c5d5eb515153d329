"""How good is the headline on a real table? BLEND and the rows beside it on logs of sepsis treatment.

716 states, 25 actions, and one reward at the very end (`deadweight.studies.sepsis`, which needs the package
icu-sepsis). A run is one log of 2,000 stays, as in `deadweight.studies.headline_study`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.domains import Problem
from deadweight.domains.problem import as_policy
from deadweight.errors import MissingExtra
from deadweight.records import digest
from deadweight.studies.coverage_tables import markdown
from deadweight.studies.headline_study import facts, measured
from deadweight.studies.problems import StudyProblem
from deadweight.studies.runs import first_runs, make_runs, store_of
from deadweight.studies.sepsis import sepsis, softened_improvement

SEED = 2030
STAYS = 2000
ROWS = ("BLEND", "BEHAVIOUR", "DM", "WIS", "WDR", "WDRSIS", "WPDIS", "C-WSPDIS")
# Where nothing is right about a row that gives the mean of the log.
NAIVE = "BEHAVIOUR"


@cache
def cell() -> StudyProblem:
    """The task: half clinician, half what is better by the clinicians' own values."""
    try:
        mdp, expert = sepsis()
    except PackageNotFoundError:
        raise MissingExtra("The sepsis study", "bench") from None
    new = softened_improvement(mdp, expert)
    return StudyProblem("sepsis", Problem("sepsis", mdp, as_policy(new, mdp), as_policy(expert, mdp)), STAYS)


def run(name: str, number: int) -> dict[str, Any]:
    """One log, ready for JSON."""
    return measured(cell(), np.random.SeedSequence([SEED, number]))


def study(out: Path, runs: int, workers: int = 1, tell: Callable[[str], None] = lambda line: None) -> str:
    """Make the runs that are missing, and the tables of the first `runs`."""
    task = cell()
    store = store_of(out / "runs", "sepsis", task.name, digest(SEED, *facts(task)))
    for _ in make_runs({task.name: store}, run, runs, workers, tell):
        pass
    return tables(task, first_runs(store, runs))


def tables(task: StudyProblem, made: list[dict[str, Any]]) -> str:
    """What the rows say, and what the verdicts are."""
    truth, total = task.values[0], len(made)
    lines = []
    for name in ROWS:
        found = np.array([record["rows"][name] for record in made])
        width = found[:, 2] - found[:, 1]
        covered = int(((found[:, 1] <= truth) & (truth <= found[:, 2])).sum())
        lines.append(
            [
                *(name, "" if name == NAIVE else f"{covered} of {total}"),
                *(f"{width.mean():.3f}", f"{width.max():.3f}"),
                f"{np.sqrt(np.square(found[:, 0] - truth).mean()):.4f}",
            ]
        )
    heads = [f"{STAYS:,} stays", "holds the true value", "mean width", "widest", "root mean squared error"]
    verdicts = [record["verdict"] for record in made]
    facts_of = {
        "true values, new and old policy": f"{truth:.5f}, {task.values[1]:.5f}",
        "verdicts: right, cannot tell, wrong": ", ".join(
            str(verdicts.count(one)) for one in ("right", "cannot tell", "wrong")
        ),
        '"better" at pi_e = pi_b, counted': str(sum(record["null"] == "better" for record in made)),
        "logs with the flag infinite-variance on WPDIS": str(sum(record["infinite"] for record in made)),
    }
    return "\n\n".join(
        [markdown(heads, lines), markdown(["sepsis", ""], [list(pair) for pair in facts_of.items()])]
    )
