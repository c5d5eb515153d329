"""Candidates for a behaviour policy: ways to learn the probability of each action from logged steps.

A learner looks at rows (features, or state codes) with the actions taken there, and gives a function from
rows to probabilities. It never sees the rows that it is judged on: that is the caller's part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deadweight.basics.bumps import Bumps
from deadweight.errors import MissingExtra
from deadweight.policy.logit import fit_logit, probabilities
from deadweight.typing import AnyArray, FloatArray, IntArray

Predict = Callable[[AnyArray], FloatArray]
"""From rows, (m, d) or (m,), to probabilities, (m, A)."""
Learner = Callable[[AnyArray, IntArray, int, int], Predict]
"""From rows, actions, the number of actions and a seed to a prediction."""

BUMPS = 100
LEAVES = 15
SET_ASIDE = 0.1
PRIOR_STEPS = 1.0
"""Counts are moved towards the shares of the whole log, which weigh as much as so many steps of a state."""


def logit(x: AnyArray, actions: IntArray, n_actions: int, seed: int) -> Predict:
    """Linear scores of the standardised features."""
    return _linear(Bumps.fitted(x, 0, seed), x, actions, n_actions)


def bumps_logit(x: AnyArray, actions: IntArray, n_actions: int, seed: int) -> Predict:
    """The same with Gaussian bumps, so that scores may bend."""
    return _linear(Bumps.fitted(x, BUMPS, seed), x, actions, n_actions)


def _linear(basis: Bumps, x: AnyArray, actions: IntArray, n_actions: int) -> Predict:
    weights = fit_logit(basis.of(x), actions, n_actions)
    return lambda rows: probabilities(basis.of(rows), weights)


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
    some = often[actions]
    trees = HistGradientBoostingClassifier(
        max_leaf_nodes=LEAVES,
        early_stopping=True,
        validation_fraction=SET_ASIDE if SET_ASIDE * n >= classes else classes,
        n_iter_no_change=5,
        random_state=seed,
    ).fit(x[some], actions[some])

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
