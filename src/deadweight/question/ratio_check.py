r"""Are the ratios right? Checks of the behaviour policy that need no truth.

Where states have labels, action a is taken in N(s) visits to s as often as in so many draws with probability
p(a | s). Whatever these visits depend on, a share h of them is (Chernoff) no more likely than

.. math:: \exp(-N(s) \, KL(h \,\|\, p)), \qquad KL = h \log(h / p) + (1 - h) \log((1 - h) / (1 - p))

Logged probabilities are known of actions that were taken. Where they vary within (s, a) none of them stands
for the others, and what was not taken is not known: then

.. math:: M = \prod_t \left( 1 + c \left( \frac{1_a}{p_t} - 1 \right) \right)

over the visits of a state, or of all states, is a fair bet on action a, whatever p depends on: its mean is 1,
and it exceeds k in no more than one of k logs (Ville). The mean over some shares c is such a bet as well. It
finds probabilities that are too small; of those that are too large it says nothing.

Elsewhere many pairs that were seen a few times each tell something together: those of one action, and all of
them in the direction that matters:

.. math:: z_1 = \text{mean}_i \sum_t (\rho_{it} - 1) \;/\; \text{its standard error}

Under the true pi_b the mean of rho is 1 in every state, whatever pi_e is, so z_1 is about a standard normal
number. A pi_b that was fitted badly, or that has learned the log by heart, moves it far away. The product of
ratios has mean 1 as well, but so long a tail that its z misleads. What pi_b looked at and the log does not
show moves neither: no check of a log can see that.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from deadweight.log.labels import plain
from deadweight.log.trajectories import Trajectories, episode_of_rows
from deadweight.sums.blocks import Block
from deadweight.sums.summaries import KeyedSums, z_from_one
from deadweight.tools.arithmetic import divide, sums_by
from deadweight.tools.thresholds import FALSE_ALARMS, MISCALIBRATED, MISCALIBRATED_ROWS
from deadweight.typing import FloatArray, IntArray, Labels

if TYPE_CHECKING:
    from deadweight.question.question import Question

# Smaller probabilities are taken for this one, whose inverse can be squared.
LEAST = 1e-150
# Relative variance of 1 / p within a pair beyond rounding.
VARIES = 1e-9
# Shares of what there is that are bet on an action.
BETS = (0.02, 0.05, 0.1, 0.2, 0.4)
# Variance of how often an action is taken from which on its distribution is nearly normal.
ENOUGH = 5.0
ALMOST_ONE = 1.0 - 1e-12
BINS = 10
FLAG = "behaviour-miscalibrated"


def z_of(log: Trajectories, rho: FloatArray) -> float:
    """The mean over episodes of sum_t (rho_t - 1), in standard errors; 0 where all ratios are 1."""
    episode = episode_of_rows(log)
    sums = sums_by(episode, rho - 1.0, log.n_episodes)
    error = float(sums.std(ddof=1)) / np.sqrt(log.n_episodes) if log.n_episodes > 1 else 0.0
    return float(sums.mean() / error) if error > 0 else 0.0


def z_of_question(question: Question) -> float:
    """z of the ratios of a question about a log in memory."""
    log, pair = question.parts[0], question.pair
    return z_of(log, pair.evaluation.along(log) / pair.behaviour.along(log))


@dataclass(frozen=True)
class InverseProbabilities:
    """By state and action: visits, sums of 1 / p and of 1 / p^2 over logged probabilities, and won bets."""

    n_actions: int

    @property
    def key(self) -> Hashable:
        """One for each number of actions."""
        return ("inverse-probabilities", self.n_actions)

    def summarise(self, block: Block) -> KeyedSums:
        """Of a block."""
        alive = np.ones((block.n, block.horizon), dtype=bool) if block.alive is None else block.alive
        assert block.log.propensities is not None
        inverse = 1.0 / np.maximum(block.take(block.log.propensities, 1.0)[alive], LEAST)
        won = (np.log1p(c * (inverse - 1.0)) - math.log1p(-c) for c in BETS)
        return KeyedSums.of(block.pairs(self.n_actions)[alive], 1.0, inverse, np.square(inverse), *won)


@dataclass(frozen=True, eq=False)
class Stated:
    """The old policy as it was stated, beside what was done.

    Attributes:
      taken: (S, A) how often each action was taken.
      probs: (S, A) stated probabilities; where only those of logged actions are known, the harmonic mean of a
        pair's, and 1 / (visits + 1) for an action that was never taken.
      inverse, squares: (S, A) sums of 1 / p and of 1 / p^2 over logged probabilities; None for a table.
      won: (bets, S, A) logarithms of what bets on actions that were taken have won, over not having won.
    """

    taken: FloatArray
    probs: FloatArray
    inverse: FloatArray | None = None
    squares: FloatArray | None = None
    won: FloatArray | None = None

    @classmethod
    def of_logged(cls, sums: KeyedSums, shape: tuple[int, int]) -> Stated:
        """Of logged probabilities."""
        columns = [sums_by(sums.keys, each, shape[0] * shape[1]).reshape(shape) for each in sums.sums]
        taken, inverse, squares, *won = columns
        unseen = 1.0 / (taken.sum(axis=1, keepdims=True) + 1.0)
        means = np.minimum(divide(taken, inverse), 1.0)
        return cls(taken, np.where(taken > 0, means, unseen), inverse, squares, np.stack(won))

    def is_contradicted(self, pi_e: FloatArray | None) -> bool:
        """Whether what was done contradicts it; pi_e is (S, A), None where it is not known of all actions."""
        if self.varies:
            return self._is_outbet
        if _is_too_much(self._surprise()):
            return True
        by_action = bool((np.abs(self._action_z()) > MISCALIBRATED).any())
        return by_action or (pi_e is not None and abs(self._ratio_z(pi_e)) > MISCALIBRATED)

    @cached_property
    def varies(self) -> bool:
        """Whether logged probabilities of one pair differ."""
        if self.inverse is None or self.squares is None:
            return False
        return bool((self.taken * self.squares > (1.0 + VARIES) * np.square(self.inverse)).any())

    @property
    def _is_outbet(self) -> bool:
        """Whether a bet on an action, in a state or in all of them, has won more than chance allows."""
        assert self.won is not None
        visits, lost = self.taken.sum(axis=1)[:, None], np.log1p(-np.array(BETS))[:, None, None]
        by_pair = self.won + visits * lost  # (bets, S, A)
        for bets in (by_pair, by_pair.sum(axis=1)):
            if _is_too_much(np.logaddexp.reduce(bets, axis=0) - math.log(len(BETS))):
                return True
        return False

    def _surprise(self) -> FloatArray:
        """(pairs,) - log of a bound of the chance that an action is taken so much more, or less, often."""
        taken = self.taken
        visits = np.broadcast_to(taken.sum(axis=1, keepdims=True), taken.shape)
        tested = visits > 0 if self.inverse is None else taken > 0
        visits, p = visits[tested], self.probs[tested]
        share = taken[tested] / visits
        with np.errstate(divide="ignore", invalid="ignore"):
            more = np.where(share > 0, share * np.log(share / p), 0.0)
            less = np.where(share < 1, (1.0 - share) * np.log((1.0 - share) / (1.0 - p)), 0.0)
        surprise: FloatArray = visits * (more + less)
        return surprise

    def _action_z(self) -> FloatArray:
        """(A,) how much more often each action was taken than stated, over all states, in standard errors.

        Logged probabilities are known where an action was taken, and say how often if at all.
        """
        taken = self.taken
        visits = np.broadcast_to(taken.sum(axis=1, keepdims=True), taken.shape)
        mean = visits * self.probs
        square = mean * (1.0 - self.probs) + np.square(mean)
        if self.inverse is not None:
            there = taken > 0
            at_all = -np.expm1(visits * np.log1p(-np.minimum(self.probs, ALMOST_ONE)))
            at_all = np.where(there, at_all, 1.0)
            mean, square = np.where(there, mean / at_all, 0.0), np.where(there, square / at_all, 0.0)
        variance = (square - np.square(mean)).sum(axis=0)
        enough = variance >= ENOUGH
        return divide((taken - mean).sum(axis=0), np.sqrt(np.where(enough, variance, np.inf)))

    def _ratio_z(self, pi_e: FloatArray) -> float:
        """z_1, with the variance that ratios must have by the stated probabilities."""
        taken, ratios = self.taken, divide(pi_e, self.probs)
        visits = taken.sum(axis=1, keepdims=True)
        squares = visits * self.chi_squares(pi_e)
        steps, expected = float(visits.sum()), pi_e * (self.probs > 0)
        total = float((ratios * taken - expected * visits).sum())
        return z_from_one(1.0 + total / steps, math.sqrt(float(squares.sum())) / steps) if steps else 0.0

    def chi_squares(self, pi_e: FloatArray) -> FloatArray:
        """(S, A) (pi_e - p)^2 / p, whose sum over actions is the variance of a ratio."""
        return divide(np.square(pi_e - self.probs), self.probs)

    def second_moments(self, pi_e: FloatArray) -> FloatArray:
        """(S, A) pi_e^2 / p, whose sum over actions is the second moment of a ratio."""
        squares = divide(np.square(pi_e), self.probs)
        # Where probabilities are known of logged actions only, they need not sum to 1.
        variance = self.chi_squares(pi_e).sum(axis=1, keepdims=True)
        return squares * divide(1.0 + variance, squares.sum(axis=1, keepdims=True))


def _is_too_much(logs: FloatArray) -> bool:
    """Whether any of several -log chances (or logs of what fair bets won) is too large for so many tests."""
    return bool(logs.size and logs.max() > math.log(2 * logs.size / FALSE_ALARMS))


def ratio_flags(question: Question) -> tuple[str, ...]:
    """The flag of a behaviour policy whose ratios are wrong; for policies that are given row by row."""
    return (FLAG,) if abs(z_of_question(question)) > MISCALIBRATED_ROWS else ()


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
