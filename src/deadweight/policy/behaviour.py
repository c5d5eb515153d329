r"""The behaviour policy from counts, when nothing was logged.

Plain frequencies n(s, a) / n(s) are the observed policy. Two things go wrong with them in small states: an
action seen once in a state seen once gets probability one, and every step helps to estimate its own
probability, which flatters the weights. Shrinkage moves small states towards what the policy does elsewhere;
cross-fitting takes the probability of a step from the other episodes only.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from deadweight.basics.memory import require_table
from deadweight.errors import OptionError
from deadweight.log.interface import require_log
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy, frequencies
from deadweight.typing import FloatArray, IntArray

Towards = Literal["pooled", "uniform"]


def estimate_behaviour(
    log: Trajectories, shrinkage: float = 0.0, towards: Towards = "pooled"
) -> TabularPolicy:
    r"""The behaviour policy as observed.

    .. math:: \hat\pi_b(a \mid s) = \frac{n(s, a) + k\, p(a)}{n(s) + k}

    Args:
      log: episodes of the behaviour policy.
      shrinkage: k, how many steps the prior p counts for in every state; 0 gives plain frequencies, uniform
        where a state was never visited.
      towards: p is how often each action was taken in the whole log ("pooled"), or "uniform".

    Example:
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)], [(0, 1, 0.0)]])
      >>> estimate_behaviour(log).probs
      array([[0.33333333, 0.66666667]])
      >>> estimate_behaviour(log, shrinkage=3, towards="uniform").probs
      array([[0.41666667, 0.58333333]])
    """
    require_log(log)
    _check(shrinkage, towards, lowest=0.0)
    counts = _counts(log, np.ones(log.n_steps, dtype=bool)).reshape(log.n_states, log.n_actions)
    probs = frequencies(counts + shrinkage * _prior(counts, towards, 0.0))
    return TabularPolicy(probs, states=list(log.state_labels), actions=list(log.action_labels))


def cross_fitted_propensities(
    log: Trajectories, folds: int = 5, shrinkage: float = 1.0, towards: Towards = "pooled"
) -> FloatArray:
    """The probability of each logged action, estimated from the episodes of the other folds.

    Episode i is in fold i modulo `folds`. Use it with `log.with_propensities(...)`.

    Args:
      log: episodes of the behaviour policy.
      folds: parts of the log, at most one for each episode.
      shrinkage: as in `estimate_behaviour`, but above 0: an action that no other fold has seen in a state
        must keep a positive probability.
      towards: likewise; "pooled" counts every action once more than it was seen.

    Returns:
      (steps,) probabilities in (0, 1).

    Example:
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)], [(0, 1, 0.0)]])
      >>> cross_fitted_propensities(log, folds=3, towards="uniform")
      array([0.16666667, 0.5       , 0.5       ])

    Reference: Chernozhukov et al. (2018), Double/debiased machine learning.
    """
    require_log(log)
    _check(shrinkage, towards, lowest=np.nextafter(0.0, 1.0))
    if not 2 <= folds <= log.n_episodes:
        raise OptionError(
            f"folds must be between 2 and the number of episodes ({log.n_episodes}); found {folds}.",
            fix="Take fewer folds, or estimate_behaviour with shrinkage where there is one episode only.",
        )
    fold = np.repeat(np.arange(log.n_episodes) % folds, log.lengths)
    cell = log.states * log.n_actions + log.actions
    probabilities = np.empty(log.n_steps)
    for k in range(folds):
        counts = _counts(log, fold != k).reshape(log.n_states, log.n_actions)
        rows = np.flatnonzero(fold == k)
        prior = shrinkage * _prior(counts, towards, 1.0)
        visits = counts.sum(axis=1)[log.states[rows]]
        probabilities[rows] = (counts.ravel()[cell[rows]] + prior[log.actions[rows]]) / (visits + shrinkage)
    return probabilities


def _counts(log: Trajectories, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> IntArray:
    require_table(log.n_states, log.n_actions, "A behaviour policy from counts: a table")
    cells = log.states[rows] * log.n_actions + log.actions[rows]
    return np.bincount(cells, minlength=log.n_states * log.n_actions)


def _prior(counts: IntArray, towards: Towards, added: float) -> FloatArray:
    """(A,) the distribution over actions that small states are moved towards."""
    taken = counts.sum(axis=0) + added if towards == "pooled" else np.ones(counts.shape[1])
    return np.asarray(taken / taken.sum())


def _check(shrinkage: float, towards: str, lowest: float) -> None:
    if not (np.isfinite(shrinkage) and shrinkage >= lowest):
        raise OptionError(
            f"shrinkage must be a number {'above 0' if lowest > 0 else 'of at least 0'}; found {shrinkage}.",
            fix="It is the number of steps that the prior counts for, for example 1.0.",
        )
    if towards not in ("pooled", "uniform"):
        raise OptionError(f"towards must be 'pooled' or 'uniform'; found {towards!r}.")
