"""How good is the headline on a real table? BLEND and the rows beside it on logs of sepsis treatment.

716 states, 25 actions, and one reward at the very end (`deadweight_studies.sepsis`, which needs the package
icu-sepsis). A run is one log of 2,000 stays, as in `deadweight_studies.headline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np

from deadweight.errors import MissingExtra
from deadweight.mdp.problem import Problem, as_policy
from deadweight.mdp.tabular import TabularMDP, q_values
from deadweight.typing import FloatArray
from deadweight_studies.coverage import markdown
from deadweight_studies.headline import facts, measured
from deadweight_studies.problems import StudyProblem
from deadweight_studies.records import digest
from deadweight_studies.runs import first_runs, make_runs, store_of

# --------------------------------------------------------------------------------------------------------
# Sepsis treatment as a table of 716 states and 25 actions, where the package icu-sepsis is installed.
#
# Its wheel holds transition tables estimated from MIMIC-III. They are read by path, since importing the
# package needs a library that is no longer maintained.

HORIZON = 500


def sepsis() -> tuple[TabularMDP, FloatArray]:
    """The MDP, and the clinicians' policy as (S, A) probabilities."""
    files = distribution("icu-sepsis").files or []
    path = next(file for file in files if file.name == "dynamics.npz").locate()
    with np.load(str(path)) as arrays:
        P, R, d0 = (np.array(arrays[name], dtype=float) for name in ("tx_mat", "r_mat", "d_0"))
        expert = np.array(arrays["expert_policy"], dtype=float)
    ended = expert.sum(axis=1) == 0  # death, survival, and what follows: nobody acts there
    P[ended] = 0.0  # mass that is missing from a row is termination
    expert[ended] = 1.0 / expert.shape[1]
    rewards = R if R.shape == P.shape else R.reshape(P.shape[:2])
    return TabularMDP(P, rewards, d0 / d0.sum(), horizon=HORIZON), expert


def softened_improvement(mdp: TabularMDP, expert: FloatArray) -> FloatArray:
    """Half clinician, half softmax of the clinicians' own action values, over what clinicians do at all."""
    q = q_values(mdp, expert, HORIZON)[0]
    better = np.where(expert > 0, np.exp((q - q.max(axis=1, keepdims=True)) / 0.01), 0.0)
    found: FloatArray = 0.5 * expert + 0.5 * better / better.sum(axis=1, keepdims=True)
    return found


# --------------------------------------------------------------------------------------------------------

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
