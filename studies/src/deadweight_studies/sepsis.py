"""How good is the headline on a real table? BLEND and the rows beside it on logs of sepsis treatment.

716 states, 25 actions, and one reward at the very end, where the package icu-sepsis is installed: its wheel
holds transition tables estimated from MIMIC-III. They are read by path, since importing the package needs a
library that is no longer maintained. A run is one log of 2,000 stays, as in `deadweight_studies.headline`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import numpy as np

from deadweight.errors import MissingExtra
from deadweight.mdp.problem import Problem, as_policy
from deadweight.mdp.tabular import TabularMDP, q_values
from deadweight.typing import FloatArray
from deadweight_studies.headline import facts, measured
from deadweight_studies.problems import StudyProblem
from deadweight_studies.records import Record
from deadweight_studies.study import Study, markdown

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
    mixed: FloatArray = 0.5 * expert + 0.5 * better / better.sum(axis=1, keepdims=True)
    return mixed


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


def tables(task: StudyProblem, records: list[Record]) -> str:
    """What the rows say, and what the verdicts are."""
    truth, total = task.values[0], len(records)
    lines = []
    for name in ROWS:
        value, low, high = np.array([record["rows"][name] for record in records]).T
        width, covered = high - low, int(((low <= truth) & (truth <= high)).sum())
        lines.append(
            [
                *(name, "" if name == NAIVE else f"{covered} of {total}"),
                *(f"{width.mean():.3f}", f"{width.max():.3f}"),
                f"{np.sqrt(np.square(value - truth).mean()):.4f}",
            ]
        )
    heads = [f"{STAYS:,} stays", "holds the true value", "mean width", "widest", "root mean squared error"]
    verdicts = [record["verdict"] for record in records]
    numbers = {
        "true values, new and old policy": f"{truth:.5f}, {task.values[1]:.5f}",
        "verdicts: right, cannot tell, wrong": ", ".join(
            str(verdicts.count(answer)) for answer in ("right", "cannot tell", "wrong")
        ),
        '"better" at pi_e = pi_b, counted': str(sum(record["null"] == "better" for record in records)),
        "logs with the flag infinite-variance on WPDIS": str(sum(record["infinite"] for record in records)),
    }
    return f"{markdown(heads, lines)}\n\n{markdown(['sepsis', ''], list(numbers.items()))}"


STUDY = Study(
    name="sepsis",
    cells=lambda: {cell().name: cell()},
    run=run,
    fingerprint=lambda place, task: (SEED, *facts(task)),
    line=lambda name, records: tables(cell(), records),
    table="".join,
    words=lambda text: "",  # there is one cell, and its text is the table
)
