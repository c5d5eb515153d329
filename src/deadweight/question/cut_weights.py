r"""Weights for episodes that were cut: each row that was seen stands for those that were cut off before it.

Where episodes are cut, later rows are seen too seldom, and an average over the log counts what was cut off as
nothing. If the chance c of being cut at a step depends only on what the log shows of that step, a row at step
t stands for

.. math:: C_t = \prod_{j < t} \frac{1}{1 - c_j}

rows (inverse probability of censoring; Robins & Rotnitzky, 1992). Its reward counts C_t times, and so do the
values of a model there: like a discount above 1, so that every estimator is what it is elsewhere. The chance
is the share of rows that were cut, in groups `by`

| way | rows with the same chance of being cut |
| --- | --- |
| "all" | all |
| "step" | those of one step number |
| "state" | those in one state |
| "pair" | those in one state with one action |
| "state-step" | those in one state at one step number |

and "auto" is the way that best foretells the cuts of episodes which it has not seen. Rows at the last step of
all are not at risk: nothing that counts comes after them. Where the log does not say what a cut step led to,
it may have been the end, and all rows are at risk. Where it says so for all of them, only those that go on
are, and the state of a group is the one in which they were cut.

What nobody can see, such as a diagnosis that is not in the table, may decide who is cut: then these weights
are wrong as well, and only bounds (`deadweight.cut_bounds`) are valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.errors import EstimationError, OptionError
from deadweight.log.durations import Standing
from deadweight.log.interface import Log, in_memory
from deadweight.log.row_numbers import step_of_rows
from deadweight.log.trajectories import Trajectories
from deadweight.typing import BoolArray, FloatArray, IntArray

WAYS = ("all", "step", "state", "pair", "state-step")
WORDS = {
    "all": "the same for all rows",
    "step": "by step",
    "state": "by state",
    "pair": "by state and action",
    "state-step": "by state and step",
}
FOLDS = 5


@dataclass(frozen=True)
class CutWeights:
    """How the cuts of a log were weighed.

    Attributes:
      by: the way that was taken, see above.
      n_cut: episodes that were cut before the last step.
      largest: the most rows that one row stands for.
      blind: share of the rows in groups of which all were cut, so that nothing stands for what follows.
      scores: of each way, minus the mean logarithm of the chance given to what happened, for episodes that
        it has not seen; less is better.
    """

    by: str
    n_cut: int
    largest: float
    blind: float
    scores: dict[str, float]

    @property
    def sentence(self) -> str:
        """What was done, in words."""
        said = (
            f"{self.n_cut:,} episodes were cut; rows that were seen stand for what was cut off, by the "
            f"chance of being cut {WORDS[self.by]} (one row for at most {self.largest:.3g}). That is right "
            "only if nothing else decided who was cut."
        )
        if self.blind == 0.0:
            return said
        return f"{said} In groups with {self.blind:.1%} of the rows all were cut: nobody knows what follows."


def weigh_cuts(log: Log, way: str, finished: str) -> tuple[Log, CutWeights | None]:
    """The log with rows that stand for others, and how; as it was if none was cut before the last step."""
    if not (log.has_rows and log.has_states):
        raise EstimationError(
            "cut_weights needs a log in memory whose states have labels; this one "
            + ("is read in parts." if not log.has_rows else "has rows for states."),
            fix="Read it with deadweight.read (--no-stream), with a column state; or leave cut_weights out "
            "and see how much the cuts could matter: cut_bounds (--cut-range).",
        )
    if finished != "absorb":
        raise OptionError(
            f"cut_weights needs finished='absorb'; found {finished!r}: episodes that leave the normaliser "
            "would be counted twice.",
            fix="Leave finished out, or leave cut_weights out.",
        )
    whole = log[0]
    risk = _Risk(whole)
    if not risk.cut.any():
        return log, None
    scores = {one: risk.score(one) for one in WAYS}
    by = min(scores, key=lambda one: scores[one]) if way == "auto" else way
    standing, blind = risk.standing(by)
    found = CutWeights(by, int(risk.cut.sum()), float(standing.rows.max()), blind, scores)
    return in_memory(whole.standing_for(standing)), found


class _Risk:
    """Rows after which an episode can be cut, and those after which it was."""

    def __init__(self, log: Trajectories) -> None:
        self.log, last = log, log.offsets[1:] - 1
        self.steps: IntArray = step_of_rows(log)
        final = self.steps == max(log.horizon, log.time_limit or 0) - 1
        cut = np.zeros(log.n_steps, dtype=bool)
        cut[last[~log.terminated]] = True
        self.cut: BoolArray = cut & ~final
        self.shows_outcomes = bool((log.next_states[self.cut] >= 0).all())
        self.at_risk: BoolArray = ~final
        if self.shows_outcomes:
            self.at_risk[last[log.terminated]] = False

    def groups(self, way: str) -> tuple[IntArray, int]:
        """(rows at risk,) the group of each, and their number."""
        log, rows = self.log, self.at_risk
        states = (log.next_states if self.shows_outcomes else log.states)[rows]
        keys = {
            "all": np.zeros(len(states), dtype=np.int64),
            "step": self.steps[rows],
            "state": states,
            "pair": states * log.n_actions + log.actions[rows],
            "state-step": self.steps[rows] * log.n_states + states,
        }[way]
        found, group = np.unique(keys, return_inverse=True)
        return group, len(found)

    def score(self, way: str) -> float:
        """The held-out score of a way; chances of small groups lean towards that of all rows."""
        group, n = self.groups(way)
        episode = np.repeat(np.arange(self.log.n_episodes), self.log.lengths)[self.at_risk]
        cell, cut = group + n * (episode % FOLDS), self.cut[self.at_risk]
        rows, cuts = (np.bincount(cell, weights, FOLDS * n).reshape(FOLDS, n) for weights in (None, cut))
        rows, cuts = rows.sum(axis=0) - rows, cuts.sum(axis=0) - cuts  # of all the other folds
        overall = (cuts.sum(axis=1) + 1.0) / (rows.sum(axis=1) + 2.0)
        chance = ((cuts + overall[:, None]) / (rows + 1.0)).ravel()[cell]
        return float(-np.log(np.where(cut, chance, 1.0 - chance)).mean())

    def standing(self, way: str) -> tuple[Standing, float]:
        """For how many rows each row stands, and the share of rows for which none does."""
        group, n = self.groups(way)
        chance = np.bincount(group, self.cut[self.at_risk], n) / np.bincount(group, minlength=n)
        factor = np.ones(self.log.n_steps)
        # Where all were cut no row follows, and the factor is used nowhere.
        factor[self.at_risk] = (1.0 / np.where(chance < 1.0, 1.0 - chance, 1.0))[group]
        rows = self._running(factor)
        outcomes = rows if self.shows_outcomes else rows * factor
        return Standing(rows, outcomes), float((chance[group] == 1.0).mean())

    def _running(self, factor: FloatArray) -> FloatArray:
        """(steps,) the product of the factors of all rows before each row of an episode."""
        log, product = self.log, np.ones(self.log.n_steps)
        by_length = np.argsort(-log.lengths, kind="stable")
        starts, lengths = log.offsets[:-1][by_length], log.lengths[by_length]
        for t in range(1, log.horizon):
            rows = starts[: int(np.searchsorted(-lengths, -t, side="left"))] + t
            product[rows] = product[rows - 1] * factor[rows - 1]
        return product
