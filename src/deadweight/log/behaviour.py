r"""The behaviour policy, when nothing was logged: from counts, and candidates for learning it from rows.

Plain frequencies n(s, a) / n(s) are the observed policy. Two things go wrong with them in small states: an
action seen once in a state seen once gets probability one, and every step helps to estimate its own
probability, which flatters the weights. Shrinkage moves small states towards what the policy does elsewhere;
cross-fitting takes the probability of a step from the other episodes only.

A learner looks at rows (features, or state codes) with the actions taken there, and gives a function from
rows to probabilities. It never sees the rows that it is judged on: that is the caller's part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from deadweight.errors import MissingExtra, OptionError
from deadweight.log.columns import require_labels
from deadweight.log.interface import require_log
from deadweight.log.policies import TabularPolicy, frequencies
from deadweight.log.trajectories import Trajectories
from deadweight.tools.arithmetic import softmax
from deadweight.tools.bumps import Bumps
from deadweight.tools.limits import require_table
from deadweight.typing import AnyArray, FloatArray, IntArray

Towards = Literal["pooled", "uniform"]

LEARN_IT = "Have it learned from the features: --behaviour learned (in Python fit_behaviour(log))."

Predict = Callable[[AnyArray], FloatArray]
"""From rows, (m, d) or (m,), to probabilities, (m, A)."""
Learner = Callable[[AnyArray, IntArray, int, int], Predict]
"""From rows, actions, the number of actions and a seed to a prediction."""

MOST_ROUNDS = 200
BUMPS, LEAVES = 100, 15
# The share of the rows on which boosting judges where to stop.
SET_ASIDE = 0.1
# Counts are moved towards the shares of the whole log, which weigh as much as so many steps of a state.
PRIOR_STEPS = 1.0


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
    require_table(log.n_states, log.n_actions, "A behaviour policy from counts: a table")
    cells = log.states * log.n_actions + log.actions
    counts = np.bincount(cells, minlength=log.n_states * log.n_actions).reshape(log.n_states, log.n_actions)
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


def fit_logit(columns: FloatArray, actions: IntArray, n_actions: int, ridge: float = 1.0) -> FloatArray:
    r"""(p, A) weights of a multinomial logit of actions on columns, (m, p), with a ridge.

    .. math:: \min_W\; -\sum_i \log \mathrm{softmax}(x_i W)_{a_i} + \tfrac{\lambda}{2} \sum_{j > 0} |W_j|^2

    The first column of x is the constant, which the ridge leaves alone.
    """
    from scipy.optimize import minimize

    m, p = columns.shape
    hot = np.zeros((m, n_actions))
    hot[np.arange(m), actions] = 1.0
    kept = np.full((p, 1), ridge)
    kept[0] = 1e-6 * ridge  # so that adding one number to all scores is not free
    taken = np.arange(m), actions

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(p, n_actions)
        probs = softmax(columns @ weights)
        penalty = kept * weights
        value = -np.log(np.maximum(probs[taken], 1e-300)).sum() + 0.5 * float((penalty * weights).sum())
        slope = columns.T @ (probs - hot) + penalty
        return value / m, slope.ravel() / m

    start = np.zeros((p, n_actions))
    start[0] = np.log((hot.sum(axis=0) + 1.0) / (m + n_actions))
    options = {"maxiter": MOST_ROUNDS, "ftol": 1e-10, "gtol": 1e-6}
    optimise: Any = minimize  # its stubs have no function that returns its own slope
    result = optimise(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x).reshape(p, n_actions)


def logit(x: AnyArray, actions: IntArray, n_actions: int, seed: int) -> Predict:
    """A logit with linear scores of the standardised features."""
    return _linear(Bumps.fitted(x, 0, seed), x, actions, n_actions)


def bumps_logit(x: AnyArray, actions: IntArray, n_actions: int, seed: int) -> Predict:
    """A logit with Gaussian bumps, so that scores may bend."""
    return _linear(Bumps.fitted(x, BUMPS, seed), x, actions, n_actions)


def _linear(basis: Bumps, x: AnyArray, actions: IntArray, n_actions: int) -> Predict:
    weights = fit_logit(basis.of(x), actions, n_actions)
    return lambda rows: softmax(basis.of(rows) @ weights)


def boosting(x: AnyArray, actions: IntArray, n_actions: int, seed: int) -> Predict:
    """Gradient-boosted trees of scikit-learn, stopped where they begin to learn the rows by heart."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise MissingExtra("The candidate 'boosting'", "learners") from None
    times = np.bincount(actions, minlength=n_actions)
    # Where to stop is judged on rows set aside, which have to hold each action, and so do the others.
    often = times >= 2
    n, classes = int(times[often].sum()), int(np.count_nonzero(often))
    if classes < 2:
        return lambda rows: np.tile(times / len(actions), (len(rows), 1))
    kept = often[actions]
    trees = HistGradientBoostingClassifier(
        max_leaf_nodes=LEAVES,
        early_stopping=True,
        validation_fraction=SET_ASIDE if SET_ASIDE * n >= classes else classes,
        n_iter_no_change=5,
        random_state=seed,
    ).fit(x[kept], actions[kept])

    def predict(rows: AnyArray) -> FloatArray:
        probs = np.zeros((len(rows), n_actions))
        probs[:, trees.classes_] = trees.predict_proba(rows)
        return probs

    return predict


def counts(states: AnyArray, actions: IntArray, n_actions: int, seed: int) -> Predict:
    """Shares of the actions in each state, moved a little towards those of the whole log."""
    n_states = int(states.max()) + 1
    table = np.bincount(states * n_actions + actions, minlength=n_states * n_actions)
    table = table.reshape(n_states, n_actions)
    shares = (table.sum(axis=0) + 1.0) / (table.sum() + n_actions)
    probs = (table + PRIOR_STEPS * shares) / (table.sum(axis=1, keepdims=True) + PRIOR_STEPS)
    probs = np.concatenate([probs, shares[None]])  # a state that these rows do not have
    return lambda rows: probs[np.minimum(rows, n_states)]


LEARNERS: dict[str, Learner] = {
    "logit": logit,
    "bumps-logit": bumps_logit,
    "boosting": boosting,
    "counts": counts,
}
OF_STATES = frozenset({"counts"})
