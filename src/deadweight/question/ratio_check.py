r"""Are the ratios right? A check of the behaviour policy that needs no truth.

.. math:: z_1 = \text{mean}_i \sum_t (\rho_{it} - 1) \;/\; \text{its standard error}

Under the true pi_b the mean of rho is 1 in every state, whatever pi_e is, so z_1 is about a standard normal
number. A pi_b that was fitted badly, or that has learned the log by heart, moves it far away. The product of
ratios has mean 1 as well, but so long a tail that its z misleads. What pi_b looked at and the log does not
show moves neither: no check of a log can see that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.basics.arithmetic import sums_by
from deadweight.log.labels import plain
from deadweight.log.row_numbers import episode_of_rows
from deadweight.log.trajectories import Trajectories
from deadweight.typing import FloatArray, IntArray, Labels

if TYPE_CHECKING:
    from deadweight.question.core import Question

MOST = 3.0
BINS = 10
FLAG = "behaviour-miscalibrated"


def z_of(log: Trajectories, rho: FloatArray) -> float:
    """The mean over episodes of sum_t (rho_t - 1), in standard errors; 0 where all ratios are 1."""
    episode = episode_of_rows(log)
    sums = sums_by(episode, rho - 1.0, log.n_episodes)
    error = float(sums.std(ddof=1)) / np.sqrt(log.n_episodes) if log.n_episodes > 1 else 0.0
    return float(sums.mean() / error) if error > 0 else 0.0


def z_of_question(question: Question) -> float:
    """The same of the two policies of a question about a log in memory."""
    log, pair = question.parts[0], question.pair
    return z_of(log, pair.evaluation.along(log) / pair.behaviour.along(log))


def ratio_flags(question: Question) -> tuple[str, ...]:
    """The flag of a behaviour policy whose ratios are wrong, where policies are given row by row."""
    if question.parts.has_states or not question.parts.has_rows:
        return ()
    return (FLAG,) if abs(z_of_question(question)) > MOST else ()


def calibration_of(
    probs: FloatArray, taken: IntArray, labels: Labels, codes: IntArray
) -> list[dict[str, Any]]:
    """What was predicted and what happened, a record for each of some actions and tenth of the steps.

    Args:
      probs: (steps, A) pi_b.
      taken: (steps,) the action of each step.
      labels: of the actions.
      codes: the actions.
    """
    records = []
    for code in codes:
        predicted, happened = probs[:, code], taken == code
        for rows in np.array_split(np.argsort(predicted, kind="stable"), min(BINS, len(predicted))):
            p = predicted[rows]
            records.append(
                {
                    "action": plain(labels[code]),
                    "steps": len(rows),
                    "predicted": float(p.mean()),
                    "observed": float(happened[rows].mean()),
                    "std_error": float(np.sqrt((p * (1.0 - p)).sum()) / len(rows)),
                }
            )
    return records
