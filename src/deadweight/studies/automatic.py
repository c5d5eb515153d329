"""How good is the automatic drop? Mean squared errors of plain, hand-set and automatic variants.

Every problem has an exact truth; a run is one log. Ratios compare variants on the same logs, and their
Monte-Carlo errors are those of paired runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.estimate import evaluate
from deadweight.studies.problems import StudyProblem
from deadweight.typing import FloatArray

HAND_SET = "q-gap:1.0"
PLAIN = ("BEHAVIOUR", "DM", "WPDIS", "WDR")
STATE_BASED = ("WSPDIS", "C-WSPDIS", "WDRSIS")
COMPARISONS = (
    ("C-WSPDIS automatic", "WPDIS"),
    ("WDRSIS automatic", "WDR"),
    ("C-WSPDIS hand-set", "WPDIS"),
    ("WDRSIS hand-set", "WDR"),
    ("WSPDIS automatic", "WPDIS"),
    ("WSPDIS hand-set", "WPDIS"),
)


def run(problem: StudyProblem, seed: np.random.SeedSequence) -> dict[str, float]:
    """Error of every variant on one log."""
    log = problem.sample(seed)
    truth = problem.problem.true_value
    errors: dict[str, float] = {}
    for suffix, names, drop in (
        ("", PLAIN, None),
        (" hand-set", STATE_BASED, HAND_SET),
        (" automatic", STATE_BASED, "auto"),
    ):
        ev = evaluate(log, problem.pi_e, problem.pi_b, names, drop=drop, interval=None)
        errors.update({name + suffix: ev[name].value - truth for name in names})
    return errors


@dataclass(frozen=True)
class MSERatio:
    """MSE of one variant over that of another, on the same runs."""

    value: float
    std_error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} +- {self.std_error:.3f}"


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
