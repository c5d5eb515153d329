"""The recipe: change the behaviour policy only where that pays, by more than the log leaves open.

From pi = pi_b, at most four times: what each action is worth in each state if pi is followed otherwise
(`advantages.py`), with the standard error of twenty models of the Bayesian bootstrap; a state takes the
action with the highest advantage less `caution` standard errors if that is above 0 and the action was tried
there often enough, and keeps pi_b otherwise. What comes out is what state-based importance sampling can
evaluate: a policy that is pi_b nearly everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadweight.basics.memory import NUMBER, require
from deadweight.errors import OptionError
from deadweight.improving.advantages import Horizon, Models, advantages
from deadweight.improving.weighted_counts import count_weighted
from deadweight.question.core import Question
from deadweight.typing import FloatArray, IntArray
from deadweight.values.model import mdp_from_counts

ROUNDS = 4
RESAMPLES = 20
KEEP = -1
"""In place of an action: the state keeps the behaviour policy."""


@dataclass(frozen=True)
class Recipe:
    """How a policy is learnt.

    Attributes:
      caution: standard errors by which a change must pay.
      min_visits: how often an action must have been tried in a state.
    """

    caution: float = 2.0
    min_visits: int = 10

    def __post_init__(self) -> None:
        if not (isinstance(self.caution, int | float) and 0 <= self.caution < float("inf")):
            raise OptionError(
                f"caution must be a number of at least 0, in standard errors; found {self.caution!r}.",
                fix="2 is the default; more changes less.",
            )
        if isinstance(self.min_visits, bool) or not isinstance(self.min_visits, int) or self.min_visits < 1:
            raise OptionError(
                f"min_visits must be a whole number of at least 1; found {self.min_visits!r}.",
                fix="10 is the default: how often an action was tried in a state before it may be taken.",
            )


@dataclass(frozen=True, eq=False)
class Learnt:
    """A policy, and what it rests on.

    Attributes:
      pi: (S, A).
      action: (S,) what is done instead of pi_b; `KEEP` where nothing is changed.
      advantage, std_error: (S, A) what an action is worth above pi_b in one visit of a state.
      visits: (S, A) how often it was tried there.
    """

    pi: FloatArray
    action: IntArray
    advantage: FloatArray
    std_error: FloatArray
    visits: FloatArray

    @property
    def changed(self) -> IntArray:
        """States in which the policy differs from pi_b."""
        return np.flatnonzero(self.action != KEEP)


def learn(question: Question, recipe: Recipe, rng: np.random.Generator, among: FloatArray) -> Learnt:
    """The policy of some of the episodes.

    Args:
      question: the log, pi_b, and how models are solved.
      recipe: how.
      rng: of the weights of the bootstrap.
      among: (n,) 1 for the episodes to learn from, 0 for the others.
    """
    require(
        2 * NUMBER * float(RESAMPLES) * question.n,
        f"Weights of {RESAMPLES} resamples x {question.n:,} episodes",
        "Take a part of the episodes.",
    )
    weights = np.concatenate([among[None], among * rng.exponential(size=(RESAMPLES, question.n))])
    sizes = (question.pair.n_states, question.pair.n_actions)
    counts = count_weighted(question.parts, weights, sizes, question.workers)
    stacked = mdp_from_counts(counts.stacked(range(len(weights))), question.horizon, question.options.unseen)
    models = Models(stacked, len(weights), Horizon.of(question))
    return improved(models, question.pi_b, counts.of(0).visits(), recipe)


def improved(models: Models, pi_b: FloatArray, visits: FloatArray, recipe: Recipe) -> Learnt:
    """The policy that the first of the models gives, with standard errors from all the others.

    Args:
      models: that of the log, followed by those of its resamples.
      pi_b: (S, A).
      visits: (S, A) of each pair in the log.
      recipe: how.
    """
    every = np.arange(len(pi_b))
    action = np.full(len(pi_b), KEEP)
    for _ in range(ROUNDS):
        pi = _policy(pi_b, action)
        q = models.mean_values(pi, pi_b)
        above = advantages(q, pi_b)
        advantage, std_error = above[0], above[1:].std(axis=0, ddof=1)
        surely = np.where(visits >= recipe.min_visits, advantage - recipe.caution * std_error, -np.inf)
        best = surely.argmax(axis=1)
        before, action = action, np.where(surely[every, best] > _rounding(q[0]), best, KEEP)
        if np.array_equal(before, action):
            break
    return Learnt(_policy(pi_b, action), action, advantage, std_error, visits)


def _policy(pi_b: FloatArray, action: IntArray) -> FloatArray:
    pi = pi_b.copy()
    changed = np.flatnonzero(action != KEEP)
    pi[changed] = 0.0
    pi[changed, action[changed]] = 1.0
    return pi


def _rounding(values: FloatArray) -> float:
    """What is not more than this is nothing: actions that do the same differ in their last digits."""
    return 1e-9 * float(np.abs(values).max())
