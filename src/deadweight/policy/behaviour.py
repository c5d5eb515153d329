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
from deadweight.log.features import require_labels
from deadweight.log.interface import require_log
from deadweight.log.trajectories import Trajectories
from deadweight.policy.policies import TabularPolicy, frequencies
from deadweight.typing import FloatArray, IntArray

Towards = Literal["pooled", "uniform"]

LEARN_IT = "Have it learned from the features: --behaviour learned (in Python fit_behaviour(log))."


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
    require_labels(require_log(log), "A behaviour policy from counts", LEARN_IT)
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
      (steps,) probabilities in (0, 1), in the order of `log.actions`.

    Example:
      >>> log = Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 0.0)], [(0, 1, 0.0)]])
      >>> cross_fitted_propensities(log, folds=3, towards="uniform")
      array([0.16666667, 0.5       , 0.5       ])

    Reference: Chernozhukov et al. (2018), Double/debiased machine learning.
    """
    require_labels(require_log(log), "A behaviour policy from counts", LEARN_IT)
    _check(shrinkage, towards, lowest=np.nextafter(0.0, 1.0))
    if not 2 <= folds <= log.n_episodes:
        raise OptionError(
            f"folds must be between 2 and the number of episodes ({log.n_episodes}); found {folds}.",
            fix="Take fewer folds, or estimate_behaviour with shrinkage where there is one episode only.",
        )
    return propensities_by_fold(log, counts_by_fold(log, folds), shrinkage=shrinkage, towards=towards)


def counts_by_fold(log: Trajectories, folds: int, first: int = 0) -> IntArray:
    """(folds, S, A) how often each action was taken in each state by the episodes of each fold.

    `first` is the number of the log's first episode, where it is a part of a longer one.
    """
    tables = folds + 2  # one a fold, their sum, and that without a fold
    require_table(log.n_states, log.n_actions, "A behaviour policy from counts: a table", tables)
    shape = folds, log.n_states, log.n_actions
    cells = (_folds(log, folds, first) * log.n_states + log.states) * log.n_actions + log.actions
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def propensities_by_fold(
    log: Trajectories, counts: IntArray, first: int = 0, shrinkage: float = 1.0, towards: Towards = "pooled"
) -> FloatArray:
    """(steps,) probabilities of the logged actions from the counts of the other folds."""
    fold = _folds(log, len(counts), first)
    cell = log.states * log.n_actions + log.actions
    whole, probabilities = counts.sum(axis=0), np.empty(log.n_steps)
    for k in range(len(counts)):
        others = whole - counts[k]
        rows = np.flatnonzero(fold == k)
        prior = shrinkage * _prior(others, towards, 1.0)
        visits = others.sum(axis=1)[log.states[rows]]
        probabilities[rows] = (others.ravel()[cell[rows]] + prior[log.actions[rows]]) / (visits + shrinkage)
    return probabilities


def _folds(log: Trajectories, folds: int, first: int) -> IntArray:
    """(steps,) the fold of each step's episode."""
    return np.repeat((first + np.arange(log.n_episodes)) % folds, log.lengths)


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
        raise OptionError(
            f"towards must be 'pooled' or 'uniform'; found {towards!r}.",
            fix="For example estimate_behaviour(log, towards='pooled').",
        )
