"""What else one would do to get a better policy from a log: the model's optimum, SPIBB, a tested candidate.

All of them learn from the same fitted model and the same averaged action values as `deadweight.improve`, so
that they differ in what they dare to change and in how they make sure, and in nothing else.

- The model's optimum: policy iteration in the fitted model.
- SPIBB (Laroche, Trichelair & Tachet des Combes, 2019): pairs seen fewer than so many times keep their
  probability; what is left of it goes to the best of the others.
- HCPI (Thomas, Theocharous & Ghavamzadeh, 2015): a mixture of pi_b and the optimum of one half of the log,
  shipped if the lower end of its interval on the other half is above the mean return.
"""

from __future__ import annotations

import numpy as np

from deadweight.estimate import estimate
from deadweight.improving.advantages import Horizon, Models
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy
from deadweight.question.asking import ask
from deadweight.question.core import Question
from deadweight.typing import BoolArray, FloatArray

MOST_ROUNDS = 30
MIXES = (1.0, 0.5, 0.25, 0.1)
LEVEL = 0.95


def model_optimum(log: Trajectories, pi_b: TabularPolicy) -> FloatArray:
    """(S, A) the best policy of the fitted model."""
    question = ask(log, pi_b, pi_b)
    return _iterated(question, np.ones_like(question.pi_b, dtype=bool))


def spibb(log: Trajectories, pi_b: TabularPolicy, fewest: int) -> FloatArray:
    """(S, A) the best policy of the fitted model that leaves pairs seen less than `fewest` times alone."""
    question = ask(log, pi_b, pi_b)
    return _iterated(question, question.counts.visits() >= fewest)


def _iterated(question: Question, free: BoolArray) -> FloatArray:
    """Policy iteration that moves only the probability of free pairs."""
    pi_b = question.pi_b
    models = Models(question.model, 1, Horizon.of(question))
    kept = np.where(free, 0.0, pi_b)
    left = 1.0 - kept.sum(axis=1)
    every, pi = np.arange(len(pi_b)), pi_b
    for _ in range(MOST_ROUNDS):
        q = models.mean_values(pi, pi_b)[0]
        best = np.where(free, q, -np.inf).argmax(axis=1)
        before, pi = pi, kept.copy()
        pi[every, best] += left
        pi = np.where(free.any(axis=1, keepdims=True), pi, pi_b)
        if np.array_equal(before, pi):
            break
    return pi


def candidate_that_passed(
    log: Trajectories, pi_b: TabularPolicy, estimator: str, rng: np.random.Generator
) -> FloatArray:
    """(S, A) the candidate that was best on one half if it passes on the other, else pi_b.

    The candidate is the mixture with the highest lower end on the half that it was learnt from, with the size
    of the other one in mind; both have one-sided confidence `LEVEL`.
    """
    first = np.zeros(log.n_episodes, dtype=bool)
    first[rng.permutation(log.n_episodes)[: log.n_episodes // 2]] = True
    training, testing = log.select(first), log.select(~first)
    table = ask(log, pi_b, pi_b).pi_b
    optimum = model_optimum(training, pi_b)
    candidates = [mix * optimum + (1 - mix) * table for mix in MIXES]
    lowest = [_lower_end(training, pi, pi_b, estimator) for pi in candidates]
    chosen = candidates[int(np.argmax(lowest))]
    passed = _lower_end(testing, chosen, pi_b, estimator) > _mean_return(testing)
    return chosen if passed else table


def _lower_end(log: Trajectories, pi: FloatArray, pi_b: TabularPolicy, estimator: str) -> float:
    """One-sided: with the confidence of an interval whose both ends together have less."""
    found = estimate(estimator, log, TabularPolicy(pi), pi_b, interval="student-t", level=2 * LEVEL - 1)
    assert found.interval is not None
    return found.interval[0]


def _mean_return(log: Trajectories) -> float:
    return float(log.rewards.sum() / log.n_episodes)
