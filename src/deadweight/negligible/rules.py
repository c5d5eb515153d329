"""Drops by name: "auto", "q-gap:1.0", "covariance:0.01" and "return-test:0.05"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from deadweight.answers.plans import Plan
from deadweight.answers.rounds import Task
from deadweight.errors import DropError, EstimationError, did_you_mean
from deadweight.estimators.estimator import Estimator
from deadweight.log.columns import require_labels
from deadweight.log.labels import StateSet
from deadweight.log.trajectories import Trajectories
from deadweight.negligible.path import path_of, paths
from deadweight.negligible.state_tests import states_below
from deadweight.question.drops import Drop, chosen_drop, drop_of
from deadweight.question.question import Question

# Doubly robust estimates drop more, and lean on the model where they do: it must have seen more.
MIN_VISITS, MIN_VISITS_DOUBLY_ROBUST = 3, 5
# The automatic rules by name: whether they are anchored.
AUTOMATIC = {"anchored": True, "free": False}
# Rules that group steps by state, as messages call them.
LABELLED = {"covariance": "The covariance test", "return-test": "The return test"}


def automatic_paths(
    question: Question,
    estimators: Sequence[Estimator],
    drop: Any,
    shown: Estimator | None = None,
) -> Task[None]:
    """Make the paths of several estimators together, where an automatic rule needs them.

    Args:
      question, estimators: as in `states_by_rule`.
      drop: as the user gave it.
      shown: its levels will be shown, each with the standard error of its own interval.
    """
    if not isinstance(drop, str) or read_rule(drop)[0] != "auto":
        return
    anchored = _is_anchored(drop)
    wanted = [(estimator, least_visits(estimator)) for estimator in estimators if estimator.is_state_based]
    if shown is None or not anchored or not question.has_values:
        yield from paths(question, wanted, anchored)
    else:
        of_background = (shown, least_visits(shown))
        yield from paths(question, [*wanted, of_background], anchored, of_background)


def least_visits(estimator: Estimator) -> int:
    """How often an action must have been seen in a state that may be dropped."""
    return MIN_VISITS_DOUBLY_ROBUST if estimator.contains_correction else MIN_VISITS


def automatic(question: Question, estimator: Estimator, anchored: bool = True) -> StateSet:
    """The chosen level of the path of this estimator; its origin says what was chosen and why."""
    path = path_of(question, estimator, least_visits(estimator), anchored)
    return path.levels.states(path.chosen, f"automatic choice for {estimator.name}: {path.reason()}")


def states_by_rule(question: Question, estimator: Estimator, rule: str) -> StateSet:
    """The drop set of an estimator that a rule in words asks for.

    Args:
      question: log, policies and options.
      made: the estimator that is to drop; only "auto" depends on it.
      rule: "auto", or one of "q-gap", "covariance" and "return-test" with its threshold, as in "q-gap:1.0".
        "auto:anchored" and "auto:free" say which of the automatic rules, see `deadweight.negligible.path`.
    """
    kind, value = read_rule(rule)
    if kind in LABELLED:
        require_labels(question.parts, LABELLED[kind])
    if kind != "auto":
        return RULES[kind](question, value)
    return automatic(question, estimator, _is_anchored(rule))


def _is_anchored(rule: str) -> bool:
    return AUTOMATIC.get(rule.partition(":")[2], True)


def read_rule(rule: str) -> tuple[str, float]:
    """The kind of a rule and its threshold; an error if there is no such rule.

    >>> read_rule("q-gap:1.0")
    ('q-gap', 1.0)
    """
    kind, colon, threshold = rule.partition(":")
    if kind == "auto" and (not colon or threshold in AUTOMATIC):
        return kind, 0.0
    if kind not in RULES:
        raise DropError(
            f"There is no rule {rule!r} for a drop.{did_you_mean(kind, ['auto', *RULES])}",
            fix='Rules are "auto", "q-gap:1.0", "covariance:0.01" and "return-test:0.05".',
        )
    try:
        value = float(threshold)
    except ValueError:
        raise DropError(
            f"The rule {kind!r} needs a number after a colon; found {rule!r}.", fix=f'Write "{kind}:0.05".'
        ) from None
    return kind, value


def _covariance(question: Question, epsilon: float) -> StateSet:
    from deadweight.negligible.covariance_test import Rule, covariance_set

    log = _one_piece(question, LABELLED["covariance"])
    return covariance_set(log, question.pair, Rule(epsilon), question.gamma)


def _return_test(question: Question, alpha: float) -> StateSet:
    from deadweight.negligible.state_tests import return_set

    return return_set(_one_piece(question, LABELLED["return-test"]), alpha, question.gamma)


def _one_piece(question: Question, what: str) -> Trajectories:
    if len(question.parts) == 1:
        return question.parts[0]
    raise EstimationError(
        f"{what} needs a log in one piece; found {len(question.parts)} pieces.",
        fix="Read the log whole with deadweight.read (--no-stream).",
    )


RULES: dict[str, Callable[[Question, float], StateSet]] = {
    "q-gap": states_below,
    "covariance": _covariance,
    "return-test": _return_test,
}


# --- The drop of an estimator, from what was asked for: a rule in words, a function, or states themselves


def resolved(question: Question, estimator: Estimator, drop: Any) -> Drop:
    """The drop of a state-based estimator."""
    if isinstance(drop, str):
        return chosen_drop(question, states_by_rule(question, estimator, drop))
    if callable(drop):
        return drop_of(question, drop(question), made_of_log=True)
    return drop_of(question, drop)


def chooser_of(plan: Plan, drop: Any) -> Callable[[Question], Drop] | None:
    """The rule that chooses the plan's drop from a log; None where the user gave the drop itself."""
    if not (plan.estimator.is_state_based and (isinstance(drop, str) or callable(drop))):
        return None
    return lambda question: resolved(question, plan.estimator, drop)
