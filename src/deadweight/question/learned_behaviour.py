"""`fit_behaviour`: the behaviour policy learned from the actions that were taken, when nobody logged it.

Several learners compete. Each predicts the actions of every episode from the other folds' episodes only; the
one that predicts them best, by log-loss, is taken. What it says of a step was never fitted to that step: a
policy that has learned the log by heart would make ratios that look good and weights that are wrong.

Whether the ratios are right can be checked, see `deadweight.question.ratio_check`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deadweight.errors import MissingExtra, OptionError, assume, did_you_mean
from deadweight.log.behaviour import LEARNERS, OF_STATES
from deadweight.log.interface import require_log
from deadweight.log.labels import plain
from deadweight.log.policies import RowPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.question.question import ask
from deadweight.question.ratio_check import calibration_of, z_of_question
from deadweight.tools.arithmetic import frozen
from deadweight.tools.limits import few_threads
from deadweight.typing import AnyArray, FloatArray

CANDIDATES = ("logit", "bumps-logit", "boosting")
MOST_ROWS = 50_000
"""A learner is fitted to at most so many rows, drawn from those that it may see."""


class LearnedBehaviour(RowPolicy):
    """A behaviour policy that was learned from the log it is for; made by `fit_behaviour`.

    Attributes:
      chosen: the candidate that predicts best.
      scores: candidate -> mean log-loss on episodes that it has not seen; the smaller the better.
      propensities: (steps,) the probability of each logged action, in the order of `log.actions`, for
        `log.with_propensities`; `probs` are in the order of the table that the log was read from.
    """

    def __init__(
        self, log: Trajectories, probs: FloatArray, last: FloatArray, chosen: str, scores: dict[str, float]
    ) -> None:
        actions = [plain(label) for label in log.action_labels]
        rows, episodes = log.order_of_rows.order
        super().__init__(probs[rows], actions, last[episodes] if np.isfinite(last).any() else None)
        self._of = None if log._table_rows is None else log._table_rows.select(rows, episodes)
        self.chosen, self.scores = chosen, scores
        self.propensities: FloatArray = frozen(probs[np.arange(log.n_steps), log.actions])
        self._log = log

    def z(self, pi_e: Any = None) -> float:
        """The mean over episodes of sum_t (rho_t - 1), in standard errors; beyond 3 something is wrong.

        Args:
          pi_e: any policy; None takes the log's target_prob.
        """
        return z_of_question(ask(self._log, pi_e, self))

    @property
    def calibration(self) -> list[dict[str, Any]]:
        """What was predicted and what happened, a record for each action and tenth of the steps.

        Each has action, steps, predicted (mean probability), observed (share of steps with that action) and
        std_error (of the share, if the prediction were right).
        """
        log = self._log
        probs = self.in_order_of(log).probs
        return calibration_of(probs, log.actions, log.action_labels, np.arange(log.n_actions))


def fit_behaviour(
    log: Trajectories,
    candidates: Sequence[str] = CANDIDATES,
    folds: int = 5,
    floor: float = 1e-3,
    seed: int = 0,
) -> LearnedBehaviour:
    """The behaviour policy, learned by episodes of other folds and chosen by held-out log-loss.

    Args:
      log: episodes of the behaviour policy.
      candidates: among "logit" (linear scores), "bumps-logit" (scores that bend), "boosting" (trees; extra
        `learners`) and, on a log with states, "counts", which is always one of them there. A log without
        features has "counts" only.
      folds: parts of the log, at most one for each episode; episode i is in fold i modulo `folds`.
      floor: no action that the log has gets less probability than this.
      seed: of the learners.

    Example:
      >>> from deadweight.domains import sepsis_like
      >>> log = sepsis_like().sample(episodes=300, seed=0)
      >>> pi_b = fit_behaviour(log, candidates=["logit"])
      >>> pi_b.probs.shape == (log.n_steps, 3), list(pi_b.scores)
      (True, ['logit'])
      >>> abs(pi_b.z(sepsis_like().pi_e)) < 3
      True

    Reference: Hanna, Niekum & Stone (2019); Chernozhukov et al. (2018).
    """
    require_log(log)
    _check(folds, floor, log)
    results = {}
    for name in _named(candidates, log):
        try:
            with few_threads(log.n_steps):
                results[name] = _predicted(name, log, folds, floor, seed)
        except MissingExtra:
            if tuple(candidates) != CANDIDATES:
                raise
            assume(
                "The candidate 'boosting' was left out: it needs scikit-learn "
                "(pip install 'deadweight[learners]'). To leave it out on purpose: "
                "candidates=('logit', 'bumps-logit')."
            )
    taken = np.arange(log.n_steps), log.actions
    scores = {name: float(-np.log(probs[taken]).mean()) for name, (probs, _) in results.items()}
    chosen = min(scores, key=scores.__getitem__)
    return LearnedBehaviour(log, *results[chosen], chosen, scores)


def _check(folds: int, floor: float, log: Trajectories) -> None:
    whole = isinstance(folds, int | np.integer) and not isinstance(folds, bool)
    if not (whole and 2 <= folds <= log.n_episodes):
        raise OptionError(
            f"folds must be a whole number between 2 and the number of episodes ({log.n_episodes}); found "
            f"{folds!r}.",
            fix="A policy that is learned from other episodes needs two of them or more.",
        )
    if not (isinstance(floor, int | float | np.floating) and 0.0 < floor * log.n_actions < 1.0):
        raise OptionError(
            f"floor must be above 0 and below 1 / {log.n_actions}, the number of actions; found {floor!r}.",
            fix="It is the least probability of an action, for example 0.001.",
        )


def _named(candidates: Sequence[str], log: Trajectories) -> list[str]:
    """The candidates that this log allows."""
    names = [candidates] if isinstance(candidates, str) else list(candidates or ())
    if not names:
        raise OptionError(
            f"candidates must name one learner or more, of {', '.join(LEARNERS)}; found {candidates!r}.",
            fix='For example candidates=("logit", "boosting").',
        )
    for name in names:
        if name not in LEARNERS:
            raise OptionError(
                f"Candidates are {', '.join(LEARNERS)}; found {name!r}." + did_you_mean(str(name), LEARNERS),
                fix='For example candidates=("logit", "boosting").',
            )
    if not log.has_states and "counts" in names:
        raise OptionError(
            "The candidate 'counts' needs labels of states; this log has features only.",
            fix="Use 'logit', 'bumps-logit' or 'boosting'.",
        )
    if log.features is None:
        if "counts" not in names and tuple(candidates) != CANDIDATES:
            raise OptionError(
                f"The candidates {', '.join(names)} need features; this log has labels of states only.",
                fix="Use candidates=['counts'], or give the log features.",
            )
        return ["counts"]
    return [*names, "counts"] if log.has_states and "counts" not in names else names


def _predicted(
    name: str, log: Trajectories, folds: int, floor: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """(steps, A) what a candidate says of each step, and (n, A) of what follows cut episodes."""
    rows, after, known = _described(name, log)
    fold_of_episode = np.arange(log.n_episodes) % folds
    fold = np.repeat(fold_of_episode, log.lengths)
    seen = np.bincount(log.actions, minlength=log.n_actions) > 0
    probs = np.empty((log.n_steps, log.n_actions))
    last = np.full((log.n_episodes, log.n_actions), np.nan)
    for k in range(folds):
        train = np.flatnonzero(fold != k)
        if len(train) > MOST_ROWS:
            rng = np.random.default_rng([seed, k])
            train = np.sort(rng.choice(train, MOST_ROWS, replace=False))
        predict = LEARNERS[name](rows[train], log.actions[train], log.n_actions, seed)
        held_out, cut = fold == k, known & (fold_of_episode == k)
        probs[held_out] = _floored(predict(rows[held_out]), seen, floor)
        if cut.any():
            last[cut] = _floored(predict(after[cut]), seen, floor)
    return probs, last


def _described(name: str, log: Trajectories) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The inputs of a learner: at each step, after each episode, and where the latter are known."""
    if name in OF_STATES:
        following = log.next_states[log.offsets[1:] - 1]
        return log.states, following, ~log.terminated & (following >= 0)
    assert log.features is not None, "candidates are checked"
    assert log.last_features is not None, "it comes with features"
    return log.features, log.last_features, ~log.terminated & np.isfinite(log.last_features).all(axis=1)


def _floored(probs: FloatArray, seen: AnyArray, floor: float) -> FloatArray:
    """Probabilities of at least `floor` for every action that the log has, none for the others."""
    kept = np.where(seen, np.maximum(probs, floor), 0.0)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))
